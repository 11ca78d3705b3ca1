"""The official data sets, as users give them."""

import csv
import gzip
import io
import json
import zipfile
from pathlib import Path

import nibabel
import numpy as np
import pytest
from mlbench_bert.dataset import SquadWindows
from mlbench_bert.squad import Vocabulary, Windows, read_features, read_questions
from mlbench_dlrm_v2.criteo import Renumbering, read_raw
from mlbench_dlrm_v2.day_files import DENSE, HOT, LABELS, Day, open_day, write_day
from mlbench_dlrm_v2.snapshot import MANIFEST, read_snapshot
from mlbench_llama2_70b.dataset import Conversations
from mlbench_mixtral_8x7b.dataset import MixedPrompts
from mlbench_resnet50 import dataset as imagenet
from mlbench_retinanet import dataset as openimages
from mlbench_stable_diffusion_xl.captions import HEADER, read_captions
from mlbench_unet3d.kits19 import read_case, read_case_list
from mlbench_unet3d.preprocessing import Grid, prepare_case
from PIL import Image

from mlbench.toolkit import decode_image, read_image
from mlbench.toolkit.language import read_table
from mlbench.toolkit.language.pickles import read_pickled_table

DATA = Path(__file__).parents[1] / "data"

SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Rivers",
            "paragraphs": [
                {
                    "context": "The river rose in spring and fell in autumn.",
                    "qas": [
                        {
                            "id": "q1",
                            "question": "When did the river rise?",
                            "answers": [{"text": "spring", "answer_start": 18}],
                        }
                    ],
                }
            ],
        }
    ],
}
ANNOTATIONS = {
    "categories": [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}],
    "images": [{"id": 1, "file_name": "1.png", "height": 20, "width": 30}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}],
}
CAPTIONS = {
    "images": [{"id": 70, "height": 480, "width": 640, "file_name": "7.jpg", "coco_url": "http://x/7.jpg"}],
    "annotations": [{"id": 7, "image_id": 70, "caption": "A dog sits."}],
}
CONVERSATIONS = [{"output": "Yes.", "tok_input": [1, 5, 9]}, {"output": "No.", "tok_input": [1, 7]}]
MIXTURE = [
    {"dataset": name, "id": f"{name}.0", "gt_output": "42", "tok_input": [1, 5, 9], "tok_stop_sequence": [2]}
    for name in ("OpenOrca", "GSM8K", "MBXP")
]


# BERT


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.read(DATA / "bert" / "features" / "vocab.txt", size=298)


def test_squad(fuzz, vocabulary):
    def read(file):
        read_features(read_questions(file), vocabulary, Windows())

    fuzz.json(read, SQUAD, share=2)
    fuzz.paths(read)


@pytest.mark.parametrize("key", ["context", "question", "id", "text", "answer_start"])
def test_a_squad_file_with_something_else_than_text_says_which_key(tmp_path, vocabulary, key):
    file = tmp_path / "dev.json"
    text = json.dumps(SQUAD)
    value = json.dumps(
        {
            "context": "The river rose in spring and fell in autumn.",
            "question": "When did the river rise?",
            "id": "q1",
            "text": "spring",
            "answer_start": 18,
        }[key]
    )
    file.write_text(text.replace(f'"{key}": {value}', f'"{key}": [1]'))
    with pytest.raises(Exception, match=rf"not of the v1\.1 format: .*{key} is not (text|a whole number)"):
        read_features(read_questions(file), vocabulary, Windows())


def test_vocabularies(fuzz):
    content = (DATA / "bert" / "features" / "vocab.txt").read_bytes()
    fuzz.bytes(lambda file: Vocabulary.read(file, size=298).encode(["a river"]), content)


def test_squad_with_its_vocabulary(fuzz, tmp_path):
    vocabulary = DATA / "bert" / "features" / "vocab.txt"

    def read(file):
        SquadWindows(file, vocabulary, vocabulary_size=298, windows=Windows(), count=1)

    fuzz.json(read, SQUAD, share=0.5)


# pictures


