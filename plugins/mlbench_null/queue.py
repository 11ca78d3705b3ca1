"""A queue that answers one sample after another: a service of known capacity, to test measurements."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator

from mlbench import Reply, Samples
from mlbench_null.engine import Give, Script

_SLOWEST = 0.1
"""Lower bound of the speed, as a share of the usual one."""


class Queue:
    """Starts a script for each sample after the previous ones and a random time of its own."""

    def __init__(self, script: Script, *, mean_ns: float, spread: float, wobble: float) -> None:
        """Choose the speed of this run.

        Args:
            script: the steps after that.
            mean_ns: mean time of a sample at the usual speed.
            spread: standard deviation of its logarithm.
            wobble: standard deviation of the speed from run to run, as a share.
        """
        self._script = script
        self._chance = random.Random()
        self._spread = spread
        speed = max(_SLOWEST, 1 + wobble * self._chance.gauss())
        self._mu = math.log(mean_ns / speed) - spread**2 / 2
        self._free_ns = 0

    def acts(self, samples: Samples) -> Iterator[tuple[int, Samples, Give]]:
        """Take sample after sample."""
        now_ns = time.monotonic_ns()
        for place in range(len(samples)):
            service_ns = round(self._chance.lognormvariate(self._mu, self._spread))
            self._free_ns = max(self._free_ns, now_ns) + service_ns
            part = samples if len(samples) == 1 else samples.at([place])
            for after_ns, those, give in self._script.acts(part):
                yield self._free_ns - now_ns + after_ns, those, give

    def give(self, samples: Samples, reply: Reply) -> None:
        """Answer all samples at once."""
        self._script.give(samples, reply)
