"""The nine workloads on a device in virtual time: hardly more than a sample and its answer crosses its link."""

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from mlbench import (
    BatchProgram,
    Dim,
    EnginePlan,
    Memory,
    Model,
    Profile,
    ReplySpec,
    Samples,
    TensorSpec,
    Variant,
    Weights,
)
from mlbench.conformance.recording import RecordingReply
from mlbench.discovery import Plugins
from mlbench.execution.arrays import host_array
from mlbench.execution.engine_choice import engine_of
from mlbench.toolkit import ModuleGraph

pytest.importorskip("torch")

import torch
from simulated_device import GRANULE, Counts, Device, Remote, Simulated

MOST = 1.1
"""Bytes of a sample, at most, by the least that its official form allows: its input and its answer."""


def of_tokens(prompt, answer):
    return 8 * (len(prompt.tokens) + len(answer))


EACH_STEP = "a step sends the columns that it looks at, some hundred bytes a row, and fetches candidates"


@dataclass(frozen=True)
class Case:
    samples: int
    least: object
    """Returns the least bytes of a sample, given it and its answer."""
    batch: int = 8
    calls: float = 1
    """Calls of graphs that a batch needs, on average."""
    known: float = MOST
    """Bytes that cross the link today, by the least; above `MOST` the workload is not there yet."""
    why: str = ""
    allocations: int = 0
    """How often a warm engine takes memory today."""


NINE = {
    "resnet50": Case(64, lambda image, _: math.prod(image.shape) + 4),
    "retinanet": Case(
        16,
        lambda image, found: 4 * math.prod(image.pixels.shape) + found.nbytes,
        known=1.11,
        why="the host chooses among candidates",
    ),
    "bert": Case(64, lambda pair, _: len(pair.input_ids) * (3 * 8 + 2 * 4)),
    "dlrm-v2": Case(64, lambda rows, _: len(rows[0]) * (13 * 4 + 214 * 4 + 4), allocations=1),
    "3d-unet": Case(4, lambda volume, _: volume.size * (4 + 1), batch=2, calls=4.5),
    "stable-diffusion-xl": Case(
        4,
        lambda tokens, image: tokens.nbytes + image.nbytes,
        batch=4,
        calls=23,
    ),
    "gptj": Case(8, of_tokens, known=26, why=EACH_STEP),
    "llama2-70b": Case(8, of_tokens, known=20, why=EACH_STEP),
    "mixtral-8x7b": Case(8, of_tokens, known=17, why=EACH_STEP),
}
QUICK = ("resnet50", "retinanet")


@dataclass(frozen=True)
class Measured:
    """What crossed the link, and the least."""

    counts: Counts
    calls: int
    least_bytes: int

    @property
    def factor(self):
        return self.counts.bytes / self.least_bytes

    @property
    def share(self):
        """Return the share of the time of a transfer there, a launch and a transfer back for each call."""
        device = Device()
        ideal_s = self.calls * (2 * device.latency_s + device.launch_s) + self.least_bytes / device.bytes_per_s
        return ideal_s / self.counts.seconds


def measure(model, data, case):
    """Answer samples on a device in a warm engine."""
    device, reply = Device(), RecordingReply()
    samples = Samples(tuple(range(100, 100 + case.samples)), tuple(range(case.samples)), data)
    with engine_of(Simulated(device), model, EnginePlan(batching="bucketed", batch=case.batch)) as engine:
        engine.warm_up(samples)
        device.take_counts()
        engine.submit(samples, reply)
        engine.flush()
        assert reply.wait(samples, 600)
    assert not reply.failures
    least = [case.least(data.sample(index), reply.answers[100 + index][0]) for index in range(case.samples)]
    return Measured(device.take_counts(), case.samples // case.batch * case.calls, sum(least))


@cache
def measured(name):
    workload = Plugins.discover().workload(name)
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options, memory=Memory.DEVICE)
    data, model = workload.dataset(variant), workload.model(variant)
    data.load(range(NINE[name].samples))
    return measure(model, data, NINE[name])


def cases(has_failed=lambda case: False, reason=""):
    """Return the nine, those that are slow for the thorough session; ``has_failed`` says which are not there yet."""
    return [
        pytest.param(
            name,
            marks=[
                pytest.mark.slow if name in QUICK else pytest.mark.thorough("workloads"),
                *([pytest.mark.xfail(reason=reason.format(case), strict=True)] if has_failed(case) else []),
            ],
        )
        for name, case in NINE.items()
    ]