def test_label_lists(fuzz):
    text = "".join(f"ILSVRC2012_val_{number:08}.JPEG {number * 7 % 1000}\n" for number in range(20))
    fuzz.bytes(lambda file: imagenet.read_label_list(file, 1000), text.encode())
    fuzz.paths(lambda file: imagenet.read_label_list(file, 1000))


def test_label_lists_and_their_images(fuzz, tmp_path):
    Image.new("RGB", (30, 20)).save(tmp_path / "1.png")
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere.png")

    def read(file):
        imagenet.image_folder(file.parent, lambda image: image, size=8, classes=10)

    fuzz.bytes(read, b"1.png 3\n", imagenet.LABEL_LIST)
    (tmp_path / imagenet.LABEL_LIST).write_text("link.png 3\n")
    fuzz.judge(read, tmp_path / imagenet.LABEL_LIST)
    fuzz.paths(lambda path: imagenet.image_folder(path, lambda image: image, size=8, classes=10))


@pytest.mark.parametrize("kind", ["png", "jpeg", "bmp"])
def test_images(fuzz, kind):
    content = io.BytesIO()
    Image.effect_noise((30, 20), 50).convert("RGB").save(content, kind)
    fuzz.bytes(read_image, content.getvalue())


def test_an_image_of_more_pixels_than_opencv_takes_is_refused():
    content = io.BytesIO()
    Image.new("RGB", (30, 20)).save(content, "bmp")
    huge = bytearray(content.getvalue())
    huge[18:26] = (2**30).to_bytes(4, "little") * 2  # width and height in the header of a bitmap
    with pytest.raises(Exception, match=r"image is corrupt: huge\.bmp"):
        decode_image(bytes(huge), "huge.bmp")


def test_annotations_of_openimages(fuzz, tmp_path):
    Image.new("RGB", (30, 20)).save(tmp_path / "1.png")
    (tmp_path / "annotations").mkdir()

    def read(file):
        openimages.open_images(file.parents[1], image_hw=(8, 16), classes=2)

    fuzz.json(read, ANNOTATIONS, openimages.ANNOTATIONS, share=2)
    fuzz.paths(lambda path: openimages.open_images(path, image_hw=(8, 16), classes=2))


def test_captions_of_coco(fuzz):
    fuzz.json(lambda file: read_captions(file, count=1), CAPTIONS, share=2)
    fuzz.paths(lambda file: read_captions(file, count=1))


def test_captions_in_columns(fuzz):
    text = io.StringIO()
    rows = csv.writer(text, delimiter="\t", lineterminator="\n")
    rows.writerows([HEADER, ("7", "70", 'A "dog" sits.', "480", "640", "7.jpg", "http://x/7.jpg")])
    fuzz.bytes(lambda file: read_captions(file, count=1), text.getvalue().encode(), "captions.tsv")


# scans


def test_lists_of_cases(fuzz):
    fuzz.bytes(read_case_list, b"case_00050\ncase_00123\n")
    fuzz.paths(read_case_list)


@pytest.mark.parametrize("is_packed", [True, False], ids=["packed", "header"])
def test_scans(fuzz, tmp_path, is_packed):
    """Damage of the packed file is found by its checksum, so the header is damaged before it is packed too."""
    volume = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    for name, values in {"imaging.nii": volume, "segmentation.nii": (volume % 3).astype(np.uint8)}.items():
        nibabel.save(nibabel.Nifti1Image(values, np.diag([1.6, 1.2, 1.2, 1.0])), tmp_path / name)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    content = (tmp_path / "imaging.nii").read_bytes()

    def read(file):
        packed = file.read_bytes() if is_packed else gzip.compress(file.read_bytes())
        (tmp_path / "imaging.nii.gz").write_bytes(packed)
        prepare_case(read_case(tmp_path), Grid(window=8))

    fuzz.bytes(read, gzip.compress(content) if is_packed else content)


# clicks


def test_click_logs(fuzz):
    line = "\t".join(["0", *["1"] * 13, *["1f"] * 26]) + "\n"

    def read(file):
        renumber = Renumbering()
        for rows in read_raw(file):
            renumber(rows.sparse)
            assert np.isfinite(rows.dense).all()

    fuzz.bytes(read, (line * 3).encode(), share=2)
    fuzz.paths(read)


