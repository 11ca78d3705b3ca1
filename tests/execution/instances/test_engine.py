"""Real processes around engines that double."""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
from counted_reply import CountedReply

from mlbench import (
    DataError,
    EnginePlan,
    EngineStatistics,
    GraphError,
    ReplySpec,
    RuntimeFacts,
    Samples,
    UsageError,
)
from mlbench.contracts.scenario import LoadSettings
from mlbench.execution.cores import Core
from mlbench.execution.instances import engine as module
from mlbench.execution.instances.engine import Building, ReplicatedEngine
from mlbench.execution.processes.failures import FailureKind, ProcessEndedError
from mlbench.loadgen.drive import drive
from mlbench.loadgen.scenarios import OFFLINE
from mlbench.loadgen.settings import Mode, Seeds, Test
from mlbench.loadgen.watchdog import ProgressCallbacks

HERE = Path(__file__).parent
DEADLY, TIRING, WRONG, TWICE, UNREADABLE = 913, 914, 915, 916, 1917


@pytest.fixture(scope="module", autouse=True)
def importable(tmp_path_factory):
    """Let instances and this file import the parts, by their bare name."""
    tired_rows = tmp_path_factory.mktemp("tired") / "rows"
    tired_rows.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        patch.setenv("PYTHONPATH", f"{HERE}:{HERE.parent}")
        patch.setenv("TIRED_ROWS", str(tired_rows))
        yield


@pytest.fixture(scope="module", autouse=True)
def cores_enough(importable):
    """Deal out as many cores as are asked for, whatever this machine has."""
    allowed = sorted(os.sched_getaffinity(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            module,
            "cores_for",
            lambda count: [Core(0, (allowed[place % len(allowed)],)) for place in range(count)],
        )
        yield


def replicated(builder, count, **plan):
    import replicated_parts

    building = Building(builder=f"replicated_parts:{builder}", payload=plan)
    return ReplicatedEngine(building, count, replicated_parts.model(), EnginePlan(**plan), replicated_parts.Numbers())


@contextmanager
def warm(builder, count, **plan):
    with replicated(builder, count, **plan) as engine:
        engine.library.load(range(1000))
        engine.warm_up(Samples(range(12), range(12), engine.library))
        engine.statistics()
        yield engine


class Kept(CountedReply):
    """Remembers what came, in which order, and waits for all of it."""

    def __init__(self, count):
        super().__init__(count)
        self.events, self.invalidated = [], []

    def complete(self, samples, outputs, token_counts=None):
        self._hear([("answer", id_) for id_ in samples.ids])
        self.note(self.answers, samples, zip(outputs, token_counts or [None] * len(samples), strict=True))

    def first_token(self, samples, tokens):
        self._hear([("first", id_, token) for id_, token in zip(samples.ids, tokens.tolist(), strict=True)])

    def invalidate(self, reason):
        self.invalidated.append(reason)

    def _hear(self, events):
        with self.changed:
            self.events += events
            self.changed.notify_all()

    def wait_for_events(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.events) >= count, 30)


def asked(engine, *numbers, first_id=5000):
    reply = Kept(len(numbers))
    engine.submit(Samples(range(first_id, first_id + len(numbers)), numbers, engine.library), reply)
    engine.flush()
    reply.wait()
    return reply


@pytest.fixture(scope="module")
def three():
    with warm("doubling", 3, batching="bucketed", batch=4) as engine:
        yield engine


@pytest.fixture(scope="module")
def two_speaking():
    with warm("speaking", 2) as engine:
        yield engine


def test_every_sample_gets_its_own_answer_once_and_all_instances_take_part(three):
    numbers = [100 + number % 150 for number in range(300)]
    three.statistics()
    reply = asked(three, *numbers)
    assert [int(reply.answers[5000 + place][0][0]) for place in range(300)] == [2 * number for number in numbers]
    assert len(reply.events) == 300
    counted = three.statistics()
    assert counted.samples == 300
    shares = [each.counted.samples for each in counted.by_instance]
    assert sum(shares) == 300
    assert all(shares)
    assert (counted.batch, counted.instances) == (4, 3)


