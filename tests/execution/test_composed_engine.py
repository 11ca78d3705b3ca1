"""A composed engine over graphs that count: the output of ``double`` is twice its input."""

import contextlib
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from counted_reply import CountedReply

from mlbench import (
    BatchProgram,
    Dim,
    EnginePlan,
    GraphBackend,
    Model,
    Precision,
    Probe,
    ReplySpec,
    Samples,
    TensorSpec,
    UsageError,
)
from mlbench.execution import composed_engine
from mlbench.execution.composed_engine import ComposedEngine

DATASET = SimpleNamespace(sample=lambda index: index)


class Doubles(BatchProgram):
    reply = ReplySpec(dtype="int64", shape=(1,))

    def run(self, samples, graphs):
        return graphs["double"]({"x": np.array(samples)[:, None]})["y"]

    def length(self, sample):
        return sample // 10


class Counting(GraphBackend):
    """Doubles, and remembers the batches it saw; refuses 13."""

    name = "counting"

    def __init__(self):
        self.batches = []

    def probe(self):
        return Probe(is_available=True)

    def compile(self, graph, precision):
        def run(inputs):
            if 13 in inputs["x"]:
                raise ValueError("thirteen")
            self.batches.append(inputs["x"][:, 0].tolist())
            return {"y": 2 * inputs["x"]}

        return run


class Adds(BatchProgram):
    """Adds up what it is given, in the state of a graph."""

    reply = ReplySpec(dtype="int64", shape=(1,))
    state = (TensorSpec(name="sums", shape=(Dim(name="slots", smallest=1, usual=4, largest=8), 1), dtype="int64"),)

    def run(self, samples, graphs):
        state = graphs["double"].new_state({"slots": len(samples)})
        for _ in range(3):
            sums = graphs["double"]({"x": np.array(samples)[:, None]}, state)["y"]
        return sums


class Plain(Counting):
    """Keeps no state: it comes in and goes out."""

    def compile(self, graph, precision):
        return lambda inputs: {"y": inputs["sums"] + inputs["x"], "sums.next": inputs["sums"] + inputs["x"]}


class Kept(CountedReply):
    """Keeps one number a sample, and the threads that answered."""

    def __init__(self, count):
        super().__init__(count)
        self.threads = set()

    def complete(self, samples, outputs, token_counts=None):
        super().complete(samples, [int(output[0]) for output in outputs])

    def note(self, where, samples, values):
        self.threads.add(threading.get_ident())
        super().note(where, samples, values)


def engine(backend, program=None, **plan):
    graph = SimpleNamespace(name="double", precision=lambda asked: asked, state=getattr(program, "state", ()))
    model = Model(name="counting", graphs={"double": graph}, program=program or Doubles(), weights_fingerprint="none")
    return ComposedEngine(backend, model, EnginePlan(**plan))


def samples(*numbers):
    return Samples(list(range(len(numbers))), list(numbers), DATASET)


def answered(engine, query):
    reply = Kept(len(query))
    engine.submit(query, reply)
    engine.flush()
    reply.wait()
    return reply


@pytest.mark.parametrize("batching", ["inline", "fixed", "bucketed", "dynamic"])
@pytest.mark.parametrize("workers", [1, 3])
def test_every_sample_gets_its_own_answer(batching, workers):
    numbers = list(range(100, 150))
    with engine(Counting(), batching=batching, batch=8, workers=workers) as running:
        reply = answered(running, samples(*numbers))
    assert [reply.answers[i] for i in range(50)] == [2 * number for number in numbers]


@pytest.mark.parametrize("batching", ["inline", "fixed", "dynamic"])
def test_samples_are_counted_by_the_time_they_are_answered(batching):
    counted = []

    class Asking(Kept):
        def complete(self, samples, outputs, token_counts=None):
            counted.append(running.statistics().samples)
            super().complete(samples, outputs, token_counts)

    with engine(Counting(), batching=batching, batch=4) as running:
        reply = Asking(4)
        running.submit(samples(1, 2, 3, 4), reply)
        running.flush()
        reply.wait()
    assert counted == [4]


