"""Backends that go wrong in the middle of a run: they answer with zeros, and at dataset sample 7 something happens.

And a workload whose replies cannot be scored, and a power meter that always says the same.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from mlbench import (
    Backend,
    BatchProgram,
    DataError,
    Dataset,
    Energy,
    Engine,
    EngineStatistics,
    GraphError,
    InvalidRunError,
    Metric,
    Model,
    PowerMeter,
    Probe,
    ReplySpec,
    RuntimeFacts,
    Target,
    UnavailableError,
    UsageError,
    Workload,
    hookimpl,
)

WHERE = 7
FLOOD_BYTES = 8 * 2**20
LIFE = 5000  # samples: more than the trial before a test asks for


class Faulty(Backend):
    def __init__(self, name, happen):
        self.name = name
        self._happen = happen

    def probe(self):
        return Probe(is_available=True, rank=-1000)

    def engine(self, model, plan):
        return Zeros(self._happen)


class Lacking(Faulty):
    def engine(self, model, plan):
        raise GraphError(f"graph {next(iter(model.graphs))}: operator Det.", hint="Use fp32.")


class Sluggish(Faulty):
    def engine(self, model, plan):
        return Awakened()


class Mortal(Faulty):
    """Dies during a test if it is instance number 1."""

    number = None

    def instance(self, number, of):
        own = self.with_options(self.options)
        own.number = number
        return own

    def engine(self, model, plan):
        return Ageing(self._happen, is_mortal=self.number == 1)


class Ageing(Engine):
    def __init__(self, happen, is_mortal):
        self._happen = happen
        self._left = LIFE if is_mortal else None

    def submit(self, samples, reply):
        if self._left is not None:
            self._left -= len(samples)
            if self._left < 0:
                self._happen(samples, None, reply)
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))


class Refusing(Faulty):
    """Accepts a request, and has its engine refuse it later, with errors of ours."""

    def engine(self, model, plan):
        return Reluctant(self.name.removeprefix("refusing_"))


class Reluctant(Engine):
    def __init__(self, where):
        self._where = where

    def _reach(self, place, error):
        if place == self._where:
            raise error

    def __enter__(self):
        self._reach("enter", DataError("shard 3 of 5 is gone.", hint="Fetch it."))
        return self

    def warm_up(self, samples):
        self._reach("warm_up", UsageError("8 GB are not enough."))

    def submit(self, samples, reply):
        self._reach("submit", UnavailableError("the licence has expired."))


class Flooding(Faulty):
    """Writes more than a log may hold, to both streams, before it is asked for anything."""

    def engine(self, model, plan):
        for _ in range(FLOOD_BYTES // 2**20):
            os.write(1, b"nothing to say " * (2**20 // 30) + b"\n")
            os.write(2, b"nothing to say " * (2**20 // 30) + b"\n")
        os.write(2, b"the last word\n")
        return Zeros(pass_by)


class Odd(Faulty):
    """Says of itself what no record can hold."""

    def engine(self, model, plan):
        return OddZeros(self._happen)

    def observe(self):
        return RuntimeFacts(device="cpu", extra={"handle": object(), "threads": np.int64(4)})


class Mute(Faulty):
    def engine(self, model, plan):
        return Silence()


class Silence(Engine):
    """Never answers, not even while warming up."""

    def submit(self, samples, reply):
        pass


class Zeros(Engine):
    def __init__(self, happen):
        self._happen = happen
        self._is_warm = False

    def submit(self, samples, reply):
        zeros = np.zeros((len(samples), 1), np.float32)
        # the trial before the run has no indices beyond those it was warmed up with; LoadGen's ids are large addresses
        if WHERE in samples.indices and min(samples.ids) > 10_000:
            self._happen(samples, zeros, reply)
        else:
            reply.complete(samples, zeros)


class Unending(Engine):
    def submit(self, samples, reply):
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))

    def __exit__(self, *error):
        time.sleep(3600)


class Lingering(Engine):
    """Leaves a thread behind that Python waits for at its end."""

    def __enter__(self):
        threading.Thread(target=time.sleep, args=(3600,)).start()
        return self

    def submit(self, samples, reply):
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))


class Unflushed(Engine):
    is_measured = False

    def submit(self, samples, reply):
        self.is_measured = min(samples.ids) > 10_000
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))

    def flush(self):
        if self.is_measured:
            time.sleep(3600)


class OddZeros(Zeros):
    def statistics(self):
        return EngineStatistics(extra={"rate": float("nan"), "sizes": {8: np.int64(3)}, "when": time.gmtime})

    def calls(self):
        raise RuntimeError("not counted")


class Awakened(Engine):
    """Slow in the trial before the run, quick when LoadGen asks."""

    def submit(self, samples, reply):
        is_trial = min(samples.ids) < 10_000
        time.sleep(0.02 if is_trial else len(samples) * 2e-4)
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))


def crash(samples, zeros, reply):
    print("no more registers", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(samples, zeros, reply):
    os._exit(3)


def hang(samples, zeros, reply):
    time.sleep(3600)


def lose(samples, zeros, reply):
    pass


def fail(samples, zeros, reply):
    raise RuntimeError("unsupported operator")


def nan(samples, zeros, reply):
    reply.complete(samples, zeros * np.float32("nan"))


def twice(samples, zeros, reply):
    reply.complete(samples, zeros)
    reply.complete(samples, zeros)


def count_in_floats(samples, zeros, reply):
    reply.complete(samples, zeros, [1.0] * len(samples))


def empty_samples(samples, zeros, reply):
    samples.ids.clear()


def dwell(samples, zeros, reply):
    reply.complete(samples, zeros)
    time.sleep(3600)


def exit_in_submit(samples, zeros, reply):
    sys.exit(0)


def hold_the_interpreter(samples, zeros, reply):
    re.match(r"(a+)+$", "a" * 64 + "b")  # one call, which tries more ways than there are seconds


class NeverClosing(Faulty):
    """Answers everything, and never comes to its end."""

    def engine(self, model, plan):
        return Unending()


class NeverLeaving(Faulty):
    """Answers everything, and keeps Python from ending."""

    def engine(self, model, plan):
        return Lingering()


class NeverFlushing(Faulty):
    """Answers everything, and does not return from `flush` once it was measured."""

    def engine(self, model, plan):
        return Unflushed()


def pass_by(samples, zeros, reply):
    reply.complete(samples, zeros)


def forge(samples, zeros, reply):
    """Write to the pipe what looks like an outcome, and what looks like nothing."""
    forged = {"outcome": {"result": {"value": 1e9}}}
    lines = [json.dumps(forged), json.dumps({"kind": "outcome", "value": forged["outcome"]}), "[]", "7"]
    os.write(int(sys.argv[2]), "\n".join(lines).encode() + b"\n\xff\xfe no line")
    reply.complete(samples, zeros)


def misspell(samples, zeros, reply):
    raise RuntimeError(b"no file na\xefve.bin".decode("utf-8", "surrogateescape"))


def haunt(samples, zeros, reply):
    """Start what vLLM, Ray and MPI start: a process in a session of its own."""
    ghost = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    Path(os.environ["MLBENCH_RESULTS"]).with_name(f"ghost-{ghost.pid}").touch()
    reply.complete(samples, zeros)


def fill_disk(samples, zeros, reply):
    """Let the record land where no byte has room."""
    for folder in Path(os.environ["MLBENCH_RESULTS"]).glob(".*.partial"):
        if not (folder / "record.json").is_symlink():
            (folder / "record.json").symlink_to("/dev/full")
    reply.complete(samples, zeros)


def scribble(samples, zeros, reply):
    """Write into LoadGen's log more than LoadGen itself writes from then on."""
    for log in Path(os.environ["MLBENCH_RESULTS"]).glob(".*.partial/performance/mlperf_log_detail.txt"):
        with log.open("ab") as file:
            file.write(b":::MLLOG no record\n" * 50_000)
    reply.complete(samples, zeros)