@pytest.mark.parametrize("name", cases(lambda case: case.known > MOST, "today {0.known} times: {0.why}"))
def test_little_more_than_a_sample_and_its_answer_crosses_the_link(name):
    assert measured(name).factor <= MOST


@pytest.mark.parametrize("name", cases())
def test_no_more_crosses_the_link_than_is_known(name):
    assert measured(name).factor <= NINE[name].known


@pytest.mark.parametrize("name", cases(lambda case: case.known > MOST, "today {0.known} times: {0.why}"))
def test_the_link_and_the_queue_of_launches_wait_for_nothing_else(name):
    assert measured(name).share >= 0.95


@pytest.mark.parametrize(
    "name", cases(lambda case: case.allocations, "{0.allocations}: warm-up knows no largest batch")
)
def test_a_warm_engine_takes_no_more_memory_of_the_device(name):
    assert measured(name).counts.allocations == 0


WIDTHS = (3, 100, 2)
ROWS = Dim(name="batch", smallest=1, usual=4, largest=8)


def layer(name, *widths):
    """Return a graph of linear layers of these widths."""
    spec = {
        side: TensorSpec(name=side, shape=(ROWS, width), dtype="float32")
        for side, width in zip("xy", (widths[0], widths[-1]), strict=True)
    }
    torch.manual_seed(len(widths))
    return ModuleGraph(
        name,
        inputs=(spec["x"],),
        outputs=(spec["y"],),
        build=lambda: torch.nn.Sequential(*(torch.nn.Linear(*pair) for pair in pairwise(widths))),
        fingerprint=name,
    )


class Layers(BatchProgram):
    """Calls graphs one after another: each gets the one before it gave."""

    reply = ReplySpec(dtype="float32", shape=(WIDTHS[-1],))

    def run(self, samples, graphs):
        rows = np.stack(samples)
        for graph in graphs.values():
            rows = host_array(graph({"x": rows})["y"])
        return rows


class Rows:
    def sample(self, index):
        return np.full(WIDTHS[0], index, np.float32)


@pytest.mark.parametrize(
    ("layers", "factor", "waits", "share"),
    [
        ([WIDTHS], 1, 1, 1),
        (list(pairwise(WIDTHS)), (3 + 100 + 100 + 2) / (3 + 2), 2, 0.5),
    ],
    ids=["in one graph", "fetched in between"],
)
def test_a_program_that_fetches_an_intermediate_result_is_noticed(layers, factor, waits, share):
    graphs = {str(number): layer(str(number), *widths) for number, widths in enumerate(layers)}
    model = Model(name="layers", graphs=graphs, program=Layers(), weights_fingerprint="none")
    found = measure(model, Rows(), Case(samples=16, batch=4, least=lambda sample, reply: sample.nbytes + reply.nbytes))
    assert (found.factor, found.counts.waits) == (factor, 4 * waits)
    assert found.share == pytest.approx(share, rel=0.01)


def test_the_host_cannot_look_into_state():
    state = Remote([torch.zeros(3)])
    with pytest.raises(TypeError):
        host_array(state)
    with pytest.raises(TypeError):
        np.zeros(3) + state
    with pytest.raises(TypeError):
        torch.zeros(3) + state


def test_the_clock_adds_transfers_launches_and_latencies():
    """8,000 bytes take 8 s, 4,000 back 4 s; a latency of 3 s each way and a launch of 2 s: the last must wait."""
    device = Device(bytes_per_s=1000, latency_s=3, launch_s=2)
    numbers = device.send("x", np.ones(1000))
    halves = device.launch(lambda tensors: tensors[0][:500] / 2, [numbers])
    np.testing.assert_array_equal(device.fetch({"y": halves}, "graph")["y"], np.full(500, 0.5))
    device.launch(list, [])
    counts = device.take_counts()
    assert (counts.seconds, counts.sent_bytes, counts.fetched_bytes, counts.waits) == (8 + 3 + 2 + 3 + 4, 8000, 4000, 1)
    assert counts.allocations == 2
    device.hold("x", GRANULE)
    device.hold("x", GRANULE + 1)
    assert device.take_counts().allocations == 1