def test_inline_answers_on_the_callers_thread():
    with engine(Counting(), batching="inline") as running:
        reply = answered(running, samples(1, 2))
    assert reply.threads == {threading.get_ident()}


def test_a_fixed_batch_is_filled_by_repeating_its_last_sample():
    backend = Counting()
    with engine(backend, batching="fixed", batch=4) as running:
        answered(running, samples(1, 2, 3, 4, 5))
    assert backend.batches == [[1, 2, 3, 4], [5, 5, 5, 5]]
    assert running.statistics().padding_samples == 3


def test_bucketed_batches_hold_samples_of_like_length():
    backend = Counting()
    with engine(backend, batching="bucketed", batch=2) as running:
        answered(running, samples(10, 30, 11, 31))
    assert backend.batches == [[30, 31], [10, 11]]


def test_a_batch_that_raises_fails_its_samples_and_no_others():
    with engine(Counting(), batching="dynamic", batch=2) as running:
        reply = answered(running, samples(1, 2, 12, 13, 5, 6))
    assert reply.failures == {2: "ValueError: thirteen", 3: "ValueError: thirteen"}
    assert sorted(reply.answers) == [0, 1, 4, 5]


def test_a_batch_program_has_state_even_where_the_backend_keeps_none():
    with engine(Plain(), Adds(), batching="inline", batch=2) as running:
        reply = answered(running, samples(1, 2, 12))
        sizes = {tuple(call.state_sizes.items()): call.count for call in running.calls()}
    assert [reply.answers[number] for number in range(3)] == [3, 6, 36]
    assert sizes == {(("slots", 2),): 3, (("slots", 1),): 3}


class OneTooMany(Doubles):
    def run(self, samples, graphs):
        return np.zeros((len(samples) + 1, 1), np.int64)


def test_a_program_that_answers_more_than_it_was_asked_fails_its_samples():
    with engine(Counting(), OneTooMany(), batching="dynamic", batch=2) as running:
        reply = answered(running, samples(1, 2))
    assert reply.failures[0] == "ValueError: 3 outputs for 2 samples"


def test_a_batch_left_open_is_chosen_while_warming_up():
    with engine(Counting(), batching="dynamic", largest_batch=8) as running:
        running.warm_up(samples(*range(8)))
        statistics = running.statistics()
        assert statistics.batch in (1, 2, 4, 8)
        assert set(statistics.sweep_samples_per_s) <= {1, 2, 4, 8}
        assert statistics.batches_by_size == {}
        assert answered(running, samples(*range(8))).answers == {i: 2 * i for i in range(8)}


class SlowerAtLast(Doubles):
    """A batch of 8 takes 50 ms, and any other none."""

    def run(self, samples, graphs):
        time.sleep(0.05 if len(samples) == 8 else 0)
        return super().run(samples, graphs)


def test_a_batch_left_open_takes_no_longer_than_the_plan_allows():
    with engine(Counting(), SlowerAtLast(), batching="dynamic", largest_batch=8, longest_batch_ms=20) as running:
        running.warm_up(samples(*range(8)))
        assert 8 not in running.statistics().sweep_samples_per_s


class OneDevice(Doubles):
    """Batches of up to 4 take 8 ms; 8 take no longer, but share one device fairly."""

    def __init__(self):
        self._sharers = []

    def run(self, samples, graphs):
        if len(samples) <= 4:
            time.sleep(0.008)
            return super().run(samples, graphs)
        left_s = 0.001 * len(samples)
        self._sharers.append(self)
        while left_s > 0:
            time.sleep(0.001)
            left_s -= 0.001 / len(self._sharers)
        self._sharers.pop()
        return super().run(samples, graphs)