def lay_pipes(samples, zeros, reply):
    """Put named pipes, which nobody reads, where files of the run are or will be; then write a forged line."""
    for folder in Path(os.environ["MLBENCH_RESULTS"]).glob(".*.partial"):
        for name in ("record.json", "log.txt", ".claim"):
            (folder / name).unlink(missing_ok=True)
            os.mkfifo(folder / name)
    forge(samples, zeros, reply)


def fill_memory(samples, zeros, reply):
    held = []
    while True:
        held.append(np.ones(2**21))
        time.sleep(0.01)


class Unscorable(Workload):
    """A workload whose metric finds every reply wrong in a way that only a metric can see."""

    name = "unscorable"
    title = "replies that cannot be scored"
    rules = "resnet50"

    def dataset(self, variant):
        return Numbers()

    def model(self, variant):
        return Model(name=self.name, graphs={}, program=Label(), weights_fingerprint="none")

    def metric(self, variant, dataset):
        return Strict()


class Misplaced(Unscorable):
    """A workload whose metric misses a file when all has been measured."""

    name = "misplaced"
    title = "annotations that go missing"

    def metric(self, variant, dataset):
        return Searching()


class Uncountable(Unscorable):
    """A workload whose dataset cannot say how many samples it has."""

    name = "uncountable"
    title = "a dataset without a length"

    def dataset(self, variant):
        return Endless()


