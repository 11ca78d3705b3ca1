"""For authors of workloads and backends. Importing it loads nothing heavy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mlbench.documents import DATA_BYTES, open_regular, parse_json, read_bytes, read_json, read_json_object, read_text
from mlbench.errors import first_line, printable
from mlbench.execution.arrays import host_array
from mlbench.execution.compile_cache import build_once
from mlbench.execution.engine_choice import graph_engine
from mlbench.processor import flags_of, machine_flags
from mlbench.rules.targets import share_targets
from mlbench.toolkit.capped_graph import CappedGraph, in_pieces
from mlbench.toolkit.cores import cores_each
from mlbench.toolkit.difference_limits import limits_by_precision
from mlbench.toolkit.distributions import find_versions
from mlbench.toolkit.files import file_sha256, load_weights, unpack, verify_file
from mlbench.toolkit.images import decode_image, read_image
from mlbench.toolkit.mini_folder import MiniFolder, read_mini, write_mini
from mlbench.toolkit.module_graph import ModuleGraph
from mlbench.toolkit.onnx_file_graph import OnnxFileGraph
from mlbench.toolkit.onnx_identity import onnx_identity
from mlbench.toolkit.output_references import read_output_reference, write_output_reference
from mlbench.toolkit.padding import pad_rows, round_up
from mlbench.toolkit.profiled_workload import ProfiledWorkload
from mlbench.toolkit.profiles import OneGraph, ProfileParts, ShippedProfile, UserFilesProfile, check_files
from mlbench.toolkit.shape_ranges import ShapeRange, shape_ranges
from mlbench.toolkit.torch_backend.backend import TorchBackend
from mlbench.toolkit.torch_backend.options import TorchOptions

if TYPE_CHECKING:
    from mlbench.execution.side_process import SideProcess
    from mlbench.toolkit.sandbox import Ending, Folder, Outcome, Sandbox, SandboxLimits, Wall

__all__ = [
    "DATA_BYTES",
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
    "TorchBackend",
    "TorchOptions",
    "UserFilesProfile",
    "Wall",
    "build_once",
    "check_files",
    "cores_each",
    "decode_image",
    "file_sha256",
    "find_versions",
    "first_line",
    "flags_of",
    "graph_engine",
    "host_array",
    "in_pieces",
    "limits_by_precision",
    "load_weights",
    "machine_flags",
    "onnx_identity",
    "open_regular",
    "pad_rows",
    "parse_json",
    "printable",
    "read_bytes",
    "read_image",
    "read_json",
    "read_json_object",
    "read_mini",
    "read_output_reference",
    "read_text",
    "round_up",
    "shape_ranges",
    "share_targets",
    "unpack",
    "verify_file",
    "write_mini",
    "write_output_reference",
]

_IMPORTED_WHEN_USED = {
    "mlbench.execution.side_process": ("SideProcess",),
    "mlbench.toolkit.sandbox": ("Ending", "Folder", "Outcome", "Sandbox", "SandboxLimits", "Wall"),
}
"""Modules that take a third of the time of ``mlbench list``, which needs none of them, and their public names."""


def __getattr__(name: str) -> Any:
    for module, names in _IMPORTED_WHEN_USED.items():
        if name in names:
            globals()[name] = found = getattr(import_module(module), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
