"""Which of LoadGen's numbers stand for a run."""

from pathlib import Path

from mlbench.comparison.measures import latencies_of
from mlbench.loadgen.logs import read_detail, result_of
from mlbench.loadgen.scenarios import MULTI_STREAM, SERVER

LOGS = Path(__file__).parents[1] / "data" / "loadgen"


def a_run_of(name, scenario, a_run):
    found = result_of(read_detail(LOGS / f"{name}.detail.txt"), scenario)
    fields = ("value", "unit", "higher_is_better", "latency_ns", "counts")
    return a_run(scenario=scenario.name, result={field: getattr(found, field) for field in fields})


def test_multistream_is_compared_by_latencies_of_queries_not_of_samples(a_run):
    assert latencies_of(a_run_of("multi_stream", MULTI_STREAM, a_run)) == {  # as LoadGen's summary prints them
        0.0: 2079028,
        0.5: 2139667,
        0.9: 2170312,
        0.95: 2179976,
        0.97: 2184403,
        0.99: 2201178,
        0.999: 2262438,
        1.0: 2262438,
    }


def test_elsewhere_a_query_is_a_sample(a_run):
    found = latencies_of(a_run_of("server", SERVER, a_run))
    assert found[0.99] == 7131849
    assert {0.0, 0.5, 0.9, 0.999, 1.0} < found.keys()
