"""Exported files without mlbench: ONNX Runtime alone, in a process of its own, computes what the backend computes."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from invoking import invoke

from mlbench import Precision, Profile, Variant, Weights
from mlbench.discovery import Plugins

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.thorough("exports")

ALONE = """
import sys
import numpy, onnxruntime
file, asked, answered = sys.argv[1:]
settings = onnxruntime.SessionOptions()
settings.intra_op_num_threads = 1
settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
session = onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
calls, answers = {}, {}
for name, array in numpy.load(asked).items():
    call, _, tensor = name.partition("/")
    calls.setdefault(call, {})[tensor] = array
names = [each.name for each in session.get_outputs()]
for call, inputs in calls.items():
    for name, array in zip(names, session.run(names, inputs), strict=True):
        answers[f"{call}/{name}"] = array
numpy.savez(answered, **answers)
assert not [name for name in sys.modules if name.startswith("mlbench")]
"""

SAMPLES = 3


class Recording:
    """A compiled graph that keeps what it was asked and what it answered."""

    def __init__(self, executable):
        self._executable, self.asked, self.answered = executable, {}, {}

    def __call__(self, inputs):
        call = len(self.asked)
        self.asked[call] = {name: np.array(array) for name, array in inputs.items()}
        outputs = self._executable(inputs)
        self.answered[call] = {name: np.array(array) for name, array in outputs.items()}
        return outputs


def flat(calls):
    return {f"{call}/{name}": array for call, tensors in calls.items() for name, array in tensors.items()}


def exported(workload, folder):
    done = invoke("onnx", workload, "-o", folder, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["graphs"]


@pytest.mark.parametrize("workload", ["resnet50", "retinanet", "3d-unet", "bert", "dlrm-v2", "stable-diffusion-xl"])
def test_each_call_of_a_workload_has_the_backends_answer_to_the_last_bit(workload, tmp_path):
    """At a level of optimisation at which neither replaces operators by those of ONNX Runtime's own."""
    files = {graph["name"]: graph["file"] for graph in exported(workload, tmp_path / "out")}
    plugins = Plugins.discover()
    plugin, backend = plugins.workload(workload), plugins.backend("onnxruntime")
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=plugin.options)
    model, dataset = plugin.model(variant), plugin.dataset(variant)
    one = backend.with_options(replace(backend.options, threads=1, optimization="basic"))
    graphs = {name: Recording(one.compile(graph, Precision.FP32)) for name, graph in model.graphs.items()}
    dataset.load(range(SAMPLES))
    assert len(model.program.run([dataset.sample(index) for index in range(SAMPLES)], graphs)) == SAMPLES
    assert files.keys() == graphs.keys()
    for name, graph in graphs.items():
        assert graph.asked
        np.savez(tmp_path / "asked.npz", **flat(graph.asked))
        command = [tmp_path / "out" / files[name], tmp_path / "asked.npz", tmp_path / "answered.npz"]
        subprocess.run([sys.executable, "-c", ALONE, *command], check=True, cwd=tmp_path)
        alone, expected = dict(np.load(tmp_path / "answered.npz")), flat(graph.answered)
        assert alone.keys() == expected.keys()
        for tensor, array in expected.items():
            np.testing.assert_array_equal(alone[tensor], array, err_msg=f"{name} {tensor}", strict=True)


def test_a_language_model_has_its_state_among_inputs_and_outputs(tmp_path):
    import onnxruntime

    prefill, decode = exported("llama2-70b", tmp_path / "out")
    assert [prefill["name"], decode["name"]] == ["prefill", "decode"]
    for graph in (prefill, decode):
        session = onnxruntime.InferenceSession(tmp_path / "out" / graph["file"], providers=["CPUExecutionProvider"])
        inputs, outputs = ([each.name for each in found] for found in (session.get_inputs(), session.get_outputs()))
        assert inputs == [each["name"] for each in graph["inputs"]]
        assert outputs == [each["name"] for each in graph["outputs"]]
        assert graph["state"] == [name for name in inputs if name.startswith(("keys.", "values."))]
        assert {f"{name}.next" for name in graph["state"]} <= set(outputs)