def test_ids_that_come_again_in_another_test_are_distinguished(three):
    first, second = Kept(40), Kept(40)
    three.submit(Samples(range(40), range(100, 140), three.library), first)
    three.submit(Samples(range(40), range(200, 240), three.library), second)
    for reply, start in ((first, 100), (second, 200)):
        reply.wait()
        assert [int(reply.answers[place][0][0]) for place in range(40)] == [2 * (start + place) for place in range(40)]


def test_a_batch_that_raises_fails_its_samples_and_no_others(three):
    reply = asked(three, 100, 101, 102, 103, WRONG)
    assert reply.failures == dict.fromkeys([5001, 5002, 5003, 5004], "ValueError: fifteen"), "the longest four"
    assert list(reply.answers) == [5000]


def test_a_sample_that_cannot_be_loaded_is_reported_once_and_the_instances_go_on(three):
    with pytest.raises(DataError, match=r"^number 1917 is corrupt\.$"):
        three.library.load([UNREADABLE])
    assert len(asked(three, *range(100, 130)).answers) == 30
    assert [each.counted.samples > 0 for each in three.statistics().by_instance] == [True] * 3


@pytest.mark.thorough("engines")
def test_a_flush_reaches_samples_that_wait_for_others_in_the_instances():
    with warm("doubling", 2, batching="dynamic", batch=8, max_wait_us=600_000_000) as engine:
        assert len(asked(engine, *range(100, 105)).answers) == 5
        assert len(asked(engine, *range(100, 200)).answers) == 100, "the last go out after the flush"


def test_what_an_instance_is_doing_slowly_the_others_do_meanwhile(three):
    three.statistics()
    asked(three, *[TIRING] * 40)
    slow, *fast = [each.counted.samples for each in three.statistics().by_instance]
    assert slow <= 8, "two batches at most"
    assert slow + sum(fast) == 40


def test_each_instance_tells_what_it_observes(three):
    assert three.runtime() == RuntimeFacts(
        device="cpu", extra={"by_instance": [{"number": 0}, {"number": 1}, {"number": 2}]}
    )


def test_calls_and_memory_are_added_up(three):
    three.calls()
    asked(three, *range(100, 112))
    assert sum(call.count * call.shapes["x"][0] for call in three.calls()) == 12
    assert three.peak_memory_bytes() > 3 * 2**20


def test_steps_of_a_batch_are_heard(three):
    heard = []
    three._program.listener = lambda done, of: heard.append((done, of))
    asked(three, 100)
    assert heard == [(1, 1)]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_each_instance_keeps_to_processors_of_its_own(two_speaking):
    kept = [set(psutil.Process(instance.pid).cpu_affinity()) for instance in two_speaking.instances]
    assert not kept[0] & kept[1]
    assert [sorted(each) for each in kept] == [each.processors for each in two_speaking.statistics().by_instance]


def test_an_engine_that_counts_nothing_is_not_taken_for_one_that_ended(two_speaking):
    counted = two_speaking.statistics()
    assert [(each.counted, each.ended) for each in counted.by_instance] == [(EngineStatistics(), "")] * 2
    assert two_speaking.calls() == []


def test_first_tokens_come_before_answers_whose_sizes_differ(two_speaking):
    reply = asked(two_speaking, 3, 1, 7)
    for place, number in enumerate((3, 1, 7)):
        id_ = 5000 + place
        assert reply.events.index(("first", id_, [number])) < reply.events.index(("answer", id_))
        output, count = reply.answers[id_]
        np.testing.assert_array_equal(output, np.arange(number, dtype=np.int32))
        assert (output.dtype, count) == (np.int32, number)


def test_a_submit_that_raises_fails_the_samples_without_an_answer(two_speaking):
    reply = Kept(1)
    two_speaking.submit(Samples([1], [WRONG], two_speaking.library), reply)
    reply.wait()
    assert reply.failures == {1: "ValueError: fifteen"}


def test_what_an_engine_answers_twice_is_named_as_that(two_speaking):
    reply = Kept(1)
    two_speaking.submit(Samples([1], [TWICE], two_speaking.library), reply)
    reply.wait_for_events(3)
    assert [event[:2] for event in reply.events] == [("first", 1), ("answer", 1), ("answer", -1)]


