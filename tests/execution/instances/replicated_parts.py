"""What instances are made of in these tests. Imported by their processes, under this bare name."""

import importlib.util
import os
import sys
import time
from pathlib import Path

import numpy as np
from mlbench_null.backend import Null

from mlbench import (
    BatchProgram,
    Capacity,
    DataError,
    Dataset,
    Engine,
    EnginePlan,
    EngineStatistics,
    GraphBackend,
    GraphError,
    Model,
    Probe,
    ReplySpec,
    RuntimeFacts,
    UsageError,
)
from mlbench.conformance.known_answers import TokenLists, scoring_model
from mlbench.execution.instances.serving import Part

DEADLY, TIRING, WRONG, TWICE, UNREADABLE = 913, 914, 915, 916, 1917
"""Samples at which something happens; LoadGen does not ask for them."""


class Numbers(Dataset):
    """Sample i is the number i."""

    count, performance_count = 900, 64
    fingerprint = "numbers"

    def __init__(self):
        self.loaded = set()

    def load(self, indices):
        if UNREADABLE in indices:
            raise DataError("number 1917 is corrupt.")
        self.loaded.update(indices)

    def unload(self, indices):
        self.loaded.difference_update(indices)

    def sample(self, index):
        assert index in self.loaded
        return index


class Double:
    """A graph as the engine needs it."""

    name = "double"
    state = ()

    def precision(self, asked):
        return asked


class Doubles(BatchProgram):
    reply = ReplySpec(dtype="int64", shape=(1,))

    def run(self, samples, graphs):
        self.report_progress(1, 1)
        return graphs["double"]({"x": np.array(samples)[:, None]})["y"]

    def length(self, sample):
        return sample


def count_tired_rows(count):
    with open(os.environ["TIRED_ROWS"], "ab") as file:
        file.write(b"." * count)


def work_slowly():
    """Take until the other instances have done 32 rows, or nearly for ever where they never get them."""
    deadline_s = time.monotonic() + 25
    while time.monotonic() < deadline_s and os.path.getsize(os.environ["TIRED_ROWS"]) < 32:
        time.sleep(0.01)


class Doubling(GraphBackend):
    """Doubles; the instance with number 1 dies of one sample, number 0 is slower at another than all others."""

    name = "doubling"
    number = None

    def probe(self):
        return Probe(is_available=True)

    def instance(self, number, of):
        own = self.with_options(self.options)
        own.number = number
        return own

    def compile(self, graph, precision):
        def run(inputs):
            if DEADLY in inputs["x"]:
                os.kill(os.getpid(), 9)
            if TIRING in inputs["x"]:
                work_slowly() if self.number == 0 else count_tired_rows(len(inputs["x"]))
            if WRONG in inputs["x"]:
                raise ValueError("fifteen")
            return {"y": 2 * inputs["x"]}

        return run

    def observe(self):
        return RuntimeFacts(device="cpu", extra={"number": self.number})


class Speaking(Engine):
    """Says a first token before each answer, of a length that differs; raises at one sample, answers another twice."""

    def submit(self, samples, reply):
        for place, number in enumerate(samples.data()):
            one = samples[place : place + 1]
            if number == WRONG:
                raise ValueError("fifteen")
            reply.first_token(one, np.array([[number]], np.int32))
            reply.complete(one, [np.arange(number, dtype=np.int32)], [number])
            if number == TWICE:
                reply.complete(one, [np.arange(number, dtype=np.int32)], [number])

    def capacity(self):
        return Capacity(batch=1, in_flight=100)


class SpeakingBackend(Doubling):
    def engine(self, model, plan):
        return Speaking()


def model():
    return Model(name="doubles", graphs={"double": Double()}, program=Doubles(), weights_fingerprint="none")


def part(backend, plan):
    return Part(backend=backend, model=model(), plan=plan, dataset=Numbers())


def doubling(payload):
    return part(Doubling(), EnginePlan(instances=3, **payload))


def speaking(payload):
    return part(SpeakingBackend(), EnginePlan(instances=2))


def null(payload):
    return Part(backend=Null(), model=scoring_model(), plan=EnginePlan(**payload), dataset=TokenLists())


def token_world():
    """Return the language model without a network of the generation engine's tests, with twelve prompts."""
    place = Path(__file__).parents[1] / "generation" / "conftest.py"
    spec = importlib.util.spec_from_file_location("token_world", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    world = module.World(prompts=module.prompts_of(12))
    vars(world.dataset).update(count=12, performance_count=12, load=lambda indices: None, unload=lambda indices: None)
    return world


def generating(payload):
    world = token_world()
    return Part(backend=world.backend, model=world.model, plan=EnginePlan(**payload), dataset=world.dataset)


class Garbling(Engine):
    """Writes to the instance's own socket, once an invalid message, once one with wrong contents."""

    def submit(self, samples, reply):
        for place, number in enumerate(samples.data()):
            if number == WRONG:
                os.write(int(sys.argv[1]), b"no message at all, but as long as one")
            elif number == TWICE:
                reply._line.send("complete", [], test=10**6, is_one=True)
            else:
                reply.complete(samples[place : place + 1], np.array([[2 * number]]))

    def statistics(self):
        return EngineStatistics(extra={"rate": float("nan"), "sizes": {8: np.int64(3)}})


class GarblingBackend(Doubling):
    def engine(self, model, plan):
        return Garbling()

    def observe(self):
        return RuntimeFacts(device="cpu", extra={"handle": object()})


def garbling(payload):
    return part(GarblingBackend(), EnginePlan(instances=2))


class MeetingBackend(Doubling):
    """Makes the first engine once both processes have built their parts, and the second one after the first."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def with_options(self, options):
        return MeetingBackend(self.folder)

    def engine(self, model, plan):
        if self.number == 0:
            deadline_s = time.monotonic() + 25
            while len(list(self.folder.glob("built-*"))) < 2:
                assert time.monotonic() < deadline_s, "the other process waits to be asked for its engine"
                time.sleep(0.01)
            (self.folder / "first").touch()
        assert (self.folder / "first").exists()
        return Speaking()


def meeting(payload):
    folder = Path(payload["folder"])
    (folder / f"built-{os.getpid()}").touch()
    return part(MeetingBackend(folder), EnginePlan(instances=2))


def refusing(payload):
    raise UsageError("backend.speed is 11.", hint="Expected 1 to 10.")


def lacking(payload):
    raise GraphError("graph double: operator Det.", hint="Use fp32.")


def raising(payload):
    raise ValueError("bad operator")


def dying(payload):
    os._exit(3)


class SeeingBackend(Doubling):
    """Says which devices its process sees, and as which of how many it was made."""

    def instance(self, number, of):
        own = self.with_options(self.options)
        own.place = [number, of]
        return own

    def observe(self):
        return RuntimeFacts(extra={"seen": os.environ.get("CUDA_VISIBLE_DEVICES"), "place": self.place})


def seeing(payload):
    return part(SeeingBackend(), EnginePlan(**payload))
