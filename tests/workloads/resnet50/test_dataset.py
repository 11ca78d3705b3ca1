import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from mlbench_resnet50.dataset import (
    PreparedImages,
    calibration_inputs,
    image_folder,
    random_images,
    read_label_list,
    surviving,
)
from mlbench_resnet50.preprocessing import prepare_for_torchvision
from PIL import Image

from mlbench import DataError


def grey_folder(folder: Path, levels: Sequence[int]) -> Path:
    """A data set of plain 8x8 images; the label is the grey level over ten."""
    folder.mkdir(exist_ok=True)
    names = [f"image{number}.png" for number in range(len(levels))]
    for name, level in zip(names, levels, strict=True):
        Image.new("RGB", (8, 8), (level,) * 3).save(folder / name)
    lines = [f"{name} {level // 10}\n" for name, level in zip(names, levels, strict=True)]
    (folder / "val_map.txt").write_text("".join(lines))
    return folder


def grey_level(image: np.ndarray) -> np.ndarray:
    """A recipe for tests: the image's first grey level, everywhere."""
    return np.full((3, 8, 8), image[0, 0, 0], dtype=np.float32)


def opened(folder: Path) -> PreparedImages:
    return image_folder(folder, grey_level, size=8, classes=20)


def test_labels_and_order_equal_the_references_where_a_file_is_missing(golden: Path):
    case = json.loads((golden / "dataset_val_map" / "expected.json").read_text())
    files = read_label_list(golden / "dataset_val_map" / "val_map.txt", classes=1000)
    images = golden / "preprocess" / "images"
    for limit, prefix in [(None, ""), (4, "count_4_")]:
        found = surviving(files, images, limit)
        assert [file.name for file in found] == case[f"{prefix}order" if prefix else "image_order"]
        assert [file.label for file in found] == case[f"{prefix}labels"]


def test_an_image_missing_from_the_folder_fails_loudly_instead_of_shifting_the_labels(tmp_path: Path):
    folder = grey_folder(tmp_path / "data", [10, 20, 30])
    (folder / "image1.png").unlink()
    with pytest.raises(DataError, match=r"1 of 3 images are missing .* first image1\.png"):
        opened(folder)


def test_samples_are_looked_up_by_their_line_in_the_list(tmp_path: Path):
    dataset = opened(grey_folder(tmp_path / "data", [10, 20, 30, 40]))
    dataset.load([3, 0, 1])
    assert [dataset.sample(index)[0, 0, 0] for index in (0, 1, 3)] == [10, 20, 40]
    assert list(dataset.labels) == [1, 2, 3, 4]
    assert (dataset.count, dataset.performance_count) == (4, 4)


def test_unloaded_images_are_gone_and_the_others_stay(tmp_path: Path):
    dataset = opened(grey_folder(tmp_path / "data", [10, 20, 30]))
    dataset.load([0, 1, 2])
    dataset.unload([0, 2])
    assert dataset.sample(1)[0, 0, 0] == 20
    with pytest.raises(KeyError):
        dataset.sample(0)


def test_loaded_images_lie_in_one_block_of_memory(tmp_path: Path):
    dataset = opened(grey_folder(tmp_path / "data", [10, 20]))
    dataset.load([0, 1])
    assert dataset.sample(0).base is dataset.sample(1).base
    assert dataset.sample(0).flags.c_contiguous


def test_the_official_number_of_samples_is_kept_loaded_at_most():
    labels = [0] * 50_000
    dataset = PreparedImages(lambda _: np.zeros((3, 8, 8), np.float32), size=8, labels=labels, fingerprint="")
    assert (dataset.count, dataset.performance_count) == (50_000, 1024)


def test_the_fingerprint_changes_with_a_label_and_with_an_image(tmp_path: Path):
    folder = grey_folder(tmp_path / "data", [10, 20, 30])
    before = opened(folder).fingerprint
    assert opened(folder).fingerprint == before

    listing = (folder / "val_map.txt").read_text()
    (folder / "val_map.txt").write_text(listing.replace("image2.png 3", "image2.png 4"))
    assert opened(folder).fingerprint != before

    (folder / "val_map.txt").write_text(listing)
    (folder / "image2.png").write_bytes((folder / "image2.png").read_bytes() + b"\0")
    assert opened(folder).fingerprint != before


