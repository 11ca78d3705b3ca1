"""An accuracy test that stands for several runs: its logs, and their scores."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlbench.contracts.load_pattern import LOAD_PATTERNS, Arrivals
from mlbench.contracts.metric import Metric, OutputDifference, Target
from mlbench.contracts.precision import Precision
from mlbench.contracts.statistics import GenerationStatistics
from mlbench.errors import DataError, MlbenchError
from mlbench.loadgen.logs import DETAIL, read_detail
from mlbench.loadgen.settings import Mode
from mlbench.records.job_spec import JobSpec
from mlbench.records.run_record import OutputDifferenceRecord, read
from mlbench.rules.scoring import Accuracy, assess
from mlbench.system.documents import copy_folder

logger = logging.getLogger(__name__)


def take_accuracy_test(spec: JobSpec) -> JobSpec:
    """Copy the logs of the accuracy test that stands for a run's own into its folder.

    Returns the job; where they are not there any more, that of a run which makes its own test.
    """
    if not spec.accuracy_of:
        return spec
    place = Path(spec.folder) / Mode.ACCURACY
    try:
        copy_folder(Path(spec.accuracy_of) / Mode.ACCURACY, place)
    except (OSError, DataError) as error:  # somebody deletes or moves runs
        logger.warning("the accuracy test of %s cannot be taken over: %s", spec.accuracy_of, error)
        shutil.rmtree(place, ignore_errors=True)
        return replace(spec, accuracy_of="")
    return spec


def earlier_speed(spec: JobSpec) -> float | None:
    """Return the samples per second of the run whose accuracy test is taken over.

    Of a language model those of its steady part, where they are more. None: there is no such run, it did not send all
    samples at once, or it cannot be read any more.
    """
    if not spec.accuracy_of:
        return None
    try:
        record = read(Path(spec.accuracy_of))
    except DataError:
        return None
    pattern = LOAD_PATTERNS.get(record.scenario_facts.loadgen)
    if not pattern or pattern.arrivals is not Arrivals.ALL_AT_ONCE:
        return None
    counted = record.engine
    steady_per_s = (isinstance(counted, GenerationStatistics) and counted.steady_samples_per_s) or 0.0
    try:
        whole_per_s = float(read_detail(Path(spec.accuracy_of) / Mode.PERFORMANCE / DETAIL).values[pattern.rate_key])
    except (MlbenchError, KeyError, TypeError, ValueError):
        whole_per_s = 0.0
    return max(steady_per_s, whole_per_s) or None


def read_scores(folder: Path, metric: Metric, precision: Precision, targets: Sequence[Target]) -> Accuracy | None:
    """Return the accuracy that the record of a run has; None where it cannot be read any more."""
    try:
        found = read(folder).accuracy
    except DataError:
        return None
    if not found:
        return None
    scores = {name: math.nan if value is None else value for name, value in found.scores.items()}
    accuracy = assess(metric, scores, _difference_of(found.output_difference, precision), targets)
    # the official script prints some of the scores as whole numbers
    return replace(accuracy, line=found.line, computed_with=found.computed_with)


def _difference_of(record: OutputDifferenceRecord | None, precision: Precision) -> OutputDifference | None:
    if record is None:
        return None
    return OutputDifference(
        value=math.nan if record.value is None else record.value,
        precision=precision,
        bounds={Precision(name): bound for name, bound in record.bounds.items()},
        unit=record.unit,
        samples=record.samples,
    )
