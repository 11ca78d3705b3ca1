"""Images as files: one that was cut off is not read with grey in place of its rest."""

import io

import numpy as np
import pytest
from PIL import Image

from mlbench import DataError
from mlbench.toolkit import decode_image, read_image
from mlbench.toolkit.images import has_end


def noise_as(form, **how):
    picture = Image.fromarray(np.random.default_rng(3).integers(0, 255, (40, 50, 3), np.uint8))
    content = io.BytesIO()
    picture.save(content, form, **how)
    return content.getvalue()


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("how", [{}, {"progressive": True}], ids=["baseline", "progressive"])
def test_a_jpeg_that_was_cut_off_is_refused(share, how):
    whole = noise_as("JPEG", **how)
    assert decode_image(whole, "whole.jpg").shape == (40, 50, 3)
    with pytest.raises(DataError, match=r"image is (cut off|corrupt): cut\.jpg"):
        decode_image(whole[: int(share * len(whole))], "cut.jpg")


def test_the_end_of_a_preview_is_not_the_end_of_the_picture():
    """Newer versions of OpenCV refuse such a file themselves; older ones return what they have."""
    picture, preview = noise_as("JPEG"), b"\xff\xed\x00\x06\xff\xd8\xff\xd9"
    whole = picture[:2] + preview + picture[2:]
    assert decode_image(whole, "whole.jpg").shape == (40, 50, 3)
    assert has_end(whole)
    assert not has_end(whole[:-2])
    assert not has_end(whole[:100])


def test_bytes_behind_the_end_do_not_matter():
    assert decode_image(noise_as("JPEG") + bytes(100), "a.jpg").shape == (40, 50, 3)


def test_a_file_that_is_no_image_is_named_for_what_it_is(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(DataError, match=r"image is corrupt: .*a\.jpg: it is a pointer of git-lfs"):
        read_image(tmp_path / "a.jpg")
