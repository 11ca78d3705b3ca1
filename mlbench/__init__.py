"""mlbench measures AI inference honestly: the nine MLPerf Inference v4.1 workloads, on any backend.

These names are the contract between the core and its plugins; `mlbench.toolkit` holds what helps to keep it.
"""

from mlbench.contracts.backend import Backend, EnginePlan, GraphBackend, Probe
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Capacity, Engine, GraphCalls, Reply, Samples
from mlbench.contracts.generation import DECODE, LENGTH, PREFILL, SLOTS, Decoding, GenerationProgram, Prompt
from mlbench.contracts.graph import (
    NEXT,
    Array,
    Dim,
    Executable,
    Graph,
    Precision,
    StatefulExecutable,
    TensorSpec,
    Tolerance,
)
from mlbench.contracts.hookspecs import hookimpl
from mlbench.contracts.metric import DifferenceLimits, LoggedReply, Metric, OutputReference, Target
from mlbench.contracts.model import BatchProgram, Model
from mlbench.contracts.power import Energy, PowerMeter
from mlbench.contracts.reply_spec import ReplySpec
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.contracts.scenario import Scenario
from mlbench.contracts.statistics import (
    BatchStatistics,
    CacheCounts,
    DecodeCounts,
    EngineStatistics,
    GenerationStatistics,
    PrefillCounts,
)
from mlbench.contracts.workload import NoOptions, Profile, Variant, Weights, Workload
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

__version__ = "0.1.0"

__all__ = [
    "DECODE",
    "LENGTH",
    "NEXT",
    "PREFILL",
    "SLOTS",
    "Array",
    "Backend",
    "BatchProgram",
    "BatchStatistics",
    "CacheCounts",
    "Capacity",
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
    "IncomparableRunsError",
    "InvalidRunError",
    "LoggedReply",
    "Metric",
    "MlbenchError",
    "Model",
    "NoOptions",
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
    "RuntimeFacts",
    "Samples",
    "Scenario",
    "StatefulExecutable",
    "Target",
    "TensorSpec",
    "Tolerance",
    "UnavailableError",
    "UsageError",
    "Variant",
    "Weights",
    "Workload",
    "__version__",
    "hookimpl",
]
