"""Behaviour that the official workloads share: their names, the options they refuse, random weights, damaged files."""

import shutil
from importlib import import_module
from pathlib import Path

import pytest
import torch
from workload_variants import WORKLOADS, variants_of

from mlbench import DataError, UsageError, Weights

ONE_GRAPH = {
    "bert": ["weights.safetensors", "dev.json", "vocab.txt", "calibration.json", "calibration.txt"],
    "dlrm_v2": ["weights.safetensors"],
    "resnet50": ["weights.safetensors"],
    "retinanet": ["weights.safetensors", "validation.zip", "calibration.zip"],
    "unet3d": ["weights.safetensors"],
}
"""Packages of workloads with one graph, and shipped files of each."""


def test_the_plugins_bring_the_workloads_with_their_rules():
    own = {"llama3.1-8b": "llama3_1-8b", "llama3.1-8b-edge": "llama3_1-8b-edge"}
    assert {name: workload.rules for name, workload in WORKLOADS.items()} == own | {
        name: name
        for name in (
            *("3d-unet", "bert", "dlrm-v2", "gptj", "llama2-70b"),
            *("mixtral-8x7b", "resnet50", "retinanet", "stable-diffusion-xl"),
        )
    }


REFUSED = {
    "bert": [
        ("full", {}, "needs data"),
        ("full", {"data": "dev-v1.1.json", "vocab": "vocab.txt"}, "needs weights"),
        ("full", {"data": "dev-v1.1.json", "weights": "model.pytorch"}, "has no vocab"),
        ("random", {"vocab": "vocab.txt"}, "has no data"),
        ("random", {"weights": "model.pytorch"}, "random weights do not come from a file"),
        ("random", {"calibration": "list.txt"}, "calibration list, but no questions"),
        ("mini", {"data": "dev-v1.1.json"}, "includes its files"),
    ],
    "dlrm-v2": [
        ("full", {}, "needs data"),
        ("full", {"data": "day_23"}, "needs weights"),
        ("full", {"weights": "model"}, "needs data"),
        ("full", {"data": "day_23", "weights": "model", "table_rows": 5}, "table_rows is for random weights"),
        ("random", {"weights": "model"}, "random weights do not come from a file"),
        ("random", {"data": "day_23"}, "need all rows of the tables, not the first 1000000"),
        ("mini", {"data": "day_23"}, "does not use workload"),
        ("mini", {"table_rows": 5}, "does not use workload"),
    ],
    **{
        name: [
            ("full", {}, f"profile of {name} needs data"),
            ("full", {"data": "data"}, "needs weights"),
            ("full", {"data": "data", "weights": "folder", "layers": 3}, "trained weights have all their layers"),
            ("random", {"layers": layers + 1}, f"{name} has {layers} layers"),
            ("random", {"weights": "folder"}, "random weights do not come from a file"),
            ("mini", {"data": "data"}, "includes its files"),
            *more,
        ]
        for name, layers, more in (
            (
                *("gptj", 28),
                [
                    ("random", {"tokenizer": "folder"}, "a tokenizer, but no articles"),
                    ("random", {"data": "data"}, "gptj has no tokenizer"),
                ],
            ),
            ("llama2-70b", 80, []),
            ("llama3.1-8b", 32, []),
            ("mixtral-8x7b", 32, []),
        )
    },
    "llama3.1-8b-edge": [("full", {}, "8b-edge needs data")],
    "resnet50": [
        ("full", {}, "needs trained weights"),
        ("full", {"weights": "resnet50-19c8e357.pth"}, "needs ImageNet's images"),
        ("random", {"weights": "resnet50-19c8e357.pth"}, "random weights do not come from a file"),
        ("random", {"calibration": "option_1.txt"}, "calibration list, but no images"),
        ("mini", {"data": "imagenet"}, "includes its files"),
    ],
    "retinanet": [
        ("full", {}, "needs trained weights"),
        ("full", {"weights": "resnext50_32x4d_fpn.pth"}, "needs OpenImages' images"),
        ("full", {"weights": "model.pt", "data": "data"}, "not one of the official weights files"),
        ("random", {"weights": "resnext50_32x4d_fpn.pth"}, "random weights do not come from a file"),
        ("random", {"calibration": "list.txt"}, "both a calibration list and the images"),
        ("random", {"calibration_data": "train"}, "both a calibration list and the images"),
        ("mini", {"data": "openimages"}, "includes its files"),
    ],
    "stable-diffusion-xl": [
        ("full", {}, "needs the captions"),
        ("full", {"data": "captions_source.tsv"}, "needs trained weights"),
        ("random", {"weights": "pipe"}, r"random weights read no files, but workload\.weights is given"),
        ("random", {"clip": "clip"}, r"random weights read no files, but workload\.clip is given"),
        ("mini", {"data": "captions_source.tsv"}, "includes its files"),
        ("mini random", {"latents": "latents.npy"}, "includes its files"),
    ],
    "3d-unet": [
        ("full", {}, "needs trained weights"),
        ("full", {"data": "kits19/data"}, "needs trained weights"),
        ("full", {"weights": "kits19.ptc"}, "needs KiTS19's scans"),
        ("full", {"data": "kits19/data", "weights": "model.tf.zip"}, "not one of the official weights files"),
        ("random", {"weights": "kits19.ptc"}, "random weights do not come from a file"),
        ("random", {"calibration": "list.txt"}, "calibration list, but no scans"),
        ("mini", {"data": "kits19/data"}, "includes its files"),
        ("mini", {"weights": "kits19.ptc", "windows_per_call": 4}, "includes its files"),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in REFUSED.items() for case in cases])
