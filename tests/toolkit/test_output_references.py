from dataclasses import dataclass

import numpy as np
import pytest

from mlbench import DataError, Precision
from mlbench.toolkit import MiniFolder, read_mini, read_output_reference, write_output_reference
from mlbench.toolkit.output_references import OUTPUTS_FILE

BOUNDS = {Precision.FP32: 1e-5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    files: MiniFolder
    reference: float


@pytest.fixture
def profile(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"abc")
    return Profile(files=MiniFolder.of(tmp_path, ["weights.bin"]), reference=98.5)


def read_back(folder):
    return read_output_reference(read_mini(Profile, folder).files, bounds=BOUNDS, unit="in logits")


@pytest.mark.parametrize(
    "outputs",
    [
        {4: np.array([0.25, -1e-7], dtype=np.float32), 2: np.array([3.5], dtype=np.float32)},
        {0: np.array([1, 767, 2]), 9: np.array([], dtype=np.int64)},
        {0: np.array([0, 255, 17], dtype=np.float32)},
    ],
    ids=["numbers", "names, and none", "levels"],
)
def test_outputs_come_back_as_they_were_written(profile, outputs):
    write_output_reference(profile, outputs, recipe="some.recipe")
    found = read_back(profile.files.path)
    assert (found.bounds, found.unit) == (BOUNDS, "in logits")
    assert {index: values.tolist() for index, values in found.outputs.items()} == {
        index: values.tolist() for index, values in sorted(outputs.items())
    }


def test_the_description_keeps_what_it_said_and_gains_a_checksum(profile):
    write_output_reference(profile, {0: np.array([1.5])}, recipe="some.recipe")
    found = read_mini(Profile, profile.files.path)
    assert found.reference == 98.5
    assert found.files.sha256.items() > profile.files.sha256.items()
    assert found.files.sha256.keys() == {"weights.bin", OUTPUTS_FILE}


def test_the_same_outputs_make_the_same_bytes(profile):
    contents = []
    for _ in range(2):
        write_output_reference(profile, {0: np.arange(9.0)}, recipe="some.recipe")
        contents.append((profile.files.path / OUTPUTS_FILE).read_bytes())
    assert contents[0] == contents[1]


def test_a_folder_without_outputs_has_none(profile):
    assert read_output_reference(profile.files, bounds=BOUNDS, unit="") is None


def test_a_changed_file_is_refused(profile):
    write_output_reference(profile, {0: np.array([1.5])}, recipe="some.recipe")
    file = profile.files.path / OUTPUTS_FILE
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match=rf"corrupt or another version: .*{OUTPUTS_FILE}"):
        read_back(profile.files.path)
