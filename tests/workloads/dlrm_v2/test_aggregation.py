import hashlib
import json
from collections import Counter

import numpy as np
import pytest
from mlbench_dlrm_v2.aggregation import sample_boundaries


def test_boundaries_are_the_references(golden):
    case = json.loads((golden / "aggregation_trace" / "expected.json").read_text())["cases"]["quantile_seed123"]
    assert sample_boundaries(case["total_rows"]).tolist() == case["boundaries"]


def test_the_official_rows_give_the_official_trace_file_byte_for_byte(golden):
    official = json.loads((golden / "aggregation_trace" / "expected.json").read_text())["full_dataset"]
    boundaries = sample_boundaries(official["total_rows"])
    ranges = zip(boundaries[:-1].tolist(), boundaries[1:].tolist(), strict=True)
    trace = "".join(f"{start}, {end}, {end - start}\n" for start, end in ranges)
    assert hashlib.md5(trace.encode()).hexdigest() == official["trace_md5"]
    assert len(boundaries) - 1 == official["num_samples"]
    # counted in the official file
    assert Counter(np.diff(boundaries).tolist()) == {
        **{100: 32838, 200: 198264, 300: 33001, 400: 16337, 500: 16601, 600: 16524, 700: 16501},
        19: 1,
    }


@pytest.mark.parametrize(
    ("rows", "boundaries"),
    [(1, [0, 1]), (199, [0, 199]), (200, [0, 200]), (201, [0, 200, 201]), (800, [0, 200, 400, 600, 800])],
)
def test_the_last_sample_ends_with_the_rows(rows, boundaries):
    assert sample_boundaries(rows).tolist() == boundaries


def test_the_global_generator_stays_as_it_was():
    np.random.seed(7)
    expected = np.random.random()
    np.random.seed(7)
    sample_boundaries(1000)
    assert np.random.random() == expected
