"""For authors of workloads and backends. Importing it loads nothing heavy."""

from mlbench.execution.compile_cache import made_once
from mlbench.execution.side_process import SideProcess
from mlbench.toolkit.arrays import host_array
from mlbench.toolkit.capped_graph import CappedGraph, in_pieces
from mlbench.toolkit.cores import cores_each
from mlbench.toolkit.difference_limits import limits_by_precision
from mlbench.toolkit.distributions import installed_versions
from mlbench.toolkit.files import file_sha256, load_weights, unpacked, verified
from mlbench.toolkit.language_graphs import CacheShape, language_graphs
from mlbench.toolkit.language_network import LanguageNetwork
from mlbench.toolkit.mini_folder import MiniFolder, read_mini, write_mini
from mlbench.toolkit.module_graph import ModuleGraph
from mlbench.toolkit.onnx_file_graph import OnnxFileGraph
from mlbench.toolkit.onnx_identity import onnx_identity
from mlbench.toolkit.output_references import read_output_reference, write_output_reference
from mlbench.toolkit.padding import pad_rows, round_up
from mlbench.toolkit.sandbox import Ending, Folder, Limits, Outcome, Sandbox, Wall
from mlbench.toolkit.shape_ranges import ShapeRange, shape_ranges
from mlbench.toolkit.targets import share_targets
from mlbench.toolkit.torch_backend.backend import TorchBackend, TorchOptions

__all__ = [
    "CacheShape",
    "CappedGraph",
    "Ending",
    "Folder",
    "LanguageNetwork",
    "Limits",
    "MiniFolder",
    "ModuleGraph",
    "OnnxFileGraph",
    "Outcome",
    "Sandbox",
    "ShapeRange",
    "SideProcess",
    "TorchBackend",
    "TorchOptions",
    "Wall",
    "cores_each",
    "file_sha256",
    "host_array",
    "in_pieces",
    "installed_versions",
    "language_graphs",
    "limits_by_precision",
    "load_weights",
    "made_once",
    "onnx_identity",
    "pad_rows",
    "read_mini",
    "read_output_reference",
    "round_up",
    "shape_ranges",
    "share_targets",
    "unpacked",
    "verified",
    "write_mini",
    "write_output_reference",
]
