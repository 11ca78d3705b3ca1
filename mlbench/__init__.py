"""mlbench measures AI inference honestly: the nine MLPerf Inference v4.1 workloads, on any backend.

`run`, `run_suite`, `load` and `compare` are the commands as functions. The other names are the contract between the
core and its plugins; `mlbench.toolkit` helps plugins to fulfil it.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlbench.api import compare, load, run, run_suite
    from mlbench.comparison.compare import Comparison
    from mlbench.contracts.backend import Backend, EnginePlan, GraphBackend, Probe
    from mlbench.contracts.dataset import Dataset
    from mlbench.contracts.engine import Capacity, Engine, GraphCalls, Reply, Samples
    from mlbench.contracts.generation import DECODE, LENGTH, PREFILL, SLOTS, Decoding, GenerationProgram, Prompt
    from mlbench.contracts.graph import NEXT, Array, Dim, Executable, Graph, StatefulExecutable, TensorSpec, Tolerance
    from mlbench.contracts.guarded import NAMES_FILE, NAMES_SECRET, OPENS_ADDRESS, RUNS_CODE, Guarded
    from mlbench.contracts.hookspecs import hookimpl
    from mlbench.contracts.metric import DifferenceLimits, LoggedReply, Metric, OutputReference, Target
    from mlbench.contracts.model import BatchProgram, Model
    from mlbench.contracts.power import Energy, PowerMeter
    from mlbench.contracts.precision import NumberFormat, Precision
    from mlbench.contracts.reply_spec import ReplySpec
    from mlbench.contracts.rules import Rules, Tokens
    from mlbench.contracts.runtime_facts import RuntimeFacts
    from mlbench.contracts.scenario import Scenario
    from mlbench.contracts.sensor import Sensor, SensorReading
    from mlbench.contracts.statistics import (
        BatchStatistics,
        CacheCounts,
        DecodeCounts,
        EngineStatistics,
        GenerationStatistics,
        PrefillCounts,
    )
    from mlbench.contracts.transform import Calibration, Transform
    from mlbench.contracts.tunable import Tunable
    from mlbench.contracts.workload import Memory, NoOptions, Profile, Variant, Weights, Workload
    from mlbench.errors import (
        DataError,
        GraphError,
        IncomparableRunsError,
        InvalidRunError,
        MlbenchError,
        PluginError,
        UnavailableError,
        UsageError,
    )
    from mlbench.records.run_record import RunRecord

from mlbench.contracts.lazy_names import lazy_names
from mlbench.version import __version__

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
"""From 1.29 on ONNX Runtime reports models and machines to its makers from a thread of its own, wherever mlbench loads
it: in a backend, a quantiser, or a runtime of another language."""

__all__ = [
    "DECODE",
    "LENGTH",
    "NAMES_FILE",
    "NAMES_SECRET",
    "NEXT",
    "OPENS_ADDRESS",
    "PREFILL",
    "RUNS_CODE",
    "SLOTS",
    "Array",
    "Backend",
    "BatchProgram",
    "BatchStatistics",
    "CacheCounts",
    "Calibration",
    "Capacity",
    "Comparison",
    "DataError",
    "Dataset",
    "DecodeCounts",
    "Decoding",
    "DifferenceLimits",
    "Dim",
    "Energy",
    "Engine",
    "EnginePlan",
    "EngineStatistics",
    "Executable",
    "GenerationProgram",
    "GenerationStatistics",
    "Graph",
    "GraphBackend",
    "GraphCalls",
    "GraphError",
    "Guarded",
    "IncomparableRunsError",
    "InvalidRunError",
    "LoggedReply",
    "Memory",
    "Metric",
    "MlbenchError",
    "Model",
    "NoOptions",
    "NumberFormat",
    "OutputReference",
    "PluginError",
    "PowerMeter",
    "Precision",
    "PrefillCounts",
    "Probe",
    "Profile",
    "Prompt",
    "Reply",
    "ReplySpec",
    "Rules",
    "RunRecord",
    "RuntimeFacts",
    "Samples",
    "Scenario",
    "Sensor",
    "SensorReading",
    "StatefulExecutable",
    "Target",
    "TensorSpec",
    "Tokens",
    "Tolerance",
    "Transform",
    "Tunable",
    "UnavailableError",
    "UsageError",
    "Variant",
    "Weights",
    "Workload",
    "__version__",
    "compare",
    "hookimpl",
    "load",
    "run",
    "run_suite",
]

__getattr__ = lazy_names(globals())


def __dir__() -> list[str]:
    return [*__all__]
