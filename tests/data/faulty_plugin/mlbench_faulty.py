"""Backends that go wrong in the middle of a run: they answer with zeros, and at dataset sample 7 something happens.

And a workload whose replies cannot be scored, and a power meter that always says the same.
"""

import os

import numpy as np
from mlbench_faulty_actions import (
    count_in_floats,
    crash,
    dwell,
    empty_samples,
    exit_in_submit,
    fail,
    fill_disk,
    fill_memory,
    forge,
    hang,
    haunt,
    hold_the_interpreter,
    lay_pipes,
    leave,
    lose,
    misspell,
    nan,
    pass_by,
    scribble,
    twice,
)
from mlbench_faulty_engines import (
    Ageing,
    Awakened,
    Lingering,
    OddZeros,
    Reluctant,
    Silence,
    Unending,
    Unflushed,
    Unready,
    Zeros,
)
from mlbench_faulty_workloads import Misplaced, Steady, Uncountable, Unscorable

from mlbench import (
    Backend,
    GraphError,
    Probe,
    RuntimeFacts,
    hookimpl,
)

FLOOD_BYTES = 8 * 2**20


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


class Sociable(Faulty):
    """Crashes where it has one processor only, as when its time is counted."""

    def engine(self, model, plan):
        if len(os.sched_getaffinity(0)) == 1:
            crash(None, None, None)
        return Zeros(pass_by)


class Mortal(Faulty):
    """Dies during a test if it is instance number 1."""

    number = None

    def instance(self, number, of):
        own = self.with_options(self.options)
        own.number = number
        return own

    def engine(self, model, plan):
        return Ageing(self._happen, is_mortal=self.number == 1)


class Refusing(Faulty):
    """Accepts a request, and has its engine refuse it later, with errors of ours."""

    def engine(self, model, plan):
        return Reluctant(self.name.removeprefix("refusing_"))


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


class NeverClosing(Faulty):
    """Answers everything, and never comes to its end."""

    def engine(self, model, plan):
        return Unending()


class NeverReady(Faulty):
    """Does not return from its warm-up."""

    def engine(self, model, plan):
        return Unready(self._happen)


class NeverLeaving(Faulty):
    """Answers everything, and keeps Python from ending."""

    def engine(self, model, plan):
        return Lingering()


class NeverFlushing(Faulty):
    """Answers everything, and does not return from `flush` once it was measured."""

    def engine(self, model, plan):
        return Unflushed()


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
    faulty += [NeverLeaving("never_leaving", None), NeverReady("never_ready", None)]
    refusing = [Refusing(f"refusing_{where}", None) for where in ("enter", "warm_up", "submit")]
    others = [Lacking("lacking", None), Sluggish("sluggish", None), Mortal("mortal", crash), Sociable("sociable", None)]
    return [
        *faulty,
        *refusing,
        *others,
        Flooding("flooding", None),
        Odd("odd", pass_by),
        Mute("mute", None),
    ]
