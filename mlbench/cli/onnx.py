"""``mlbench onnx``: write a workload's graphs as ONNX files, for a server or another tool."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.completions import offer_workloads
from mlbench.cli.options import overrides_option, profile_option, weights_option
from mlbench.cli.output import echo_json, echo_line
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.reports.units import size

if TYPE_CHECKING:
    from mlbench.contracts.graph import TensorSpec
    from mlbench.graph_export.exported import Export, ExportedGraph


@click.command("onnx")
@click.argument("workload", shell_complete=offer_workloads)
@click.option(
    "-o",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder to write; it must not exist.",
)
@click.option(
    "--layout",
    type=click.Choice(["files", "triton"]),
    default="files",
    show_default=True,
    help="files: a file for each graph and a description. triton: a model repository.",
)
@profile_option
@weights_option
@overrides_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    workload: str,
    folder: Path,
    layout: str,
    profile: str,
    weights: str,
    overrides: dict[str, str],
    as_json: bool,
) -> None:
    """Write each graph of WORKLOAD to FOLDER as an ONNX file in fp32, the same file that ONNX backends get.

    Any server or tool that runs ONNX loads it without mlbench. The steps before and after the graphs stay in mlbench,
    which measures such a server with `mlbench run WORKLOAD --backend endpoint --set backend.protocol=kserve`.
    """
    from mlbench.graph_export.export import ExportRequest, export_graphs
    from mlbench.graph_export.exported import Layout

    request = ExportRequest(
        workload=workload,
        profile=Profile(profile),
        weights=Weights(weights),
        layout=Layout(layout),
        overrides=overrides,
    )
    export = export_graphs(request, Plugins.discover(), folder)
    if as_json:
        echo_json(
            json.dumps({"folder": os.path.abspath(folder), **export.document().model_dump(mode="json")}, indent=2)
        )
        return
    for line in _describe(export, folder, Layout(layout)):
        echo_line(line)


def _describe(export: Export, folder: Path, layout: str) -> Iterator[str]:
    """Yield lines on the written files and how to use them."""
    from mlbench.graph_export.exported import DOCUMENT, Layout

    yield f"{folder}: {export.workload}, profile {export.profile}, weights {export.weights}, fp32"
    for graph in export.graphs:
        yield from _describe_graph(graph)
    if layout == Layout.FILES:
        yield f"{DOCUMENT}: the same as JSON, with checksums"
    else:
        yield f"Serve it: tritonserver --model-repository={os.path.abspath(folder)}"
    if export.is_batch_program:
        named = (("profile", export.profile, "mini"), ("weights", export.weights, "trained"))
        more = "".join(f" --{name} {value}" for name, value, default in named if value != default)
        yield (
            f"Measure a server with it: mlbench run {export.workload}{more} --backend endpoint --precision fp32 "
            "--set backend.protocol=kserve --set backend.url=http://localhost:8000"
        )


def _describe_graph(graph: ExportedGraph) -> Iterator[str]:
    more = f" (with {', '.join(graph.more_files)})" if graph.more_files else ""
    yield f"{graph.file}{more}: {size(graph.size_bytes)}"
    specs = (*graph.inputs, *graph.outputs)
    widths = (max(len(spec.name) for spec in specs), max(len(spec.dtype) for spec in specs))
    for kind, tensors in (("in ", graph.inputs), ("out", graph.outputs)):
        for spec in tensors:
            yield f"  {kind}  {spec.name:<{widths[0]}}  {spec.dtype:<{widths[1]}}  {_format_shape(spec)}"
    for name, dim in graph.dims.items():
        yield f"  {name}: {dim.smallest} to {dim.largest}, usually {dim.usual}"
    if graph.state:
        yield f"  state: pass NAME.next of each call as NAME of the next call, for {', '.join(graph.state)}"


def _format_shape(spec: TensorSpec) -> str:
    from mlbench.graph_export.exported import shape_of

    return f"[{', '.join(map(str, shape_of(spec)))}]"
