import gzip

import nibabel
import numpy as np
import pytest
from mlbench_unet3d.kits19 import CASES, case_folders, read_case, read_case_list

from mlbench import DataError

IMAGE = np.arange(2 * 3 * 4, dtype=np.int16).reshape(2, 3, 4)
LABEL = (IMAGE % 3).astype(np.uint8)


def test_the_official_list_has_43_cases_and_ends_with_the_copy():
    assert len(CASES) == len(set(CASES)) == 43
    assert CASES[:3] == ("case_00000", "case_00003", "case_00005")
    assert CASES[35:38] == ("case_00185", "case_00187", "case_00189")
    assert CASES[-1] == "case_00400"


def test_a_case_is_read_in_the_order_of_its_file_with_the_headers_spacing(write_case):
    scan = read_case(write_case("case_00000", IMAGE, LABEL, spacing=(3.0, 0.9, 0.78)))
    np.testing.assert_array_equal(scan.image, IMAGE)
    np.testing.assert_array_equal(scan.label, LABEL)
    assert (scan.image.dtype, scan.label.dtype) == (np.float32, np.uint8)
    assert scan.spacing == tuple(float(np.float32(step)) for step in (3.0, 0.9, 0.78))


def test_scaled_grey_values_and_labels_stored_as_floats_are_read_as_their_header_says(write_case):
    folder = write_case("case_00000", IMAGE, LABEL.astype(np.float64))
    image = nibabel.load(folder / "imaging.nii.gz")
    scaled = nibabel.Nifti1Image(np.asarray(image.dataobj), image.affine)
    scaled.header.set_slope_inter(2, -1000)
    (folder / "imaging.nii.gz").unlink()
    nibabel.save(scaled, folder / "imaging.nii.gz")
    scan = read_case(folder)
    np.testing.assert_array_equal(scan.image, 2 * IMAGE - 1000)
    np.testing.assert_array_equal(scan.label, LABEL)


def test_the_case_that_is_a_copy_has_the_files_of_the_other(write_case, tmp_path):
    folder = write_case("case_00185", IMAGE, LABEL)
    assert case_folders(tmp_path, ["case_00185", "case_00400"]) == [folder, folder]


@pytest.mark.parametrize("missing", ["case_00003/imaging.nii.gz", "case_00003/segmentation.nii.gz"])
def test_a_missing_file_is_named(write_case, tmp_path, missing):
    for name in ("case_00000", "case_00003"):
        write_case(name, IMAGE, LABEL)
    (tmp_path / missing).unlink()
    with pytest.raises(DataError, match=f"1 files of KiTS19 are missing, first .*{missing}"):
        case_folders(tmp_path, ["case_00000", "case_00003"])


def test_missing_cases_are_counted_and_the_first_is_named(write_case, tmp_path):
    write_case("case_00000", IMAGE, LABEL)
    with pytest.raises(DataError, match=r"4 files .* first .*case_00003/imaging\.nii\.gz"):
        case_folders(tmp_path, ["case_00000", "case_00003", "case_00005"])


def test_image_and_label_of_other_shapes_are_refused(write_case):
    folder = write_case("case_00000", IMAGE, LABEL[:, :, 1:])
    with pytest.raises(DataError, match=r"case_00000 have shapes \(2, 3, 4\) and \(2, 3, 3\)"):
        read_case(folder)


def test_image_and_label_on_other_grids_are_refused(write_case):
    folder = write_case("case_00000", IMAGE, LABEL, label_spacing=(1.6, 1.2, 1.3))
    with pytest.raises(DataError, match=r"case_00000 lie on different grids: their affines differ by up to 0\.1\."):
        read_case(folder)


@pytest.mark.parametrize("shape", [(2, 12), (2, 3, 4, 1), (2, 3, 2, 2)])
def test_what_is_no_volume_is_refused(write_case, shape):
    folder = write_case("case_00000", IMAGE.reshape(shape), LABEL.reshape(shape))
    with pytest.raises(DataError, match=r"imaging\.nii\.gz has shape .*which is not a volume"):
        read_case(folder)


@pytest.mark.parametrize(("value", "shown"), [(3, "0 to 3"), (-1, "-1 to 2"), (0.5, "0 to 2")])
def test_labels_other_than_0_to_2_are_refused(write_case, value, shown):
    label = LABEL.astype(np.float32)
    label[0, 0, 0] = value
    with pytest.raises(DataError, match=rf"segmentation\.nii\.gz contains labels from {shown}"):
        read_case(write_case("case_00000", IMAGE, label))


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_grey_values_that_are_not_numbers_are_refused(write_case, value):
    image = IMAGE.astype(np.float32)
    image[1, 1, 1] = value
    with pytest.raises(DataError, match=r"imaging\.nii\.gz contains grey values that are not numbers"):
        read_case(write_case("case_00000", image, LABEL))


@pytest.mark.parametrize("damage", ["empty", "not gzip", "not NIfTI", "cut short"])
@pytest.mark.parametrize("file", ["imaging.nii.gz", "segmentation.nii.gz"])
def test_a_damaged_file_is_named(write_case, damage, file):
    folder = write_case("case_00000", IMAGE, LABEL)
    whole = (folder / file).read_bytes()
    content = {
        "empty": b"",
        "not gzip": b"no archive" * 100,
        "not NIfTI": gzip.compress(b"no volume" * 100),
        "cut short": whole[: len(whole) - 12],
    }[damage]
    (folder / file).write_bytes(content)
    with pytest.raises(DataError, match=f"no whole NIfTI file: .*{file}"):
        read_case(folder)


@pytest.mark.parametrize("text", ["case_00050\ncase_00117\n", '["case_00050", "case_00117"]\n'])
def test_a_case_list_is_lines_or_json(tmp_path, text):
    (tmp_path / "list").write_text(text)
    assert read_case_list(tmp_path / "list") == ["case_00050", "case_00117"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("", "is empty"), ("[]", "is empty"), ("case_00050\ncase_50\n", "names no case: 'case_50'"), ("{}", "'{}'")],
)
def test_a_case_list_of_something_else_is_refused(tmp_path, text, complaint):
    (tmp_path / "list").write_text(text)
    with pytest.raises(DataError, match=complaint):
        read_case_list(tmp_path / "list")


def test_a_missing_case_list_is_named(tmp_path):
    with pytest.raises(DataError, match=r"calibration list cannot be read: .*nowhere"):
        read_case_list(tmp_path / "nowhere")
