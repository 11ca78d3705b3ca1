import numpy as np
from mlbench_stable_diffusion_xl.exhibits import submission_indices, write_contact_sheet, write_submission_images
from mlbench_stable_diffusion_xl.workload import StableDiffusionXL
from PIL import Image

from mlbench import Profile, Variant, Weights

OFFICIAL = [4655, 2569, 1303, 109, 4509, 3009, 2179, 1826, 2094, 3340]
"""As the v4.1 submission checker wants them."""


def images(count):
    """Images of one colour each: the index, up to 255, in the red channel."""
    for index in range(count):
        yield index, np.full((4, 4, 3), (index % 256, 0, 0), np.uint8)


def test_of_5000_images_the_official_ten_are_shown():
    assert submission_indices(5000) == OFFICIAL


def test_the_ten_images_and_their_captions_are_written_as_a_submission_has_them(tmp_path):
    write_submission_images(images(5000), [f"caption {index}" for index in range(5000)], tmp_path / "images")
    folder = tmp_path / "images"
    assert {path.name for path in folder.iterdir()} == {*(f"{index}.png" for index in OFFICIAL), "captions.txt"}
    assert (folder / "captions.txt").read_text().splitlines()[:2] == ["4655  caption 4655", "2569  caption 2569"]
    with Image.open(folder / "109.png") as image:
        assert image.getpixel((0, 0)) == (109, 0, 0)


def test_another_round_shows_other_images(tmp_path):
    workload = StableDiffusionXL()
    shown = {
        name: workload.rules_in(
            Variant(profile=Profile.FULL, weights=Weights.TRAINED, options=None, round=name)
        ).round.files.images
        for name in ("", "v4.1", "v5.1", "v6.0", "v6.1")
    }
    assert list(shown[""]) == list(shown["v4.1"]) == OFFICIAL
    assert (shown["v5.1"][0], shown["v6.0"][0], shown["v6.1"]) == (2747, 1311, ())
    write_submission_images(images(5000), ["any"] * 5000, tmp_path / "5.1", shown["v5.1"])
    assert {each.stem for each in (tmp_path / "5.1").glob("*.png")} == set(map(str, shown["v5.1"]))
    write_submission_images(images(50), ["any"] * 50, tmp_path / "small", shown["v5.1"])
    assert {each.stem for each in (tmp_path / "small").glob("*.png")} == set(map(str, submission_indices(50)))


def test_the_log_is_read_no_further_than_the_last_of_the_ten(tmp_path):
    remaining = images(5000)
    write_submission_images(remaining, ["any"] * 5000, tmp_path)
    assert next(remaining)[0] == max(OFFICIAL) + 1


def test_the_contact_sheet_has_ten_to_a_row_and_a_hundred_at_most(tmp_path):
    write_contact_sheet(images(105), tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (960, 960)
        assert sheet.getpixel((96 * 3 + 48, 96 * 2 + 48)) == (23, 0, 0)
    write_contact_sheet(images(11), tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (960, 192)
