import gc
import weakref

import numpy as np
import pytest
import torch
from mlbench_pytorch.backend import PyTorch

from mlbench import BatchProgram, Dim, EnginePlan, Model, Precision, ReplySpec, Samples, TensorSpec
from mlbench.conformance.recording import RecordingReply
from mlbench.execution.engine_choice import engine_of
from mlbench.toolkit import ModuleGraph, TorchOptions, host_array

ROWS = Dim(name="batch", smallest=1, usual=2, largest=4)
CPU = TorchOptions(device="cpu")


class Doubling(torch.nn.Linear):
    """Doubles rows of two."""

    def __init__(self):
        super().__init__(2, 2)
        self.weight.data, self.bias.data = 2 * torch.eye(2), torch.zeros(2)


class Built:
    """A graph that remembers the modules it built."""

    def __init__(self):
        self.modules = weakref.WeakSet()
        x, y = (TensorSpec(name=name, shape=(ROWS, 2), dtype="float32") for name in "xy")
        self.graph = ModuleGraph("double", inputs=(x,), outputs=(y,), build=self.build, fingerprint="double")
        self.count = 0

    def build(self):
        module = Doubling()
        self.modules.add(module)
        self.count += 1
        return module


class Doubles(BatchProgram):
    reply = ReplySpec(dtype="float32", shape=(2,))

    def run(self, samples, graphs):
        return host_array(graphs["double"]({"x": np.stack(samples)})["y"])


class Pairs:
    def sample(self, index):
        return np.array([index, -index], np.float32)


def compiled(graph, precision=Precision.FP32, **options):
    return PyTorch().with_options(TorchOptions(device="cpu", **options)).compile(graph, precision)


def test_workers_of_an_engine_run_one_module_and_answer_apart():
    built, reply = Built(), RecordingReply()
    model = Model(name="doubles", graphs={"double": built.graph}, program=Doubles(), weights_fingerprint="none")
    samples = Samples(tuple(range(200)), tuple(range(200)), Pairs())
    with engine_of(PyTorch().with_options(CPU), model, EnginePlan(batching="dynamic", batch=4, workers=3)) as engine:
        engine.submit(samples, reply)
        engine.flush()
        assert reply.wait(samples, 120)
        assert built.count == 1
    for index in range(200):
        np.testing.assert_array_equal(reply.answers[index][0], [2 * index, -2 * index])


def test_a_module_is_shared_as_long_as_it_is_used():
    built = Built()
    first, second = compiled(built.graph), compiled(built.graph)
    assert (built.count, len(built.modules)) == (1, 1)
    del first
    np.testing.assert_array_equal(second({"x": np.ones((1, 2), np.float32)})["y"], [[2, 2]])
    del second
    gc.collect()
    assert not built.modules
    compiled(built.graph)
    assert built.count == 2


@pytest.mark.parametrize(
    "other", [{"precision": Precision.BF16}, {"channels_last": False}], ids=["precision", "layout"]
)
def test_what_a_module_is_changed_for_tells_them_apart(other):
    built = Built()
    _kept = [compiled(built.graph), compiled(built.graph, **other), compiled(Built().graph)]
    assert built.count == 2


class Unhashable(ModuleGraph):
    __hash__ = None


def test_a_graph_without_a_hash_has_a_module_for_each_worker():
    built = Built()
    built.graph.__class__ = Unhashable
    _kept = [compiled(built.graph), compiled(built.graph)]
    assert built.count == 2