class Numbers(Dataset):
    count = performance_count = 8
    fingerprint = "numbers"

    def load(self, indices):
        pass

    def unload(self, indices):
        pass

    def sample(self, index):
        return index


class Endless(Numbers):
    def __len__(self):
        raise OverflowError("there is no end to it")

    @property
    def count(self):
        return len(self)


class Label(BatchProgram):
    reply = ReplySpec(dtype="float32", shape=(1,))

    def run(self, samples, graphs):
        return np.zeros((len(samples), 1), np.float32)


class Strict(Metric):
    targets = (Target(score="top1", reference=100.0, lower=99.0, name="99"),)

    def score(self, replies):
        wrong = next(reply for reply in replies if reply.index == WHERE)
        raise InvalidRunError(f"the reply to sample {wrong.index} is 0, not a label.")

    def line(self, scores):
        return ""


class Searching(Strict):
    def score(self, replies):
        raise DataError("the annotations are gone.", hint="Fetch them.")


class Steady(PowerMeter):
    """A meter of a part that draws a hundred watts, whatever happens."""

    name = "steady"

    def probe(self):
        return ""

    def __enter__(self):
        self._began_s = time.monotonic()
        return self

    def __exit__(self, kind, error, trace):
        self._seconds = time.monotonic() - self._began_s

    def energy(self):
        return Energy(joules=100 * self._seconds, seconds=self._seconds, source="steady", covers="a heater")


@hookimpl
def mlbench_power_meters():
    return [Steady()]


@hookimpl
def mlbench_workloads():
    return [Unscorable(), Misplaced(), Uncountable()]


@hookimpl
def mlbench_backends():
    endings = crash, leave, hang, dwell, exit_in_submit, hold_the_interpreter, fill_memory
    lies = forge, misspell, haunt, fill_disk, scribble, lay_pipes
    replies = lose, fail, nan, twice, count_in_floats, empty_samples
    faulty = [Faulty(f.__name__, f) for f in endings + replies + lies]
    faulty += [NeverClosing("never_closing", None), NeverFlushing("never_flushing", None)]
    faulty.append(NeverLeaving("never_leaving", None))
    refusing = [Refusing(f"refusing_{where}", None) for where in ("enter", "warm_up", "submit")]
    others = [Lacking("lacking", None), Sluggish("sluggish", None), Mortal("mortal", crash)]
    return [*faulty, *refusing, *others, Flooding("flooding", None), Odd("odd", pass_by), Mute("mute", None)]
