import json
from pathlib import Path

import pytest
from mlbench_stable_diffusion_xl.captions import HEADER, read_captions, select_captions

from mlbench import DataError

ROW = "7\t70\tA dog sits.\t480\t640\tCOCO_7.jpg\thttp://x/COCO_7.jpg"


def written(tmp_path, *lines, name="captions.tsv"):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_captions_are_chosen_from_cocos_annotations_as_the_official_script_does(golden):
    case = json.loads((golden / "coco_subset" / "expected.json").read_text())
    annotations = golden / "coco_subset" / "captions_val2014.json"
    found = select_captions(annotations.read_text(), annotations, case["max_images"])
    assert found.as_tsv() == (golden / "coco_subset" / case["expected_file"]).read_text()


def test_a_file_of_captions_and_the_annotations_it_was_chosen_from_read_alike(golden):
    folder = golden / "coco_subset"
    chosen = read_captions(folder / "captions_val2014.json", count=15)
    kept = read_captions(folder / "expected_captions.tsv", count=15)
    assert kept.texts == chosen.texts
    assert kept.texts[0] == "A dog runs number 19"
    assert kept.fingerprint == chosen.fingerprint


def test_a_caption_may_hold_quotes_and_commas(tmp_path):
    path = written(tmp_path, "\t".join(HEADER), '7\t70\t"A ""stop"" sign, red"\t480\t640\ta.jpg\thttp://a')
    assert read_captions(path, count=1).texts == ['A "stop" sign, red']


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["caption\tid", ROW], "begins with 'caption id'.*Expected a tab separated file"),
        ([" ".join(HEADER), ROW], "Expected a tab separated file with the columns id, image_id, caption"),
        (["\t".join(HEADER)], "has 0 captions, not 1"),
        (["\t".join(HEADER), ROW, ROW], "has 2 captions, not 1"),
        (["\t".join(HEADER), "7\t70\tA dog"], "line 2 of .* is not a caption"),
        (["\t".join(HEADER), ROW.replace("480", "tall")], "line 2 of .* is not a caption"),
        (["\t".join(HEADER), ROW + "\tmore"], "line 2 of .* is not a caption"),
    ],
)
def test_a_file_of_another_form_is_refused_with_what_is_wrong(tmp_path, lines, complaint):
    with pytest.raises(DataError, match=complaint):
        read_captions(written(tmp_path, *lines), count=1)


@pytest.mark.parametrize("text", ["[", "[]", "{}", '{"annotations": [{"id": 1}], "images": []}'])
def test_annotations_of_another_form_are_refused(tmp_path, text):
    with pytest.raises(DataError, match="contains no captions of COCO"):
        read_captions(written(tmp_path, text, name="captions_val2014.json"), count=1)


def test_a_missing_or_binary_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"captions file not found: nowhere/captions\.tsv"):
        read_captions(Path("nowhere/captions.tsv"), count=1)
    (tmp_path / "captions.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not text"):
        read_captions(tmp_path / "captions.tsv", count=1)