def test_loadgen_finds_no_fault(three, tmp_path):
    test = Test(
        scenario=OFFLINE,
        mode=Mode.PERFORMANCE,
        load=LoadSettings(min_duration_ms=1, min_query_count=64, performance_sample_count=64, target_qps=64),
        reply=ReplySpec(dtype="int64", shape=(1,)),
        seeds=Seeds(qsl=1, sample_index=2, schedule=3, accuracy_log=4),
    )
    traffic = drive(test, three, three.library, tmp_path / "logs", ProgressCallbacks())
    three.library.load(range(1000))  # LoadGen has let its samples go
    assert (traffic.answered, traffic.faults) == (traffic.issued, [])


@pytest.mark.thorough("engines")
def test_sequences_in_flight_in_two_processes_say_what_plain_loops_say():
    import replicated_parts

    world = replicated_parts.token_world()
    building = Building(builder="replicated_parts:generating", payload={"batching": "in_flight", "batch": 2})
    with ReplicatedEngine(building, 2, world.model, EnginePlan(), world.dataset) as engine:
        engine.library.load(range(12))
        engine.warm_up(world.samples())
        reply = world.answered(engine, world.samples(*range(12), *range(12)))
        assert all(each.counted.samples for each in engine.statistics().by_instance)
    assert reply.answers == world.compute_outputs(world.samples(*range(12), *range(12)))
    assert {id_: [answer[0]] for id_, answer in reply.answers.items()} == reply.firsts
    assert {id_: len(answer) for id_, answer in reply.answers.items()} == reply.counts


@pytest.mark.thorough("engines")
def test_prompts_are_not_sorted_across_passes_over_the_dataset():
    import replicated_parts

    world = replicated_parts.token_world()
    building = Building(builder="replicated_parts:generating", payload={"batching": "in_flight", "batch": 1})
    with ReplicatedEngine(building, 1, world.model, EnginePlan(), world.dataset) as engine:
        engine.library.load(range(12))
        engine.warm_up(world.samples())
        assert engine.capacity().in_flight == 2
        indices = [4, 1, 7, 2, 2, 7, 4, 1, 1]
        reply = world.answered(engine, world.samples(*indices, first=0))
    lengths = [len(world.prompts[index].tokens) for index in indices]
    assert len({lengths[place] for place in range(4)}) == 4
    expected = [
        place for part in (range(4), range(4, 8), range(8, 9)) for place in sorted(part, key=lambda p: -lengths[p])
    ]
    assert list(reply.answers) == expected


@pytest.mark.thorough("engines")
def test_the_graphs_of_all_instances_are_replayed():
    with warm("doubling", 2, batching="dynamic", batch=1) as engine:
        assert engine.replay_graphs() == ""
        assert asked(engine, *range(100, 120)).failures == {}
        counts = engine.statistics()
        assert [each.counted.computed_calls for each in counts.by_instance] == [1, 1]
        assert (counts.computed_calls, counts.samples) == (2, 20)


def test_engines_of_instances_say_why_they_have_no_graphs(two_speaking):
    assert two_speaking.replay_graphs() == "the engine has no graphs whose calls could be skipped"


def test_an_instance_that_is_killed_is_named_its_samples_fail_and_the_others_go_on():
    with warm("doubling", 3, batching="dynamic", batch=2) as engine:
        numbers = [*range(100, 150), DEADLY, *range(150, 200)]
        reply = asked(engine, *numbers)
        (reason,) = set(reply.failures.values())
        assert reason in {f"instance {number} of 3 was ended by SIGKILL" for number in range(3)}
        assert 5050 in reply.failures
        assert len(reply.failures) <= 4, "two batches of two"
        assert len(reply.answers) + len(reply.failures) == len(numbers)
        assert len(asked(engine, *range(100, 120)).answers) == 20
        (dead,) = (each for each in engine.statistics().by_instance if each.ended)
        assert dead.ended == reason
        assert engine.runtime().device == "cpu"


@pytest.mark.thorough("engines")
def test_one_that_dies_idle_invalidates_the_run_and_all_samples_are_answered():
    with warm("doubling", 2, batching="dynamic", batch=2) as engine:
        os.kill(engine.instances[0].pid, signal.SIGSEGV)
        while not engine.instances[0].consumer.is_gone:  # what is given to it before fails with it
            time.sleep(0.01)
        reply = asked(engine, *range(100, 110))
    assert reply.invalidated == ["instance 0 of 2 was ended by SIGSEGV"]
    assert (len(reply.answers), reply.failures) == (10, {})


