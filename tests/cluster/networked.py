"""Nodes in threads of the test's process, and what they serve: engines that double numbers."""

import queue
import socket
import threading
import time
from contextlib import contextmanager
from typing import ClassVar

import numpy as np

from mlbench import (
    BatchProgram,
    Capacity,
    DataError,
    Dataset,
    Engine,
    EnginePlan,
    EngineStatistics,
    GraphBackend,
    Model,
    Probe,
    Reply,
    ReplySpec,
    RuntimeFacts,
    Samples,
)
from mlbench.cluster.acceptor import Acceptor, StrangerLimits
from mlbench.cluster.network_engine import NetworkEngine
from mlbench.cluster.session import NodeConfig, Session
from mlbench.execution.instances.serving import Part
from mlbench.records.job_spec import JobSpec, NetworkSpec
from mlbench.records.node_record import NodeRecord
from mlbench.version import __version__

TOKEN = b"a secret of the tests"
WRONG, TWICE, SILENT = 915, 916, 917
"""Samples at which something happens."""


class Numbers(Dataset):
    """Sample i is an array with the number i."""

    count, performance_count = 900, 64
    fingerprint = "numbers"

    def load(self, indices):
        """Do nothing: numbers are there."""

    def unload(self, indices):
        """Do nothing."""

    def sample(self, index):
        return np.array([index])


class OtherNumbers(Numbers):
    fingerprint = "other numbers"


class Loaded(Numbers):
    """Has what was loaded, and no other sample."""

    def __init__(self):
        self._there = set()

    def load(self, indices):
        self._there.update(indices)

    def unload(self, indices):
        self._there.difference_update(indices)

    def sample(self, index):
        if index not in self._there:
            raise LookupError(f"sample {index} is not loaded")
        return np.array([index])


class Doubles(BatchProgram):
    reply = ReplySpec(dtype="int64", shape=(1,))

    def run(self, samples, graphs):
        raise AssertionError("the engine doubles by itself")


class Doubling(Engine):
    """Doubles what it reads; counts its samples, and notes what it was given together."""

    def __init__(self):
        self.together, self.flushed, self.count = [], threading.Event(), 0

    def submit(self, samples, reply):
        numbers = np.array(samples.data())
        self.together.append(numbers[:, 0].tolist())
        self.count += len(samples)
        if WRONG in numbers:
            raise ValueError("fifteen")
        if SILENT not in numbers:
            reply.complete(samples, 2 * numbers)
        if TWICE in numbers:
            reply.complete(samples, 2 * numbers)

    def flush(self):
        self.flushed.set()

    def capacity(self):
        return Capacity(batch=2, in_flight=4)

    def statistics(self):
        counted, self.count = self.count, 0
        return EngineStatistics(samples=counted)

    def replay_graphs(self):
        return "no graphs"


class DoublingBackend(GraphBackend):
    name = "doubling"
    engines: ClassVar = []

    def probe(self):
        return Probe(is_available=True)

    def compile(self, graph, precision):
        raise AssertionError("it has an engine of its own")

    def engine(self, model, plan):
        self.engines.append(Doubling())
        return self.engines[-1]

    def observe(self):
        return RuntimeFacts(device="cpu")


def model():
    return Model(name="doubles", graphs={}, program=Doubles(), weights_fingerprint="none")


asked = []
"""The jobs that nodes were given."""


def noting(job):
    asked.append(job)
    return doubling(job)


def doubling(job):
    return Part(backend=DoublingBackend(), model=model(), plan=EnginePlan(), dataset=Numbers())


def loading(job):
    return Part(backend=DoublingBackend(), model=model(), plan=EnginePlan(), dataset=Loaded())


def in_instances(job):
    return Part(backend=DoublingBackend(), model=model(), plan=EnginePlan(instances=2), dataset=Loaded())


def with_other_data(job):
    return Part(backend=DoublingBackend(), model=model(), plan=EnginePlan(), dataset=OtherNumbers())


def lacking_data(job):
    raise DataError("no numbers in /nowhere.", hint="Make some.")


def facts(environment, name="node-1", **changes):
    fields = {
        "name": name,
        "mlbench_version": __version__,
        "workload": "numbers",
        "backend": "doubling",
        "profile": "mini",
        "weights": "trained",
        "precisions": ["fp32"],
        "versions": {"torch": "2.9"},
        "settings": {},
        "environment": environment,
    }
    return NodeRecord(**(fields | changes))


class ThreadedNode:
    """A node whose process is the test's."""

    def __init__(self, config, tls=None, **limits):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.left = threading.Event()
        self.session = Session(config, self.left.set)
        self._acceptor = Acceptor(self._listener, TOKEN, tls, self.session, StrangerLimits(**limits))
        self._acceptor.start()
        self._thread = threading.Thread(target=self.session.run, daemon=True)
        self._thread.start()

    def close(self):
        """Accept no more connections; those that there are stay."""
        self._acceptor.stop()
        self._acceptor._thread.join()
        self._listener.close()


@contextmanager
def nodes(*configs, tls=None, **limits):
    started = [ThreadedNode(config, tls, **limits) for config in configs]
    try:
        yield [node.address for node in started]
    finally:
        for node in started:
            node.close()


def config(environment, name="node-1", *, builder="doubling", most_open=64, guards=(), own=None, **changes):
    made = facts(environment, name, **changes)
    return NodeConfig(
        facts=made, builder=f"networked:{builder}", settings=own or {}, most_open=most_open, guards=guards
    )


def spec_of(addresses, token_file, **more):
    return NetworkSpec(nodes=tuple(addresses), token_file=str(token_file), **more)


def engine_for(addresses, token_file, settings=None, **more):
    job = JobSpec(
        workload="numbers",
        backend="doubling",
        scenario="Server",
        profile="mini",
        tier="smoke",
        weights="trained",
        precision="fp32",
        settings=settings or {},
        folder="/",
        network=spec_of(addresses, token_file, **more),
    )
    return NetworkEngine(job, model(), Numbers())


class Kept(Reply):
    """Remembers what came, and waits for it."""

    def __init__(self):
        self.answers, self.failures, self.invalidated = {}, {}, []
        self._came = queue.SimpleQueue()

    def complete(self, samples, outputs, token_counts=None):
        self.answers.update(zip(samples.ids, np.array(outputs)[:, 0].tolist(), strict=True))
        self._came.put(len(samples))

    def first_token(self, samples, tokens):
        raise AssertionError("there are no tokens here")

    def fail(self, samples, reason):
        self.failures.update(dict.fromkeys(samples.ids, reason))
        self._came.put(len(samples))

    def invalidate(self, reason):
        self.invalidated.append(reason)

    def wait(self, count):
        while count > 0:
            count -= self._came.get(timeout=30)


def numbered(*numbers):
    """Return samples with these numbers, under ids that are 1000 larger."""
    return Samples(tuple(1000 + number for number in numbers), numbers, Numbers())


def started_test(results, seconds=180):
    """Wait until LoadGen has opened the log of a performance test; return its folder."""
    deadline_s = time.monotonic() + seconds
    while time.monotonic() < deadline_s:
        found = [file for file in results.rglob("performance/mlperf_log_detail.txt") if file.stat().st_size]
        if found:
            return found[0].parent
        time.sleep(0.05)
    raise AssertionError("no test was started")
