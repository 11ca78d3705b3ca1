import json

import numpy as np
import pytest
from mlbench_retinanet.dataset import (
    ANNOTATIONS,
    PreparedImages,
    calibration_inputs,
    open_images,
    random_images,
    read_annotations,
)
from PIL import Image

from mlbench import DataError


def name_of(number):
    return f"{number:016x}.png"


def write_document(folder, document):
    (folder / "annotations").mkdir(parents=True, exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / ANNOTATIONS).write_text(text)


def document_of(count):
    return {
        "categories": [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}],
        "images": [
            {"id": number, "file_name": name_of(number), "height": 20, "width": 30} for number in range(1, count + 1)
        ],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}],
    }


def grey_folder(folder, levels, below=""):
    """A data set of plain images; the first has the first grey level."""
    images = folder / below
    images.mkdir(parents=True, exist_ok=True)
    for number, level in enumerate(levels, start=1):
        Image.new("RGB", (30, 20), (level,) * 3).save(images / name_of(number))
    write_document(folder, document_of(len(levels)))
    return folder


def opened(folder):
    return open_images(folder, image_hw=(8, 16), classes=2)


def grey_levels(dataset, indices):
    dataset.load(indices)
    return [round(255 * float(dataset.sample(index).pixels.mean())) for index in indices]


@pytest.mark.parametrize("below", ["", "validation/data"])
def test_images_are_found_in_both_official_layouts(tmp_path, below):
    dataset = opened(grey_folder(tmp_path, [10, 20], below))
    assert grey_levels(dataset, [0, 1]) == [10, 20]


def test_a_file_name_may_hold_folders(tmp_path):
    folder = grey_folder(tmp_path, [10], "validation/data")
    document = document_of(1)
    document["images"][0]["file_name"] = f"validation/data/{name_of(1)}"
    write_document(folder, document)
    assert grey_levels(opened(folder), [0]) == [10]


def test_samples_are_looked_up_by_their_place_in_the_list_of_images(tmp_path):
    folder = grey_folder(tmp_path, [10, 20, 30, 40])
    document = document_of(4)
    document["images"].reverse()
    write_document(folder, document)
    dataset = opened(folder)
    assert grey_levels(dataset, [3, 0, 1]) == [10, 40, 30]
    assert (dataset.count, dataset.performance_count) == (4, 4)
    sample = dataset.sample(3)
    assert (sample.index, sample.pixels.shape, sample.pixels.dtype) == (3, (3, 8, 16), np.float32)


def test_unloaded_images_are_gone_and_the_others_stay(tmp_path):
    dataset = opened(grey_folder(tmp_path, [10, 20, 30]))
    dataset.load([0, 1, 2])
    dataset.unload([0, 2])
    assert dataset.sample(1).index == 1
    with pytest.raises(KeyError):
        dataset.sample(0)


def test_loaded_images_lie_in_one_block_of_memory(tmp_path):
    dataset = opened(grey_folder(tmp_path, [10, 20]))
    dataset.load([0, 1])
    assert dataset.sample(0).pixels.base is dataset.sample(1).pixels.base
    assert dataset.sample(0).pixels.flags.c_contiguous


def test_the_official_number_of_samples_is_kept_loaded_at_most():
    dataset = PreparedImages(lambda _: np.zeros((3, 8, 8)), count=24_781, image_hw=(8, 8), fingerprint="")
    assert (dataset.count, dataset.performance_count) == (24_781, 64)


def test_the_fingerprint_changes_with_a_box_and_with_an_image(tmp_path):
    folder = grey_folder(tmp_path, [10, 20, 30])
    before = opened(folder).fingerprint
    assert opened(folder).fingerprint == before

    document = document_of(3)
    document["annotations"][0]["bbox"][0] = 1.5
    write_document(folder, document)
    assert opened(folder).fingerprint != before

    write_document(folder, document_of(3))
    (folder / name_of(2)).write_bytes((folder / name_of(2)).read_bytes() + b"\0")
    assert opened(folder).fingerprint != before


def test_an_image_missing_from_the_folder_fails_loudly_instead_of_shifting_the_boxes(tmp_path):
    folder = grey_folder(tmp_path, [10, 20, 30])
    (folder / name_of(2)).unlink()
    with pytest.raises(DataError, match=rf"1 of 3 images are missing in .*validation/data, first {name_of(2)}"):
        opened(folder)


