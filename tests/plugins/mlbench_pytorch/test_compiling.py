"""Which graphs are compiled where the setting leaves that open, and what a record says of it."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from mlbench_pytorch.backend import PyTorch

from mlbench import Dim, Precision, Profile, RuntimeFacts, TensorSpec
from mlbench.discovery import Plugins
from mlbench.planning.requests import RunRequest, settings_of
from mlbench.rules.tiers import Tier
from mlbench.toolkit import ModuleGraph, TorchOptions

torch = pytest.importorskip("torch")

from mlbench.toolkit.torch_backend import compiling  # noqa: E402
from mlbench.toolkit.torch_backend.compiling import why_eager, why_slower  # noqa: E402

ROWS = Dim(name="rows", smallest=1, usual=2, largest=8)
CPU = torch.device("cpu")


class Sum(torch.nn.Module):
    """Adds numbers to the rows of a state, which are its outputs."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1024))

    def forward(self, numbers, sums):
        sums[: len(numbers)] += numbers
        return sums[: len(numbers)].clone(), sums


def sum_graph():
    return ModuleGraph(
        "sum",
        inputs=(TensorSpec(name="numbers", shape=(ROWS,), dtype="float32"),),
        outputs=(TensorSpec(name="sums", shape=(ROWS,), dtype="float32"),),
        build=Sum,
        fingerprint="sum",
        state=(TensorSpec(name="kept", shape=(ROWS,), dtype="float32"),),
    )


@pytest.fixture
def with_compiler(monkeypatch):
    monkeypatch.setenv("CXX", sys.executable)  # any program will do: it is only looked for


@pytest.fixture
def without_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", str(tmp_path / "none"))


def test_a_graph_in_fp32_on_a_cpu_is_compiled_where_there_is_a_compiler(with_compiler):
    assert why_eager(sum_graph(), Sum(), CPU, Precision.FP32) == ""


@pytest.mark.parametrize(
    ("device", "precision", "reason"),
    [("meta", Precision.FP32, "fp32 on meta"), ("cpu", Precision.BF16, "bf16 on cpu")],
)
def test_elsewhere_and_in_lower_precisions_it_is_not(with_compiler, device, precision, reason):
    assert reason in why_eager(sum_graph(), Sum(), torch.device(device), precision)


def test_a_missing_compiler_is_named(without_compiler, tmp_path):
    assert why_eager(sum_graph(), Sum(), CPU, Precision.FP32) == f"no C++ compiler ({tmp_path}/none)"


def test_a_large_model_is_not_compiled_unasked(with_compiler, monkeypatch):
    monkeypatch.setattr(compiling, "MOST_BYTES", 4 * 1024)
    assert why_eager(sum_graph(), Sum(), CPU, Precision.FP32) == ""
    monkeypatch.setattr(compiling, "MOST_BYTES", 4 * 1024 - 1)
    assert "GiB of weights, more than" in why_eager(sum_graph(), Sum(), CPU, Precision.FP32)


def test_what_stands_in_the_place_of_a_graphs_module_is_not_taken_from_the_cache(with_compiler):
    damaged, once = sum_graph(), sum_graph()
    damaged.module = Sum
    once.is_used_once = True
    assert why_eager(damaged, Sum(), CPU, Precision.FP32) == "it is used once"
    assert why_eager(once, Sum(), CPU, Precision.FP32) == "it is used once"


def backend(compile="auto"):
    return PyTorch().with_options(TorchOptions(device="cpu", compile=compile))


def test_without_a_compiler_it_runs_eagerly_and_the_record_says_why(without_compiler, tmp_path):
    made = backend()
    worker = made.with_options(replace(made.options, channels_last=False))
    executable = worker.compile(sum_graph(), Precision.FP32)
    state = executable.new_state({"rows": 2})
    assert executable({"numbers": np.ones(2, np.float32)}, state)["sums"].tolist() == [1, 1]
    facts = made.observe()
    assert facts.compiled is None
    assert facts.extra["eager"] == {"sum": f"no C++ compiler ({tmp_path}/none)"}


def quick(inputs):
    return inputs


def slow(inputs):
    return {name: array + sum(range(100_000)) for name, array in inputs.items()}


def test_code_that_was_measured_to_be_slower_is_not_run_and_the_result_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(compiling, "_BUDGET_S", 0)
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    assert why_slower(sum_graph(), [1], lambda: quick, slow) == "measured: 0.00 of eager's speed"
    assert why_slower(sum_graph(), [1], lambda: slow, quick) == "measured: 0.00 of eager's speed"
    assert why_slower(sum_graph(), [2], lambda: slow, quick) == ""
    assert why_slower(sum_graph(), [2], lambda: quick, slow) == ""


def test_nothing_is_said_of_what_no_setting_left_open(without_compiler):
    made = backend(False)
    made.compile(sum_graph(), Precision.FP32)
    facts = made.observe()
    assert (facts.compiled, facts.extra.get("eager")) == (None, None)
    assert isinstance(facts, RuntimeFacts)


@pytest.mark.parametrize("workload", ["3d-unet", "dlrm-v2"])
def test_what_gained_nothing_is_not_compiled(workload):
    request = RunRequest(workload=workload, backend="pytorch", scenario="Offline", tier=Tier.VALID)
    assert settings_of(request, Plugins.discover()).by_key["backend.compile"].value is False


@pytest.mark.parametrize(("tier", "value"), [("smoke", False), ("dev", "auto"), ("valid", "auto")])
@pytest.mark.parametrize(
    "workload", ["bert", "gptj", "llama2-70b", "mixtral-8x7b", "resnet50", "retinanet", "stable-diffusion-xl"]
)
def test_workloads_are_compiled_in_runs_that_are_long_enough(workload, tier, value):
    plugins = Plugins.discover()
    request = RunRequest(workload=workload, backend="pytorch", scenario="Offline", tier=Tier(tier))
    setting = settings_of(request, plugins).by_key["backend.compile"]
    assert (setting.value, setting.layer) == (value, "default" if tier == "smoke" else "backend pytorch")
    told = replace(request, overrides={"backend.compile": "false"})
    assert settings_of(told, plugins).by_key["backend.compile"].value is False


@pytest.mark.parametrize(
    ("tier", "scenario", "profile", "value"),
    [
        ("dev", "Offline", "mini", "auto"),
        ("valid", "Offline", "mini", "auto"),
        ("smoke", "Offline", "mini", 1),
        ("dev", "Server", "mini", 1),
        ("dev", "Offline", "full", 1),
    ],
)
@pytest.mark.parametrize("workload", ["gptj", "llama2-70b", "mixtral-8x7b"])
def test_small_language_models_in_long_offline_runs_have_as_many_processes_as_are_fastest(
    workload, tier, scenario, profile, value
):
    request = RunRequest(
        workload=workload, backend="pytorch", scenario=scenario, tier=Tier(tier), profile=Profile(profile)
    )
    assert settings_of(request, Plugins.discover()).by_key["execution.instances"].value == value
