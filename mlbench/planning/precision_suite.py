"""The suite of ``mlbench precisions``: a workload in each precision of a backend, and after each transform."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlbench.contracts.precision import Precision
from mlbench.discovery import Plugins
from mlbench.planning.run_plan import RunMatrix
from mlbench.planning.suite import Suite, SuiteEntry

_TAG = "precisions"
_AS_ASKED = ("profile", "tier", "weights", "round")


def suite_of_precisions(matrix: RunMatrix, plugins: Plugins) -> Suite:
    """Return the runs of one workload, the untouched model in fp32 first where the backend has it.

    Args:
        matrix: the request, without a user's model. Without precisions all of a backend's are taken, without scenarios
            the one that sends all samples at once. Each transform, or chain of them, is applied to the untouched model,
            in the first precision.
        plugins: with the backends.

    Raises:
        MlbenchError: a backend is unknown, or its plugin is broken.
    """
    backends = matrix.backends or (plugins.best_backend().name,)
    entries = [each for backend in backends for each in _entries(matrix, backend, plugins)]
    return Suite(name=_TAG, repeats=matrix.repeats, runs=entries)


def _entries(matrix: RunMatrix, backend: str, plugins: Plugins) -> Iterator[SuiteEntry]:
    at_once = [each.name for each in plugins.scenarios.values() if each.sends_all_at_once]
    precisions = list(matrix.precisions or _offered(backend, plugins))
    asked = {
        "workload": list(matrix.workloads),
        "backend": [backend],
        "scenario": list(matrix.scenarios or at_once[:1]),
        "accuracy": matrix.wants_accuracy,
        **{name: getattr(matrix, name) for name in _AS_ASKED},
    }
    yield SuiteEntry.model_validate({**asked, "precision": precisions})
    for chain in matrix.transforms:
        yield SuiteEntry.model_validate({**asked, "precision": precisions[:1], "transform": chain})


def _offered(backend: str, plugins: Plugins) -> Sequence[Precision]:
    """Return the precisions of a backend, fp32 first."""
    offered = plugins.probe(plugins.backend(backend).name).precisions
    return sorted(offered, key=lambda each: each is not Precision.FP32)
