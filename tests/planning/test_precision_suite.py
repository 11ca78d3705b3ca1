"""The runs of ``mlbench precisions``: which precisions and transforms, in which order."""

from pathlib import Path

import pytest

from mlbench import Precision, UsageError
from mlbench.discovery import Plugins
from mlbench.planning.precision_suite import suite_of_precisions
from mlbench.planning.run_plan import RunMatrix
from mlbench.planning.suite import requests_of


@pytest.fixture(scope="module")
def requests():
    """Return a function that returns each run as its backend, precision, transform and repeat."""
    plugins = Plugins.discover()

    def requests(*backends, **asked):
        common = {"profile": "mini", "tier": "smoke", "weights": "trained", "overrides": {}, "results": Path("results")}
        matrix = RunMatrix(workloads=("gptj",), backends=backends, **common, **asked)
        found = requests_of(suite_of_precisions(matrix, plugins), plugins, results=matrix.results)
        assert {(each.tag, each.scenario) for each in found} == {("precisions", "Offline")}
        return [(each.backend, str(each.precision), each.transform, each.repeat) for each in found]

    return requests


def test_all_precisions_of_a_backend_are_measured_fp32_first(requests):
    offered = Plugins.discover().probe("onnxruntime").precisions
    found = [precision for _, precision, _, _ in requests("onnxruntime")]
    assert (found[0], sorted(found)) == ("fp32", sorted(offered))


def test_each_transform_is_a_row_in_the_first_precision_and_two_words_are_a_chain(requests):
    fp32, int8 = Precision.FP32, Precision.INT8
    assert requests("onnxruntime", precisions=(fp32, int8), transforms=("sparse", "prune-layers:0.34 sparse")) == [
        ("onnxruntime", "fp32", "", 1),
        ("onnxruntime", "int8", "", 1),
        ("onnxruntime", "fp32", "sparse:2:4", 1),
        ("onnxruntime", "fp32", "prune-layers:0.34:0 sparse:2:4", 1),
    ]


def test_repeats_are_interleaved_over_all_backends(requests):
    found = requests("null", "onnxruntime", precisions=(Precision.FP32,), repeats=2)
    assert [(backend, repeat) for backend, _, _, repeat in found] == [
        *(("null", 1), ("onnxruntime", 1), ("null", 2), ("onnxruntime", 2))
    ]


def test_a_precision_that_the_backend_lacks_is_refused(requests):
    with pytest.raises(UsageError, match=r"null does not offer precision int8\. It offers: fp32"):
        requests("null", precisions=(Precision.INT8,))