def test_a_corrupt_image_stops_loading_and_is_named(tmp_path):
    folder = grey_folder(tmp_path, [10, 20, 30])
    (folder / name_of(2)).write_bytes(b"no image")
    with pytest.raises(DataError, match=f"corrupt: .*{name_of(2)}"):
        opened(folder).load([0, 1, 2])


def without(part):
    return {name: value for name, value in document_of(1).items() if name != part}


def with_entry(part, **values):
    document = document_of(1)
    document[part][0] |= values
    return document


def without_entry(part, name):
    document = document_of(1)
    del document[part][0][name]
    return document


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ('{"images": [', "is not JSON: .*line 1"),
        ("[]", "has no images"),
        (without("images"), "has no images"),
        (without("annotations"), "has no annotations"),
        (without("categories"), "has no categories"),
        (document_of(1) | {"images": []}, "has no images"),
        (document_of(1) | {"images": [7]}, "malformed"),
        (without_entry("images", "file_name"), "malformed: .*'file_name'"),
        (with_entry("images", height=0), "image 0 of .* has no name or no size"),
        (with_entry("categories", id=264), "categories other than 0 to 1"),
        (with_entry("annotations", image_id=5), "annotation 0 of .* unknown image or category"),
        (with_entry("annotations", category_id=2), "annotation 0 of .* unknown image or category"),
        (with_entry("annotations", bbox=[1, 2, 3]), "malformed"),
        (without_entry("annotations", "iscrowd"), "malformed: .*'iscrowd'"),
        (document_of(1) | {"images": document_of(1)["images"] * 2}, "lists image id 1 a second time"),
    ],
)
def test_an_annotation_file_that_cannot_be_used_is_refused_with_the_reason(tmp_path, document, told):
    write_document(tmp_path, document)
    with pytest.raises(DataError, match=told) as refused:
        opened(tmp_path)
    assert "\n" not in str(refused.value)
    assert ANNOTATIONS in str(refused.value)


def test_an_annotation_file_that_is_missing_or_no_text_is_named(tmp_path):
    with pytest.raises(DataError, match=rf"annotation file not found: .*{ANNOTATIONS}"):
        opened(tmp_path)
    write_document(tmp_path, "")
    (tmp_path / ANNOTATIONS).write_bytes(b"\xff\xd8")
    with pytest.raises(DataError, match="annotation file is not text"):
        opened(tmp_path)


def test_the_references_annotation_file_is_read(golden):
    document = read_annotations(golden / "accuracy_many_crowd" / ANNOTATIONS, classes=264)
    assert len(document["categories"]) == 264


def test_random_images_are_the_same_each_time_and_differ_from_each_other():
    first, second = random_images((8, 8)), random_images((8, 8))
    first.load([0, 7])
    second.load([7])
    np.testing.assert_array_equal(first.sample(7).pixels, second.sample(7).pixels)
    assert not np.array_equal(first.sample(0).pixels, first.sample(7).pixels)
    assert 0 <= first.sample(0).pixels.min() <= first.sample(0).pixels.max() <= 1
    assert first.count == first.performance_count == 64


@pytest.mark.parametrize("below", ["", "train/data"])
def test_calibration_images_come_one_by_one_in_the_order_of_the_list(tmp_path, below):
    folder = grey_folder(tmp_path, [10, 20, 30], below)
    listing = tmp_path / "calibration.txt"
    listing.write_text(f"{name_of(3)}\n{name_of(1)}\n")
    inputs = list(calibration_inputs(listing, folder, image_hw=(8, 16), tensor="images"))
    assert [each["images"].shape for each in inputs] == [(1, 3, 8, 16)] * 2
    assert [round(255 * float(each["images"].mean())) for each in inputs] == [30, 10]


def test_a_calibration_list_that_is_empty_or_names_a_missing_image_is_refused(tmp_path):
    listing = tmp_path / "calibration.txt"
    for content, told in [("\n", "calibration list is empty"), ("absent.jpg\n", r"train/data, first absent\.jpg")]:
        listing.write_text(content)
        with pytest.raises(DataError, match=told):
            list(calibration_inputs(listing, tmp_path, image_hw=(8, 16), tensor="images"))