@pytest.mark.parametrize(("workers", "batch"), [(1, 8), (4, 4)])
def test_a_batch_left_open_is_the_best_for_all_workers_together(workers, batch):
    """Alone 4 / 8 ms = 500/s against 8 / 8 ms = 1,000/s; four workers 2,000/s against 1,000/s."""
    with engine(Counting(), OneDevice(), batching="dynamic", largest_batch=8, workers=workers) as running:
        running.warm_up(samples(*range(8)))
        assert running.statistics().batch == batch
        assert batch in running.statistics().sweep_rounds


class Alike(Doubles):
    """Knows no lengths; batches of up to 4 take no longer than one sample, and larger ones far longer."""

    def length(self, sample):
        return 0

    def run(self, samples, graphs):
        time.sleep(0.001 if len(samples) <= 4 else 0.02)
        return super().run(samples, graphs)


@pytest.mark.parametrize(("workers", "program", "again"), [(1, Alike, []), (2, Alike, []), (1, Doubles, [1])])
def test_what_a_sweep_ran_on_each_worker_is_not_run_again_where_all_samples_are_alike(workers, program, again):
    """Where they are not, a sweep runs those that a batch would hold, and none with the shortest and the longest."""
    backend, seen = Counting(), []
    with engine(backend, program(), batching="dynamic", largest_batch=8, workers=workers) as running:
        run_sizes = running._run_sizes
        running._run_sizes = lambda sizes, *rest: (seen.append(sizes), run_sizes(sizes, *rest))
        running.warm_up(samples(*range(0, 80, 10)))
        assert running.statistics().batch <= 8
    assert [sizes[:1] for sizes in seen] == [again] * workers
    assert {1, 2, 4} <= {len(batch) for batch in backend.batches}


def test_warm_up_runs_a_batch_of_samples_that_are_all_alike_once():
    backend = Counting()
    with engine(backend, Alike(), batching="dynamic", batch=2) as running:
        running.warm_up(samples(10, 20, 30))
    assert backend.batches == [[10], [10, 20]]


def test_warm_up_runs_every_batch_size_that_may_come():
    backend = Counting()
    with engine(backend, batching="dynamic", batch=6) as running:
        running.warm_up(samples(*range(1, 7)))
    assert {len(batch) for batch in backend.batches} == {1, 2, 4, 6}


@pytest.mark.parametrize(("later_s", "batches"), [(20.0, [[1], [1]]), (0.1, [[1], [1], [3], [3]])])
def test_warm_up_ends_at_samples_that_are_slow_not_only_the_first_time(monkeypatch, later_s, batches):
    clock = SimpleNamespace(now_s=0.0)
    clock.perf_counter = lambda: clock.now_s
    monkeypatch.setattr(composed_engine, "time", clock)
    backend = Counting()

    class Slow(Doubles):
        def run(self, samples, graphs):
            clock.now_s += 20.0 if samples not in backend.batches else later_s
            return super().run(samples, graphs)

        def length(self, sample):
            return sample

    with engine(backend, Slow(), batching="inline", batch=1) as running:
        running.warm_up(samples(3, 1, 2))
    assert backend.batches == batches


@pytest.mark.parametrize("batching", ["inline", "dynamic"])
def test_warm_up_runs_a_batch_of_one_sample_with_the_shortest_and_the_longest_once(batching):
    backend = Counting()
    with engine(backend, batching=batching, batch=1) as running:
        running.warm_up(samples(10, 20, 30))
    assert backend.batches == [[10], [30]]


class SetsItselfUp(Counting):
    """Counts how many of its graphs are in their first call at a time; each waits a moment for another."""

    def __init__(self):
        super().__init__()
        self.together = 0
        self._pair = threading.Barrier(2)

    def compile(self, graph, precision):
        compiled, is_first = super().compile(graph, precision), [True]

        def run(inputs):
            if is_first.pop() if is_first else False:
                with contextlib.suppress(threading.BrokenBarrierError):
                    self._pair.wait(0.1)
                    self.together += 1
                self._pair.reset()
            return compiled(inputs)

        return run


