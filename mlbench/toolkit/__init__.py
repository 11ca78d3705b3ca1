"""Tools for authors of workloads and backends. Importing it loads nothing heavy."""

from typing import TYPE_CHECKING

from mlbench.contracts.lazy_names import lazy_names

if TYPE_CHECKING:
    from mlbench.errors import first_line, printable
    from mlbench.execution.arrays import copy_rows, host_array
    from mlbench.execution.awaited_reply import AwaitedReply
    from mlbench.execution.engine_choice import graph_engine
    from mlbench.execution.export.compile_cache import build_once
    from mlbench.execution.export.tracing import tracing_versions
    from mlbench.execution.processes.side_process import SideProcess
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
    from mlbench.toolkit.difference_limits import limits_by_precision
    from mlbench.toolkit.distributions import find_versions
    from mlbench.toolkit.files import file_sha256, fit_state, load_strictly, load_weights, unpack, verify_file
    from mlbench.toolkit.images import decode_image, read_image
    from mlbench.toolkit.mini_folder import MiniFolder, read_mini, write_mini
    from mlbench.toolkit.module_graph import ModuleGraph
    from mlbench.toolkit.official_form import list_deviations
    from mlbench.toolkit.onnx_file_graph import OnnxFileGraph
    from mlbench.toolkit.onnx_fingerprint import onnx_identity, onnx_weight_files
    from mlbench.toolkit.output_references import read_output_reference, write_output_reference
    from mlbench.toolkit.padding import pad_rows, round_up
    from mlbench.toolkit.profiled_workload import ProfiledWorkload
    from mlbench.toolkit.profiles import OneGraph, ProfileParts, ShippedProfile, UserFilesProfile, check_files
    from mlbench.toolkit.sandbox import Ending, Folder, Outcome, Sandbox, SandboxLimits, Wall
    from mlbench.toolkit.shape_range import ShapeRange, shape_ranges
    from mlbench.toolkit.streamed_answer import StreamedAnswer
    from mlbench.toolkit.torch_backend.backend import TorchBackend
    from mlbench.toolkit.torch_backend.options import TorchOptions
    from mlbench.toolkit.torchscript import read_torchscript

__all__ = [
    "DATA_BYTES",
    "AsyncGenerationEngine",
    "AwaitedReply",
    "BatchSizes",
    "CappedGraph",
    "Ending",
    "Folder",
    "MiniFolder",
    "ModuleGraph",
    "OneGraph",
    "OnnxFileGraph",
    "Outcome",
    "ProfileParts",
    "ProfiledWorkload",
    "Sandbox",
    "SandboxLimits",
    "ShapeRange",
    "ShippedProfile",
    "SideProcess",
    "StreamedAnswer",
    "TorchBackend",
    "TorchOptions",
    "UserFilesProfile",
    "Wall",
    "build_once",
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
    "printable",
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
    "tracing_versions",
    "unpack",
    "usable_threads",
    "verify_file",
    "write_mini",
    "write_output_reference",
]

_IMPORTED_WHEN_USED = {
    "mlbench.system.documents": (
        *("DATA_BYTES", "foreign", "open_regular", "parse_json", "read_bytes", "read_json", "read_json_object"),
        *("read_text",),
    ),
    "mlbench.system.documents.archives": ("open_zip", "read_member"),
    "mlbench.system.documents.manifests": ("parse_manifest",),
    "mlbench.errors": ("first_line", "printable"),
    "mlbench.execution.arrays": ("copy_rows", "host_array"),
    "mlbench.execution.awaited_reply": ("AwaitedReply",),
    "mlbench.execution.export.compile_cache": ("build_once",),
    "mlbench.execution.engine_choice": ("graph_engine",),
    "mlbench.execution.processes.side_process": ("SideProcess",),
    "mlbench.execution.export.tracing": ("tracing_versions",),
    "mlbench.system.processor": ("flags_of", "machine_flags", "usable_threads"),
    "mlbench.rules.targets": ("share_targets",),
    "mlbench.toolkit.async_generation_engine": ("AsyncGenerationEngine",),
    "mlbench.toolkit.batch_sizes": ("BatchSizes", "has_batches"),
    "mlbench.toolkit.capped_graph": ("CappedGraph", "in_pieces"),
    "mlbench.toolkit.cores": ("cores_each",),
    "mlbench.toolkit.difference_limits": ("limits_by_precision",),
    "mlbench.toolkit.distributions": ("find_versions",),
    "mlbench.toolkit.files": ("file_sha256", "fit_state", "load_strictly", "load_weights", "unpack", "verify_file"),
    "mlbench.toolkit.images": ("decode_image", "read_image"),
    "mlbench.toolkit.mini_folder": ("MiniFolder", "read_mini", "write_mini"),
    "mlbench.toolkit.module_graph": ("ModuleGraph",),
    "mlbench.toolkit.official_form": ("list_deviations",),
    "mlbench.toolkit.onnx_file_graph": ("OnnxFileGraph",),
    "mlbench.toolkit.onnx_fingerprint": ("onnx_identity", "onnx_weight_files"),
    "mlbench.toolkit.output_references": ("read_output_reference", "write_output_reference"),
    "mlbench.toolkit.padding": ("pad_rows", "round_up"),
    "mlbench.toolkit.profiled_workload": ("ProfiledWorkload",),
    "mlbench.toolkit.profiles": ("OneGraph", "ProfileParts", "ShippedProfile", "UserFilesProfile", "check_files"),
    "mlbench.toolkit.sandbox": ("Ending", "Folder", "Outcome", "Sandbox", "SandboxLimits", "Wall"),
    "mlbench.toolkit.shape_range": ("ShapeRange", "shape_ranges"),
    "mlbench.toolkit.streamed_answer": ("StreamedAnswer",),
    "mlbench.toolkit.torch_backend.backend": ("TorchBackend",),
    "mlbench.toolkit.torch_backend.options": ("TorchOptions",),
    "mlbench.toolkit.torchscript": ("read_torchscript",),
}
"""Modules and their public names, imported on first use: a command loads only those that it needs."""

__getattr__ = lazy_names(globals(), _IMPORTED_WHEN_USED)


def __dir__() -> list[str]:
    return [*__all__]
