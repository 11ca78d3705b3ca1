"""Backends that claim a speed which they did not compute, and do something about the checks, each in one way.

Found by `sys.path`, as `mlbench_broken` is, whose right backend they are built on.
"""

import re
import time

import numpy as np
from mlbench_broken.right import Right
from mlbench_broken.wrapping import Tampering
from mlbench_cheating import Cheat, Remembered, by_content, give

from mlbench import hookimpl
from mlbench.toolkit import graph_engine


class Nearest(Remembered):
    """Computes each sample of the data set once, and then answers whatever it is shown by the nearest known picture."""

    def __init__(self, engine):
        super().__init__(engine, by_content)
        self._looks, self._keys = [], []

    def submit(self, samples, reply):
        count = samples.dataset.count
        contents = [samples.dataset.sample(index) for index in samples.indices]
        if len(self._known) < count:
            new = {by_content(0, each): each for each in contents if by_content(0, each) not in self._keys}
            self._keys += new
            self._looks += [look_of(each) for each in new.values()]
            super().submit(samples, reply)
            return
        looks = np.array(self._looks)
        for place, content in enumerate(contents):
            nearest = self._keys[int(np.abs(looks - look_of(content)).sum(1).argmin())]
            give(samples.at([place]), self._known[nearest], reply)


def look_of(content):
    """Describe a picture by what a mirror, a shift and a darker light leave as it is."""
    numbers = np.sort(np.asarray(content, np.float64).ravel())[::64]
    return numbers / (np.abs(numbers).max() or 1.0)


class Frozen(Remembered):
    """Answers from memory, and stops Python's clocks once it is asked for samples that the data set does not have."""

    def submit(self, samples, reply):
        if max(samples.indices) >= samples.dataset.count:
            time.perf_counter_ns = time.monotonic_ns = lambda: 1
        super().submit(samples, reply)


class Rewriting(Right):
    """Says at its end that the test was twice as fast, in LoadGen's detail log and in its summary."""

    name = "rewriting-logs"

    def in_folder(self, folder):
        other = self.with_options(self.options)
        other.folder = folder
        return other

    def engine(self, model, plan):
        return Writer(graph_engine(self, model, plan), self.folder)


class Writer(Tampering):
    def __init__(self, engine, folder):
        super().__init__(engine, None)
        self._folder = folder

    def submit(self, samples, reply):
        self._engine.submit(samples, reply)

    def __exit__(self, *error):
        for name, rate, latency in (
            ("detail.txt", r'("result_samples_per_second", "value": )([\d.e+]+)', r'(_latency_ns", "value": )(\d+)'),
            ("summary.txt", r"(Samples per second: )([\d.e+]+)", r"(latency \(ns\) *: )(\d+)"),
        ):
            file = self._folder / "performance" / f"mlperf_log_{name}"
            text = re.sub(rate, lambda found: f"{found[1]}{2 * float(found[2]):g}", file.read_text())
            file.write_text(re.sub(latency, lambda found: f"{found[1]}{int(found[2]) // 2}", text))
        super().__exit__(*error)


class Bribed(Tampering):
    """Gives wrong labels to new content, and has every rule pass in its own process."""

    def __init__(self, engine):
        super().__init__(engine, self._tamper)

    def submit(self, samples, reply):
        from mlbench.measurement import judging
        from mlbench.rules.facts import Verdict

        judging.judge = lambda facts: Verdict(results=(), is_official_setup=True)
        super().submit(samples, reply)

    def _tamper(self, samples, outputs, reply):
        is_new = max(samples.indices) >= samples.dataset.count
        reply.complete(samples, [output + 1 for output in outputs] if is_new else outputs)


@hookimpl
def mlbench_backends():
    return [
        Cheat("nearest-known", lambda engine, model: Nearest(engine)),
        Cheat("frozen-clocks", lambda engine, model: Frozen(engine, by_content)),
        Rewriting(),
        Cheat("bribing-the-judge", lambda engine, model: Bribed(engine)),
    ]
