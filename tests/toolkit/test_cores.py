import os

import pytest

from mlbench.toolkit import cores_each

pytestmark = pytest.mark.usefixtures("no_quota")


@pytest.mark.parametrize(("workers", "cores"), [(1, 6), (2, 3), (4, 1), (9, 1)])
def test_workers_share_the_physical_cores_and_each_has_one_at_least(monkeypatch, tmp_path, workers, cores):
    for processor in range(12):
        topology = tmp_path / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{processor % 6},{processor % 6 + 6}\n")
    monkeypatch.setattr("mlbench.execution.cores.SYSTEM", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)))
    assert cores_each(workers) == cores


def test_cores_that_the_process_may_not_use_do_not_count(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1000, 1003})
    assert cores_each(1) == 2
