"""A clock that only an engine moves."""

from types import SimpleNamespace

import pytest

from mlbench.measurement import asking, spot_times


class Clock:
    """Moves only where an engine says so."""

    now_ns = 1

    def perf_counter_ns(self):
        return self.now_ns


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(asking, "time", clock)
    monkeypatch.setattr(spot_times, "time", SimpleNamespace(sleep=lambda seconds: None))
    return clock
