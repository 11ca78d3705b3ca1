"""Early stopping against the official table and LoadGen's own words."""

import re
from pathlib import Path

import pytest
import scipy

from mlbench.loadgen.logs import read_detail
from mlbench.rules import early_stopping
from mlbench.rules.early_stopping import misses_allowed, queries_needed

LOGS = Path(__file__).parents[1] / "data" / "loadgen"

MISSES = (0, 1, 2, 3, 4, 5, 10, 20, 50, 100)
UNDER_LATENCY = {  # MLPerf Inference rules, appendix Early Stopping: h(t)
    0.90: (44, 63, 79, 94, 109, 122, 187, 305, 631, 1146),
    0.99: (459, 661, 836, 998, 1153, 1302, 2000, 3284, 6848, 12471),
    0.999: (4603, 6635, 8401, 10039, 11597, 13100, 20130, 33077, 69008, 125726),
}


@pytest.mark.parametrize("percentile", UNDER_LATENCY)
def test_the_queries_needed_are_those_of_the_rules(percentile):
    assert tuple(queries_needed(misses, percentile) - misses for misses in MISSES) == UNDER_LATENCY[percentile]


@pytest.mark.parametrize(("log", "misses"), [("server_overloaded", 453), ("server_too_few", 0)])
def test_a_server_run_lacks_as_many_queries_as_loadgen_says(log, misses):
    values = read_detail(LOGS / f"{log}.detail.txt").values
    more = int(re.search(r"at least (\d+) more queries", values["early_stopping_result"])[1])
    assert values["result_overlatency_query_count"] == misses
    assert queries_needed(misses, 0.99) == values["result_query_count"] + more


@pytest.mark.parametrize(
    ("log", "percentile"), [("single_stream", 0.90), ("single_stream_ran_out", 0.90), ("multi_stream", 0.99)]
)
def test_an_estimate_discards_as_many_latencies_as_loadgen_says(log, percentile):
    """LoadGen discards one less than the misses that so many queries allow."""
    values = read_detail(LOGS / f"{log}.detail.txt").values
    discarded = int(re.search(r"discard (\d+) highest", values["early_stopping_result"])[1])
    queries = values["result_query_count"]
    assert queries_needed(discarded + 1, percentile) <= queries < queries_needed(discarded + 2, percentile)


@pytest.mark.parametrize(("percentile", "least"), [(0.90, 64), (0.99, 662)])
def test_an_estimate_needs_64_queries_or_662(percentile, least):
    assert queries_needed(1, percentile) == least


@pytest.mark.parametrize("chance", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("queries", [64, 1000, 24_576, 270_336, 10**7])
def test_the_chance_of_few_misses_is_that_of_the_binomial_distribution(queries, chance):
    most = int(queries * chance)
    for misses in {0, most // 2, most - most // 20, most - 1} - {-1}:
        found = early_stopping._chance_of_at_most(misses, queries, chance)
        assert found == pytest.approx(scipy.stats.binom.cdf(misses, queries, chance), rel=1e-7, abs=1e-300)


@pytest.mark.parametrize("queries", [500, 5000, 270_336])
def test_of_all_misses_that_queries_may_have_the_most_are_allowed_and_no_more(queries):
    allowed = misses_allowed(queries, 0.99)
    assert scipy.stats.binom.cdf(allowed, queries, 0.01) < 0.01 <= scipy.stats.binom.cdf(allowed + 1, queries, 0.01)