def test_options_that_are_missing_or_would_not_be_read_are_refused(name, case):
    kind, options, complaint = case
    full, mini = variants_of(name)
    paths = {key: Path(value) if isinstance(value, str) else value for key, value in options.items()}
    weights = Weights.RANDOM if "random" in kind else Weights.TRAINED
    variant = (mini if "mini" in kind else full)(weights, **paths)
    for part in (WORKLOADS[name].dataset, WORKLOADS[name].model):
        with pytest.raises(UsageError, match=complaint):
            part(variant)


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("3d-unet", {"weights": "kits19.ptc"}, r"84 files of KiTS19 are missing, first .*/case_00000/imaging\.nii\.gz"),
        ("dlrm-v2", {"weights": "model"}, r"data file not found: nowhere/day_23_dense\.npy"),
        ("resnet50", {"weights": "resnet50-19c8e357.pth"}, "nowhere"),
        ("retinanet", {"weights": "resnext50_32x4d_fpn.pth"}, "annotation file not found: nowhere"),
    ],
)
def test_a_missing_data_folder_is_named(name, options, complaint):
    full, _ = variants_of(name)
    paths = {key: Path(value) for key, value in options.items()}
    with pytest.raises(DataError, match=complaint):
        WORKLOADS[name].dataset(full(data=Path("nowhere"), **paths))


@pytest.mark.parametrize("name", WORKLOADS)
def test_random_weights_claim_no_accuracy_and_are_another_model(name):
    workload, (full, mini) = WORKLOADS[name], variants_of(name)
    noise = workload.dataset(full(Weights.RANDOM))
    assert workload.metric(full(Weights.RANDOM), noise) is None
    data = noise if name == "dlrm-v2" else workload.dataset(mini(Weights.RANDOM))  # its day takes seconds
    assert workload.metric(mini(Weights.RANDOM), data) is None
    trained, random = workload.model(mini()), workload.model(mini(Weights.RANDOM))
    assert trained.weights_fingerprint != random.weights_fingerprint


@pytest.fixture(params=ONE_GRAPH)
def shipped(request):
    """Return the mini profile of a workload with one graph."""
    return import_module(f"mlbench_{request.param}.mini_profile").MiniProfile.shipped()


def test_random_weights_are_the_same_each_time_and_leave_the_global_generator_alone(shipped):
    torch.manual_seed(1)
    expected = torch.rand(3)
    one = shipped.graph(Weights.RANDOM).module().state_dict()
    torch.manual_seed(1)
    other = shipped.graph(Weights.RANDOM).module().state_dict()
    assert torch.equal(torch.rand(3), expected)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(("package", "name"), [(each, name) for each, names in ONE_GRAPH.items() for name in names])
def test_a_changed_byte_in_a_shipped_file_is_noticed(tmp_path, monkeypatch, package, name):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))  # where no archive is unpacked yet
    kind = import_module(f"mlbench_{package}.mini_profile").MiniProfile
    folder = shutil.copytree(kind.shipped().files.path, tmp_path / "mini")
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2 if name.endswith("zip") else -2] ^= 1
    (folder / name).write_bytes(content)
    profile = kind.read(folder)
    with pytest.raises(DataError, match=f"corrupt or another version: .*{name}"):
        profile.graph(Weights.TRAINED).module()
        profile.dataset()
        list(profile.calibration_inputs())
