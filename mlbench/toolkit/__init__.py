"""Tools for authors of workloads and backends. Importing it loads nothing heavy."""

from typing import TYPE_CHECKING

from mlbench.contracts.lazy_names import lazy_names

if TYPE_CHECKING:
    from mlbench.errors import first_line, printable
    from mlbench.execution.arrays import copy_rows, host_array, stack
    from mlbench.execution.awaited_reply import AwaitedReply
    from mlbench.execution.engine_choice import graph_engine
    from mlbench.execution.export.compile_cache import build_once
    from mlbench.execution.export.tracing import tracing_versions
    from mlbench.execution.processes.fork_server import begin_imports
    from mlbench.execution.processes.side_process import SideProcess
    from mlbench.rules.early_stopping import queries_needed
    from mlbench.rules.official import WorkloadRules
    from mlbench.rules.targets import share_targets
    from mlbench.system.documents import (
        DATA_BYTES,
        foreign,
        open_regular,
        parse_json,
        read_bytes,
        read_json,
        read_json_object,
        read_text,
    )
    from mlbench.system.documents.archives import open_zip, read_member
    from mlbench.system.documents.manifests import parse_manifest
    from mlbench.system.processor import flags_of, machine_flags, usable_threads
    from mlbench.toolkit.async_generation_engine import AsyncGenerationEngine
    from mlbench.toolkit.batch_sizes import BatchSizes, has_batches
    from mlbench.toolkit.capped_graph import CappedGraph, in_pieces
    from mlbench.toolkit.cores import cores_each
    from mlbench.toolkit.datasets import LoadedSamples, StoredSamples, stack_images
    from mlbench.toolkit.difference_limits import limits_by_precision
    from mlbench.toolkit.distributions import find_versions
    from mlbench.toolkit.files import file_sha256, fit_state, load_strictly, load_weights, unpack, verify_file
    from mlbench.toolkit.graph_in_state import GraphInState, KeptStates
    from mlbench.toolkit.images import decode_image, read_image
    from mlbench.toolkit.mini_folder import MiniFolder, read_mini, write_mini
    from mlbench.toolkit.module_graph import Calibrate, ModuleGraph, build_seeded, in_torch
    from mlbench.toolkit.official_form import list_deviations
    from mlbench.toolkit.onnx_file_graph import OnnxFileGraph
    from mlbench.toolkit.onnx_fingerprint import onnx_identity, onnx_weight_files
    from mlbench.toolkit.output_references import read_output_reference, write_output_reference
    from mlbench.toolkit.padding import pad_rows, round_up
    from mlbench.toolkit.profiled_workload import ProfiledWorkload
    from mlbench.toolkit.profiles import OneGraph, ProfileParts, ShippedProfile, UserFilesProfile, check_files
    from mlbench.toolkit.rate_search import RateFound, RateGoal, RateNotFound, RateObservation, RateSearch, RateTrial
    from mlbench.toolkit.sandbox import Ending, Folder, Outcome, Sandbox, SandboxLimits, Wall
    from mlbench.toolkit.shape_range import ShapeRange, shape_ranges
    from mlbench.toolkit.shared_while_used import SharedWhileUsed
    from mlbench.toolkit.streamed_answer import StreamedAnswer
    from mlbench.toolkit.times import parse_time_ns
    from mlbench.toolkit.torch_backend.backend import TorchBackend
    from mlbench.toolkit.torch_backend.options import TorchOptions
    from mlbench.toolkit.torchscript import read_torchscript
    from mlbench.toolkit.transformed_graph import TransformedGraph, change_modules

__all__ = [
    "DATA_BYTES",
    "AsyncGenerationEngine",
    "AwaitedReply",
    "BatchSizes",
    "Calibrate",
    "CappedGraph",
    "Ending",
    "Folder",
    "GraphInState",
    "KeptStates",
    "LoadedSamples",
    "MiniFolder",
    "ModuleGraph",
    "OneGraph",
    "OnnxFileGraph",
    "Outcome",
    "ProfileParts",
    "ProfiledWorkload",
    "RateFound",
    "RateGoal",
    "RateNotFound",
    "RateObservation",
    "RateSearch",
    "RateTrial",
    "Sandbox",
    "SandboxLimits",
    "ShapeRange",
    "SharedWhileUsed",
    "ShippedProfile",
    "SideProcess",
    "StoredSamples",
    "StreamedAnswer",
    "TorchBackend",
    "TorchOptions",
    "TransformedGraph",
    "UserFilesProfile",
    "Wall",
    "WorkloadRules",
    "begin_imports",
    "build_once",
    "build_seeded",
    "change_modules",
    "check_files",
    "copy_rows",
    "cores_each",
    "decode_image",
    "file_sha256",
    "find_versions",
    "first_line",
    "fit_state",
    "flags_of",
    "foreign",
    "graph_engine",
    "has_batches",
    "host_array",
    "in_pieces",
    "in_torch",
    "limits_by_precision",
    "list_deviations",
    "load_strictly",
    "load_weights",
    "machine_flags",
    "onnx_identity",
    "onnx_weight_files",
    "open_regular",
    "open_zip",
    "pad_rows",
    "parse_json",
    "parse_manifest",
    "parse_time_ns",
    "printable",
    "queries_needed",
    "read_bytes",
    "read_image",
    "read_json",
    "read_json_object",
    "read_member",
    "read_mini",
    "read_output_reference",
    "read_text",
    "read_torchscript",
    "round_up",
    "shape_ranges",
    "share_targets",
    "stack",
    "stack_images",
    "tracing_versions",
    "unpack",
    "usable_threads",
    "verify_file",
    "write_mini",
    "write_output_reference",
]

__getattr__ = lazy_names(globals())


def __dir__() -> list[str]:
    return [*__all__]