@pytest.mark.parametrize("name", [DENSE, LABELS, HOT])
def test_arrays_of_a_day(fuzz, tmp_path, name):
    rng = np.random.default_rng(0)
    hot = [rng.integers(9, size=(5, size), dtype=np.int32) for size in (2, 1)]
    day = Day(rng.random((5, 13), dtype=np.float32), hot, rng.integers(2, size=(5, 1), dtype=np.int32))
    write_day(tmp_path, day)
    fuzz.bytes(lambda file: open_day(file.parent, (2, 1)).fingerprint(), (tmp_path / name).read_bytes(), name, share=2)


def test_headers_of_an_array(fuzz, tmp_path):
    """An array of this shape would be larger than the file, or the memory of any machine."""
    write_day(tmp_path, Day(np.ones((5, 13), "f4"), [np.ones((5, 2), "i4")], np.ones((5, 1), "i4")))
    content = (tmp_path / DENSE).read_bytes()
    for shape in (
        "(5, 13)",
        "(9, 13)",
        "(-1, 13)",
        "(10**9, 13)",
        f"({2**62}, 13)",
        "(5.0, 13)",
        "(True, 13)",
        "(5, 13,",
    ):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape.replace('10**9', '1000000000')}, }}"
        (tmp_path / DENSE).write_bytes(content[:10] + header.ljust(117).encode() + b"\n" + content[128:])
        fuzz.judge(lambda: open_day(tmp_path, (2,)).fingerprint())


def test_archives_of_a_day_that_no_reader_unpacks(fuzz, tmp_path):
    write_day(tmp_path, Day(np.ones((5, 13), "f4"), [np.ones((5, 2), "i4")], np.ones((5, 1), "i4")))
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / HOT, "w", method) as archive:
            archive.writestr("0.npy", b"x" * 100)
        fuzz.judge(lambda: open_day(tmp_path, (2,)))


def test_manifests_of_a_checkpoint(fuzz, tmp_path):
    tensor = {
        "type": "Tensor",
        "location": "0/model/a",
        "serializer": "buffer_protocol",
        "dtype": "torch.float32",
        "shape": [2, 3],
        "byte_range": [0, 24],
    }
    shard = {"offsets": [0, 0], "sizes": [2, 3], "tensor": tensor}
    manifest = {"0/model/model.a": tensor, "0/model/model.b": {"type": "ShardedTensor", "shards": [shard]}}
    document = {"version": "0.1.0", "world_size": 1, "manifest": manifest}
    (tmp_path / "0" / "model").mkdir(parents=True)
    (tmp_path / "0" / "model" / "a").write_bytes(bytes(24))

    def read(file):
        snapshot = read_snapshot(file.parent)
        for name in "ab":
            snapshot.tensor(name, (2, 3))

    fuzz.json(read, document, MANIFEST, share=2)
    for text in (
        "&a [" + "*a, " * 5 + "]",
        "a: !!python/object:os.system x",
        "- " * 5000,
        "{" * 5000,
        "manifest: 1:2:3",
    ):
        (tmp_path / MANIFEST).write_text(text)
        fuzz.judge(read, tmp_path / MANIFEST)


# prompts


def test_conversations(fuzz):
    fuzz.json(lambda file: Conversations(file, longest=1024), CONVERSATIONS)
    fuzz.paths(lambda file: Conversations(file, longest=1024))


def test_mixed_prompts(fuzz):
    fuzz.json(MixedPrompts, MIXTURE)


def test_articles(fuzz):
    rows = [{"instruction": "Sum up.", "input": "A long story.", "output": "A story."}]
    fuzz.json(lambda file: read_table(file, texts=("instruction", "input", "output")), rows)


@pytest.mark.parametrize("name", ["dataset.pkl", "pandas_1.5.pkl", "pandas_2.2_protocol_5_by_column.pkl"])
@pytest.mark.parametrize("is_packed", [False, True], ids=["", "packed"])
def test_pickled_tables(fuzz, name, is_packed, little_memory):
    content = (DATA / "llama2_70b" / name).read_bytes()
    content = gzip.compress(content) if is_packed else content
    fuzz.bytes(read_pickled_table, content, "data.pkl", share=2)
