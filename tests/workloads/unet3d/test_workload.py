from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mlbench_unet3d import full_profile
from mlbench_unet3d.preprocessing import Grid
from mlbench_unet3d.workload import UNet3D
from workload_variants import variants_of

from mlbench import DataError, Weights

full, mini = variants_of("3d-unet")

DATA, TORCHSCRIPT = Path("kits19/data"), Path("3dunet_kits19_pytorch.ptc")


def test_the_mini_profile_has_12_cases_and_targets_of_99_and_999_per_mille():
    workload = UNet3D()
    dataset = workload.dataset(mini())
    assert (dataset.count, dataset.performance_count) == (12, 12)
    dataset.load([11])
    assert all(length % 32 == 0 and length >= 64 for length in dataset.sample(11).shape)
    required, stricter = workload.metric(mini(), dataset).targets
    assert required.reference >= 0.84
    assert required.lower == pytest.approx(required.reference * 0.99)
    assert stricter.lower == pytest.approx(required.reference * 0.999)
    assert (required.required, stricter.required) == (True, False)


def test_without_files_random_weights_run_on_random_volumes_of_the_official_size():
    workload, variant = UNet3D(), full(Weights.RANDOM)
    assert workload.dataset(variant).count == 43
    assert workload.metric(variant, workload.dataset(variant)) is None
    graph = workload.model(variant).graphs["segmenter"]
    assert graph.inputs[0].shape[1:] == (1, 128, 128, 128)
    assert list(graph.calibration()) == []


@pytest.mark.parametrize("windows", [1, 7])
def test_the_network_is_given_as_many_windows_as_asked_for_in_either_profile(windows):
    assert UNet3D().model(mini(windows_per_call=windows)).program.windows_per_call == windows
    assert UNet3D().model(full(Weights.RANDOM, windows_per_call=windows)).program.windows_per_call == windows


class TestFilesInTheOfficialForm:
    """The full profile on two small cases, one of them listed twice, and a small window."""

    @pytest.fixture
    def data(self, write_case, tmp_path, monkeypatch):
        rng = np.random.default_rng(0)
        for name, shape in (("case_00000", (16, 16, 24)), ("case_00185", (24, 16, 16))):
            image = rng.integers(-79, 304, shape, dtype=np.int16)
            write_case(name, image, rng.integers(0, 3, shape, dtype=np.uint8))
        cases = ("case_00185", "case_00000", "case_00400")
        found = replace(full_profile.OFFICIAL, cases=cases, grid=Grid(window=16))
        monkeypatch.setattr(full_profile.FullProfile, "official", found)
        return tmp_path

    def test_cases_come_in_the_official_order_and_are_scored_against_the_official_reference(self, data):
        variant = full(data=data, weights=TORCHSCRIPT)
        dataset = UNet3D().dataset(variant)
        dataset.load(range(3))
        assert [dataset.sample(index).shape for index in range(3)] == [(24, 16, 16), (16, 16, 24), (24, 16, 16)]
        metric = UNet3D().metric(variant, dataset)
        assert [target.reference for target in metric.targets] == [0.86170, 0.86170]

    def test_calibration_windows_are_those_of_the_listed_cases(self, data):
        (data / "calibration.txt").write_text("case_00000\n")
        for weights, name in ((TORCHSCRIPT, "image"), (Path("x_dynbatch.onnx"), "input")):
            variant = full(data=data, weights=weights, calibration=data / "calibration.txt")
            inputs = list(UNet3D().model(variant).graphs["segmenter"].calibration())
            assert [{key: array.shape for key, array in each.items()} for each in inputs] == [
                {name: (1, 1, 16, 16, 16)}
            ] * 2


@pytest.mark.parametrize(
    ("name", "most"), [("3dunet_kits19_128x128x128.onnx", 1), ("3dunet_kits19_128x128x128_dynbatch.onnx", 2)]
)
def test_which_onnx_file_it_is_decides_how_many_windows_it_is_given(tmp_path, name, most):
    (tmp_path / name).write_bytes(b"graph")
    model = UNet3D().model(full(data=DATA, weights=tmp_path / name))
    assert model.program.windows_per_call == most
    assert model.graphs["segmenter"].inputs[0].name == "input"


def test_missing_official_weights_are_named_when_a_backend_asks_for_them():
    graph = UNet3D().model(full(data=DATA, weights=Path("nowhere/3dunet_kits19_pytorch.ptc"))).graphs["segmenter"]
    with pytest.raises(DataError, match=r"weights file not found: nowhere/3dunet_kits19_pytorch\.ptc"):
        graph.module()
