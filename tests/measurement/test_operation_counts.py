"""The work of a test, from what each of its graph calls takes."""

import threading
from types import SimpleNamespace

import pytest

from mlbench import EnginePlan, Precision
from mlbench.contracts.engine import GraphCalls
from mlbench.contracts.statistics import BatchStatistics, EngineStatistics
from mlbench.measurement import operation_counts
from mlbench.measurement.operation_counts import NUMBER_BYTES, count_operations, work_of
from mlbench.roofline.call_costs import CallCost, NotCountedError, count_cost
from mlbench.toolkit import ModuleGraph


def graph(name):
    return ModuleGraph(name, inputs=(), outputs=(), build=dict, fingerprint=f"{name} {threading.get_ident()}")


def calls(name, batch, count):
    return GraphCalls(graph=name, shapes={"x": (batch, 3)}, state_sizes={}, count=count)


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    return SimpleNamespace(graphs={"encoder": graph("encoder"), "decoder": graph("decoder")})


@pytest.fixture
def known(model):
    """Keep what some calls take: a row costs 100 operations, 10 numbers of weights are read, a row has 12 bytes."""

    def known(*several):
        for call in several:
            rows = call.shapes["x"][0]
            cost = CallCost(operations=100 * rows, numbers=10, other_bytes=12 * rows)
            count_cost(model.graphs[call.graph], call, lambda _, cost=cost: cost)
        return several

    return known


def work(calls, model, *, precision=Precision.FP32, samples=10, samples_per_s=5.0, statistics=None):
    job = SimpleNamespace(plan=SimpleNamespace(precision=precision))
    counted = statistics or EngineStatistics()
    return work_of(calls, model, job, counted, samples=samples, samples_per_s=samples_per_s)


def test_operations_of_all_calls_are_shared_among_the_samples(model, known):
    """Two batches of 4 and one of 2: 10 rows of 100 operations, for 10 samples."""
    found = work(known(calls("encoder", 4, 2), calls("encoder", 2, 1)), model)
    (encoder,) = found.graphs
    assert (encoder.graph, encoder.calls, encoder.shapes, encoder.operations) == ("encoder", 3, 2, 1000)
    assert found.operations_per_sample == 100
    assert found.samples_per_s == 5


def test_rows_of_padding_are_work_too(model, known):
    """Three batches of 4 for 10 samples: 1,200 operations."""
    statistics = BatchStatistics(samples=10, padding_samples=2)
    found = work(known(calls("encoder", 4, 3)), model, statistics=statistics)
    assert found.operations_per_sample == 120
    assert found.useful_share == pytest.approx(10 / 12)


def test_an_engine_that_does_not_count_rows_has_no_useful_share(model, known):
    assert work(known(calls("encoder", 4, 3)), model).useful_share is None


@pytest.mark.parametrize(
    ("precision", "number_bytes"),
    [(Precision.FP32, 4), (Precision.FP16, 2), (Precision.BF16, 2), (Precision.INT8, 1), (Precision.FP8, 1)],
)
def test_weights_take_as_many_bytes_as_a_number_of_the_precision(model, known, precision, number_bytes):
    """Each of 3 calls reads 10 numbers, and 4 rows of 12 bytes."""
    found = work(known(calls("encoder", 4, 3)), model, precision=precision)
    assert found.graphs[0].bytes == 3 * (10 * number_bytes + 48)
    assert found.bytes_per_sample == found.graphs[0].bytes / 10


def test_every_precision_has_a_size():
    assert set(NUMBER_BYTES) >= {Precision.FP32, Precision.BF16, Precision.FP16, Precision.INT8, Precision.FP8}


def test_each_graph_is_counted_by_itself_in_the_order_of_its_first_call(model, known):
    several = known(calls("decoder", 1, 7), calls("encoder", 4, 1), calls("decoder", 2, 3))
    found = work(several, model)
    assert [(each.graph, each.calls, each.operations) for each in found.graphs] == [
        ("decoder", 10, 7 * 100 + 3 * 200),
        ("encoder", 1, 400),
    ]
    assert found.operations_per_sample == (1300 + 400) / 10


def counted(several, model, **spec):
    """Return why operations cannot be counted; no process is to be started for it."""
    job = SimpleNamespace(spec=SimpleNamespace(**{"uncounted": "", **spec}), plan=EnginePlan())
    return count_operations(several, job, model, channel=None)


def test_nothing_is_counted_where_a_run_was_told_not_to(model):
    reason = "run `mlbench roofline` once"
    assert counted([calls("encoder", 1, 1)], model, uncounted=reason) == reason


def test_an_engine_that_counts_no_calls_has_no_known_work(model):
    assert counted([], model) == "the engine does not count its graph calls"


def test_calls_that_were_counted_before_are_not_counted_again(model, known):
    assert counted(known(calls("encoder", 1, 1), calls("decoder", 1, 1)), model) == ""


def test_a_graph_that_could_not_be_counted_before_says_why_at_once(model):
    call = calls("encoder", 1, 1)

    def refuse(_):
        raise NotCountedError("operator Det has no formula")

    with pytest.raises(NotCountedError):
        count_cost(model.graphs["encoder"], call, refuse)
    assert counted([call], model) == "operator Det has no formula"


def test_counting_ends_after_twenty_seconds_and_says_how_much_is_left(model, monkeypatch):
    """Each call takes 15 s to count on a clock of the test's own: two are counted, and one of three is left."""
    now_s = [0.0]

    class Slow:
        def __init__(self, graph):
            pass

        def cost(self, call):
            now_s[0] += 15
            return CallCost(operations=1, numbers=1, other_bytes=0)

    job = SimpleNamespace(model=lambda: model)
    monkeypatch.setattr("mlbench.roofline.operations.OperationCounter", Slow)
    monkeypatch.setattr(operation_counts.Job, "of_spec", lambda spec, plugins: job)
    monkeypatch.setattr(operation_counts, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    several = [calls("encoder", batch, 1) for batch in (1, 2, 4)]
    request = operation_counts.CountRequest(job=None, calls=several)
    found = operation_counts.fill_cache(request, SimpleNamespace(progress=lambda stage: None))
    assert found.reason == "1 of 3 different calls are left for the next run"
    assert now_s == [30]
    assert operation_counts.fill_cache(request, SimpleNamespace(progress=lambda stage: None)).reason == ""