@pytest.mark.parametrize("batch", ["auto", 4])
def test_the_first_call_of_each_worker_is_made_alone(batch):
    backend = SetsItselfUp()
    with engine(backend, workers=2, batch=batch) as warmed:
        warmed.warm_up(samples(*range(8)))
    assert backend.together == 0


@pytest.mark.parametrize(("batching", "mixes"), [("bucketed", False), ("dynamic", True), ("fixed", True)])
def test_the_batch_is_chosen_with_samples_such_as_the_run_puts_together(batching, mixes):
    """Sorted or as they come: the longest of a batch of eight is near the shortest, or not."""
    backend = Counting()
    with engine(backend, batching=batching, batch="auto", largest_batch=8) as warmed:
        warmed.warm_up(samples(*range(20, 100)))
    eights = [batch for batch in backend.batches if len(batch) == 8]
    assert any(max(batch) - min(batch) > 40 for batch in eights) is mixes


@pytest.mark.parametrize("name", ["batch", "workers"])
def test_a_number_below_one_is_refused(name):
    with pytest.raises(UsageError, match=f"execution.{name} is 0"):
        engine(Counting(), **{name: 0})


def test_an_unknown_way_of_batching_is_refused():
    with pytest.raises(UsageError, match=r"execution\.batching is 'magic'"):
        engine(Counting(), batching="magic")


class Sharing(Counting):
    """Takes a part of the cores when it is one of several."""

    def __init__(self):
        super().__init__()
        self.workers = 1
        self.compiled_for = []

    def for_workers(self, workers):
        self.workers = workers
        return self

    def compile(self, graph, precision):
        self.compiled_for.append(self.workers)
        return super().compile(graph, precision)


@pytest.mark.parametrize(("workers", "compiled_for"), [(1, [1]), (3, [3, 3, 3])])
def test_a_backend_learns_how_many_workers_have_the_cores_between_them(workers, compiled_for):
    backend = Sharing()
    with engine(backend, batching="dynamic", batch=1, workers=workers):
        assert backend.compiled_for == compiled_for


def test_each_graph_is_compiled_at_the_precision_it_makes_of_the_runs():
    compiled = {}

    class Noting(Counting):
        def compile(self, graph, precision):
            compiled[graph.name] = precision
            return super().compile(graph, precision)

    graphs = {
        "double": SimpleNamespace(name="double", precision=lambda asked: asked, state=()),
        "fragile": SimpleNamespace(name="fragile", precision=lambda asked: Precision.FP32, state=()),
    }
    model = Model(name="counting", graphs=graphs, program=Doubles(), weights_fingerprint="none")
    with ComposedEngine(Noting(), model, EnginePlan(precision=Precision.FP16, batching="inline")):
        assert compiled == {"double": Precision.FP16, "fragile": Precision.FP32}


@pytest.mark.parametrize("batching", ["inline", "bucketed", "dynamic"])
def test_replayed_graphs_compute_no_shape_twice_and_the_program_still_runs(batching):
    class Counted(Doubles):
        runs = 0

        def run(self, samples, graphs):
            Counted.runs += 1
            return super().run(samples, graphs)

    backend = Counting()
    with engine(backend, Counted(), batching=batching, batch=2) as made:
        assert made.replay_graphs() == ""
        for _ in range(20):
            assert answered(made, samples(1, 2, 3, 4)).failures == {}
        assert Counted.runs == 40
        assert [len(batch) for batch in backend.batches] == [2]
        assert made.statistics().computed_calls == 1
        assert sum(call.count for call in made.calls()) == 40
        answered(made, samples(5, 6))
        assert made.statistics().computed_calls == 0


def test_an_engine_that_computes_does_not_count_computed_calls():
    with engine(Counting()) as made:
        assert made.statistics().computed_calls is None