def test_a_corrupt_image_stops_loading_and_is_named(tmp_path: Path):
    folder = grey_folder(tmp_path / "data", [10, 20, 30])
    (folder / "image1.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"corrupt: .*image1\.png"):
        opened(folder).load([0, 1, 2])


@pytest.mark.parametrize(
    "line", ["image0.png", "image0.png 1 2", "image0.png one", "image0.png -1", "image0.png 20", "image0.png 1.0", ""]
)
def test_a_malformed_line_of_the_label_list_is_named_with_its_number(tmp_path: Path, line: str):
    path = tmp_path / "val_map.txt"
    path.write_text(f"first.png 0\n{line}\nlast.png 1\n")
    with pytest.raises(DataError, match=r"line 2 of .*val_map\.txt is malformed"):
        read_label_list(path, classes=20)


def listing_of(folder: Path, change: str = "{name} {label}\n") -> str:
    lines = (folder / "val_map.txt").read_text().splitlines()
    return "".join(change.format(name=line.split()[0], label=line.split()[1]) for line in lines)


@pytest.mark.parametrize(
    ("change", "codec"),
    [("{name} {label}\r\n", "utf-8"), ("{name}\t{label}\n", "utf-8"), ("{name} {label}\n", "utf-8-sig")],
)
def test_line_ends_tabs_and_a_byte_order_mark_do_not_matter(tmp_path: Path, change: str, codec: str):
    folder = grey_folder(tmp_path / "data", [10, 20])
    (folder / "val_map.txt").write_bytes(listing_of(folder, change).encode(codec))
    assert list(opened(folder).labels) == [1, 2]


def test_a_name_that_is_listed_twice_is_not_two_samples(tmp_path: Path):
    folder = grey_folder(tmp_path / "data", [10, 20])
    (folder / "val_map.txt").write_text(listing_of(folder) * 2)
    with pytest.raises(DataError, match=r"line 3 of .*val_map\.txt lists image0\.png a second time"):
        opened(folder)


def test_labels_from_one_are_said(tmp_path: Path):
    (tmp_path / "val_map.txt").write_text("a.png 1\nb.png 20\n")
    with pytest.raises(DataError, match=r"a label from 0 to 19\. Labels from 1 must be one less each"):
        read_label_list(tmp_path / "val_map.txt", classes=20)


def test_a_list_that_is_missing_says_where_it_comes_from(tmp_path: Path):
    folder = grey_folder(tmp_path / "data", [10])
    (folder / "val_map.txt").unlink()
    with pytest.raises(DataError, match=r"label list not found: .*val\.txt of Caffe's archive"):
        opened(folder)


def test_images_in_a_folder_for_each_class_are_read_where_the_list_names_them_so(tmp_path: Path):
    folder = grey_folder(tmp_path / "data", [10, 20])
    (folder / "n01").mkdir()
    for name in ("image0.png", "image1.png"):
        (folder / name).rename(folder / "n01" / name)
    with pytest.raises(DataError, match="They lie in folders for each class, this one in n01"):
        opened(folder)
    (folder / "val_map.txt").write_text(listing_of(folder, "n01/{name} {label}\n"))
    dataset = opened(folder)
    dataset.load([1])
    assert dataset.sample(1).max() == 20
    (folder / "val_map.txt").write_text("../data/n01/image0.png 1\n")
    with pytest.raises(DataError, match="1 of 1 images are missing"):
        opened(folder)


def test_no_pattern_is_made_of_a_name(tmp_path: Path):
    """One of 100,000 brackets takes `glob` an hour."""
    folder = grey_folder(tmp_path / "data", [10])
    (folder / "val_map.txt").write_text("[" * 100_000 + " 1\n")
    with pytest.raises(DataError, match="1 of 1 images are missing"):
        opened(folder)


@pytest.mark.parametrize("other", ["IMAGE0.PNG", "image0.JPEG"])
def test_an_image_with_another_ending_is_named(tmp_path: Path, other: str):
    folder = grey_folder(tmp_path / "data", [10])
    (folder / "image0.png").rename(folder / other)
    with pytest.raises(DataError, match=f"It exists as {other}: rename the files"):
        opened(folder)


def test_an_empty_label_list_is_refused(tmp_path: Path):
    (tmp_path / "val_map.txt").write_text("\n")
    with pytest.raises(DataError, match="label list is empty"):
        opened(tmp_path)


def test_a_label_list_that_is_not_text_is_refused(tmp_path: Path):
    (tmp_path / "val_map.txt").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(DataError, match="not text"):
        opened(tmp_path)


def test_a_missing_data_folder_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"not found: .*nowhere"):
        opened(tmp_path / "nowhere")


def test_random_images_are_the_same_each_time_and_differ_from_each_other():
    first, second = random_images(8), random_images(8)
    first.load([0, 7])
    second.load([7])
    np.testing.assert_array_equal(first.sample(7), second.sample(7))
    assert not np.array_equal(first.sample(0), first.sample(7))
    assert first.sample(0).shape == (3, 8, 8)
    assert first.count == first.performance_count == 1024


@pytest.mark.parametrize("form", ["{name}\n", "{name} {number}\n"])
def test_both_forms_of_the_official_calibration_list_are_read(tmp_path: Path, form: str):
    folder = grey_folder(tmp_path / "data", [10 * (number % 20) for number in range(50)])
    names = [f"image{number}.png" for number in range(45)]
    listing = tmp_path / "calibration.txt"
    listing.write_text("".join(form.format(name=name, number=number) for number, name in enumerate(names, start=1)))

    batches = [inputs["image"] for inputs in calibration_inputs(listing, folder, grey_level, tensor="image")]

    assert [batch.shape for batch in batches] == [(20, 3, 8, 8), (20, 3, 8, 8), (5, 3, 8, 8)]
    assert batches[1][3, 0, 0, 0] == 10 * (23 % 20)


def test_a_calibration_list_naming_a_missing_image_is_refused(tmp_path: Path):
    folder = grey_folder(tmp_path / "data", [10])
    listing = tmp_path / "calibration.txt"
    listing.write_text("absent.png\n")
    with pytest.raises(DataError, match=r"absent\.png"):
        list(calibration_inputs(listing, folder, prepare_for_torchvision, tensor="image"))
