import os

import psutil
import pytest

from mlbench.toolkit import cores_each


@pytest.mark.parametrize(("workers", "cores"), [(1, 6), (2, 3), (4, 1), (9, 1)])
def test_workers_share_the_physical_cores_and_each_has_one_at_least(monkeypatch, workers, cores):
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 12 if logical else 6)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)))
    assert cores_each(workers) == cores


def test_cores_that_the_process_may_not_use_do_not_count(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 6)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3})
    assert cores_each(1) == 2
