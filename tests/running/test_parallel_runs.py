"""Runs side by side: how lanes share them out, what is refused, and what a record says of them."""

import os
import threading
from dataclasses import replace

import pytest
from invoking import invoke

from mlbench import UsageError
from mlbench.contracts.backend import EnginePlan
from mlbench.execution.cores import physical_cores
from mlbench.execution.lanes import make_lanes
from mlbench.planning.lane_demand import check_one_lane, lanes_for
from mlbench.planning.suite import SharedRuns
from mlbench.records.store.run_folder import TakenError
from mlbench.running.lane_log import LaneLog, LanePlace, LaneStay
from mlbench.running.parallel_runs import run_on_lanes
from mlbench.wire.progress import ProgressMessage

pytestmark = pytest.mark.skipif(len(physical_cores()) < 2, reason="two lanes need two cores")
WITHIN_S = 60


@pytest.fixture
def lanes():
    return make_lanes(2, with_devices=False)


def test_two_runs_go_on_at_a_time_each_on_its_cores_and_records_are_in_order(request_of, lanes, a_run):
    requests = [replace(request_of(wants_accuracy=False), repeat=number) for number in range(1, 5)]
    both = threading.Barrier(2, timeout=WITHIN_S)
    where = {}

    def run(request, number, place):
        both.wait()  # it would break if they were made one after another
        where[number] = (place.lane.number, os.sched_getaffinity(0))
        return a_run(repeat=request.repeat)

    before = os.sched_getaffinity(0)
    assert [each.repeat for each in run_on_lanes(requests, lanes, run)] == [1, 2, 3, 4]
    assert {lane for lane, _ in where.values()} == {1, 2}
    assert all(cores == set(lanes[lane - 1].processors) for lane, cores in where.values())
    assert os.sched_getaffinity(0) == before


def test_an_error_of_a_request_ends_the_command_after_the_runs_that_went_on(request_of, lanes, a_run):
    requests = [replace(request_of(wants_accuracy=False), repeat=number) for number in range(1, 6)]
    has_failed, made = threading.Event(), []

    def run(request, number, place):
        if number == 1:
            has_failed.set()
            raise UsageError("data.bin is corrupt.")
        assert has_failed.wait(WITHIN_S)
        made.append(number)
        return a_run()

    with pytest.raises(UsageError, match=r"data\.bin is corrupt"):
        run_on_lanes(requests, lanes, run)
    assert made in ([], [2])


def test_a_run_that_another_process_makes_is_waited_for_and_others_are_made_meanwhile(
    request_of, lanes, a_run, tmp_path, monkeypatch
):
    monkeypatch.setattr("mlbench.running.parallel_runs.WAIT_S", 0.05)
    requests = [replace(request_of(wants_accuracy=False), repeat=number) for number in range(1, 4)]
    made, told = [], []

    def run(request, number, place):
        if number == 1 and len(made) < 2:
            raise TakenError
        made.append(number)
        return a_run(repeat=request.repeat)

    records = run_on_lanes(requests, lanes, run, SharedRuns(tmp_path), told.append)
    assert ([each.repeat for each in records], sorted(made)) == ([1, 2, 3], [1, 2, 3])


def test_a_run_whose_engine_is_being_tested_waits_as_long_as_there_are_others(request_of, lanes, a_run):
    requests = [request_of(scenario=name) for name in ("Offline", "SingleStream", "MultiStream")]
    requests += [request_of(workload="bert", scenario="Offline")]
    order, both, has_tested = [], threading.Barrier(2, timeout=WITHIN_S), threading.Event()

    def run(request, number, place):
        order.append(number)
        if number in (1, 4):
            both.wait()
        else:
            has_tested.set()
            assert request.accuracy_of
        if number == 4:
            assert has_tested.wait(WITHIN_S)
        return a_run(workload=request.workload)

    run_on_lanes(requests, lanes, run)
    assert sorted(order[:2]) == [1, 4]


def test_what_ran_beside_a_run_is_what_overlaps_its_test(request_of, lanes):
    log, request = LaneLog(), request_of()
    first, second = (LanePlace(lane, log) for lane in lanes)
    with LaneStay(first, "before-0001", request):
        pass
    with LaneStay(second, "measured-0002", request) as measured:
        with LaneStay(first, "warming-0003", request):
            measured.note(ProgressMessage(stage="warm-up"))
        measured.note(ProgressMessage(stage="performance"))
        with LaneStay(first, "beside-0004", request):
            measured.note(ProgressMessage(stage="performance"))
        measured.note(ProgressMessage(stage="score"))
        with LaneStay(first, "after-0005", request) as after:
            record = measured.record()
            assert [each.run_id for each in record.runs] == ["beside-0004"]
            assert [each.run_id for each in after.record().runs] == ["measured-0002"], "it came to no test"
    assert (record.lane, record.lanes, record.processors) == (2, 2, list(lanes[1].processors))
    assert "memory of NUMA node" in record.shared[0]


@pytest.mark.parametrize(
    ("plan", "power", "told"),
    [
        (EnginePlan(devices="0,1"), "auto", "--parallel is given together with execution.devices=0,1."),
        (EnginePlan(nodes=2), "none", "--parallel is given with runs on other machines."),
        (EnginePlan(), "rapl", "power meter rapl would count all runs side by side."),
    ],
)
def test_what_no_lane_can_have_is_refused(request_of, plan, power, told):
    with pytest.raises(UsageError) as refused:
        check_one_lane(replace(request_of(), power=power), plan)
    assert str(refused.value).startswith(told)


def test_what_a_lane_can_have_is_not_refused(request_of):
    check_one_lane(request_of(), EnginePlan(instances=2))


def test_more_instances_than_a_lane_has_cores_are_refused(request_of, plugins):
    count = len(physical_cores())
    with pytest.raises(UsageError, match=rf"execution.instances is {count} with resnet50, and a lane has"):
        lanes_for([request_of(overrides={"execution.instances": count})], plugins, 2)


def test_a_server_that_runs_would_share_is_refused(request_of, plugins):
    asking = request_of(workload="bert", backend="endpoint")
    with pytest.raises(UsageError, match=r"endpoint asks a server, which runs side by side would share"):
        lanes_for([asking], plugins, 2)


def test_one_at_a_time_needs_no_lane(request_of, plugins):
    assert lanes_for([request_of(backend="null")], plugins, 1) == ()


@pytest.mark.parametrize("count", ["0", "1025", "two"])
def test_a_number_of_lanes_is_one(count):
    done = invoke("run", "resnet50", "--parallel", count)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)


def test_more_lanes_than_cores_are_told_in_a_line():
    done = invoke("run", "resnet50", "--backend", "null", "--parallel", "1000")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "--parallel is 1000, and this process may use" in done.stderr