@pytest.mark.thorough("engines")
def test_without_any_instance_left_all_samples_fail_at_once():
    with warm("doubling", 2, batching="dynamic", batch=1) as engine:
        asked(engine, DEADLY, DEADLY)
        reply = asked(engine, 100, 101)
        assert sorted(reply.failures) == [5000, 5001]


def test_one_that_keeps_silent_is_killed_and_named(monkeypatch):
    monkeypatch.setattr("mlbench.execution.instances.instance._ANSWERS_WITHIN_S", 0.5)
    with warm("doubling", 2, batching="dynamic", batch=1) as engine:
        os.kill(engine.instances[1].pid, signal.SIGSTOP)
        counted = engine.statistics().by_instance
    assert counted[1].ended == "instance 1 of 2 did not answer for 0.5 s, and was killed"


@pytest.mark.thorough("engines", but=["refusing-UsageError-^backend\\\\.speed is 11\\\\. Expected 1 to 10\\\\.$"])
@pytest.mark.parametrize(
    ("builder", "error", "told"),
    [
        ("refusing", UsageError, r"^backend\.speed is 11\. Expected 1 to 10\.$"),
        ("lacking", GraphError, r"^graph double: operator Det\. Use fp32\.$"),
        ("raising", ProcessEndedError, "^instance 0 of 2: ValueError: bad operator$"),
        ("dying", ProcessEndedError, "^instance 0 of 2 left with status 3 before it was done$"),
    ],
)
def test_an_engine_that_cannot_be_made_says_why_as_it_would_alone(builder, error, told):
    with pytest.raises(error, match=told) as caught, replicated(builder, 2):
        pass
    if error is ProcessEndedError:
        assert caught.value.kind is (FailureKind.EXIT if builder == "dying" else FailureKind.EXCEPTION)


@pytest.mark.thorough("engines", but=["916-that is invalid"])
@pytest.mark.parametrize(
    ("sample", "told"),
    [(WRONG, "sent an invalid message (it begins with b'no messa'), and was killed"), (TWICE, "that is invalid")],
)
def test_an_instance_that_garbles_its_line_is_killed_and_named_and_the_others_go_on(sample, told):
    with warm("garbling", 2) as engine:
        reply = asked(engine, sample)
        (reason,) = reply.failures.values()
        assert told in reason
        assert reason.startswith("instance ")
        assert [int(each[0][0]) for each in asked(engine, 100, 101, 102).answers.values()] == [200, 202, 204]


@pytest.mark.thorough("engines")
def test_what_an_instance_cannot_tell_of_itself_is_named():
    with warm("garbling", 2) as engine:
        assert engine.statistics().by_instance[0].counted.extra["sizes"] == {"8": 3}
        assert engine.statistics().extra["not_stored"] == "rate is nan"
        assert engine.runtime() == RuntimeFacts(device="cpu", extra={"not_stored": "handle is a object"})


def is_gone(pid):
    """Wait for the end of a process, which its descriptor signals, also of one that is nobody's child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 30)[0])
    finally:
        os.close(descriptor)


@pytest.mark.thorough("engines")
def test_the_first_engine_is_made_alone_while_the_other_process_imports(tmp_path):
    import replicated_parts

    building = Building(builder="replicated_parts:meeting", payload={"folder": str(tmp_path)})
    with ReplicatedEngine(building, 2, replicated_parts.model(), EnginePlan(), replicated_parts.Numbers()) as engine:
        assert engine.statistics().instances == 2


def test_nothing_is_left_behind():
    with warm("doubling", 2) as engine:
        pids = [instance.pid for instance in engine.instances]
    assert all(map(is_gone, pids))


def test_instances_end_with_the_process_that_started_them():
    script = (
        "import os, time, replicated_parts\n"
        "from mlbench import EnginePlan\n"
        "from mlbench.execution.instances import engine\n"
        "from mlbench.execution.cores import Core\n"
        "engine.cores_for = lambda count: [Core(0, (min(os.sched_getaffinity(0)),))] * count\n"
        "building = engine.Building(builder='replicated_parts:doubling', payload={})\n"
        "one = engine.ReplicatedEngine(\n"
        "    building, 2, replicated_parts.model(), EnginePlan(), replicated_parts.Numbers()\n"
        ").__enter__()\n"
        "print(*[instance.pid for instance in one.instances], flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert len(pids) == 2
    assert all(map(is_gone, pids))
