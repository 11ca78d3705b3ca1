"""Two runs' engines that take turns: the ratio of their processor times holds while the machine changes."""

import socket
import threading
import time
from contextlib import suppress
from functools import partial

import pytest

from mlbench.measurement import side_by_side
from mlbench.measurement.side_by_side import Listener, ProcessorTimeRequest, meet
from mlbench.records.job_spec import JobSpec

OTHER = "20261201T000000Z-other"
SPEC = JobSpec(
    workload="resnet50",
    backend="null",
    scenario="Offline",
    profile="mini",
    tier="smoke",
    weights="trained",
    precision="fp32",
    settings={},
    folder="/nowhere",
)


@pytest.fixture
def meeting(tmp_path):
    return str(tmp_path / "pair")


@pytest.fixture
def asked(meeting):
    return ProcessorTimeRequest(spec=SPEC, meeting=meeting, partner=OTHER)


@pytest.fixture
def partner(meeting):
    """Start a partner whose turns a function computes; return its thread and how often it computed."""

    def start(turn_ns):
        counts, is_there = [], threading.Event()

        def serve():
            with Listener(meeting) as listener, suppress(StopIteration):
                is_there.set()
                counts.append(listener.answer(turn_ns))

        thread = threading.Thread(target=serve)
        thread.start()
        is_there.wait()
        return thread, counts

    return start


def test_both_take_turns_a_b_b_a_and_slow_seconds_change_nothing(asked, partner):
    """The machine slows down from turn to turn; this run takes 5 % more than the other all the same."""
    order = []

    def turn_ns(name, work):
        order.append(name)
        return work * (1 + len(order) / 100)

    thread, counts = partner(partial(turn_ns, "other", 1000.0))
    with meet(asked) as found:
        assert order.pop() == "other", "it is met once it has computed"
        record = found.alternate(partial(turn_ns, "own", 1050.0))
    thread.join()
    assert order[:8] == ["own", "other", "other", "own", "own", "other", "other", "own"]
    assert (record.run_id, record.rounds, counts) == (OTHER, 40, [41])
    assert record.ratio == pytest.approx(1.05, rel=1e-9)


def test_slow_engines_have_fewer_turns(asked, partner, monkeypatch):
    monkeypatch.setattr(side_by_side, "_LONGEST_S", 0.0)
    thread, _ = partner(lambda: 1.0)
    with meet(asked) as found:
        assert found.alternate(lambda: 1.0).rounds == 4
    thread.join()


def test_a_partner_that_ends_meanwhile_leaves_no_ratio(asked, partner, caplog):
    caplog.set_level("INFO")
    left = iter([1.0, 2.0, 3.0])
    thread, _ = partner(lambda: next(left))
    with meet(asked) as found:
        assert found.alternate(lambda: 1.0) is None
    thread.join()
    assert f"{OTHER} has ended while it computed beside this run" in caplog.text


def test_a_partner_that_hangs_up_before_its_first_turn_is_none(asked, meeting, caplog):
    caplog.set_level("INFO")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(meeting)
        listener.listen(1)

        def leave():
            connection, _ = listener.accept()
            connection.close()

        hang_up = threading.Thread(target=leave)
        hang_up.start()
        with meet(asked) as found:
            assert found is None
        hang_up.join()
    assert f"{OTHER} does not compute beside this run" in caplog.text


def test_a_partner_that_never_comes_is_waited_for_only_so_long(asked, monkeypatch):
    monkeypatch.setattr(side_by_side, "_PATIENCE_S", 0.2)
    began_s = time.monotonic()
    with meet(asked) as found:
        assert found is None
    assert time.monotonic() - began_s >= 0.2


def test_a_run_without_a_partner_meets_none():
    with meet(ProcessorTimeRequest(spec=SPEC)) as found:
        assert found is None
