"""The graphs of a workload as a folder of ONNX files, which is complete or does not exist."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.contracts.model import BatchProgram
from mlbench.contracts.precision import Precision
from mlbench.contracts.workload import Profile, Variant, Weights
from mlbench.errors import PluginError, UsageError, describe_error
from mlbench.execution.export.onnx_export import onnx_inputs, onnx_outputs
from mlbench.graph_export.exported import DOCUMENT, Export, ExportedGraph, Layout
from mlbench.graph_export.triton import CONFIG, MODEL, VERSION, config_text
from mlbench.planning.requests import RunRequest, settings_of
from mlbench.records.store.whole_folder import hold_folder_beside
from mlbench.system.guards import convert_errors
from mlbench.toolkit import file_sha256, onnx_weight_files
from mlbench.version import __version__

if TYPE_CHECKING:
    from mlbench.contracts.graph import Graph
    from mlbench.contracts.model import Model
    from mlbench.discovery import Plugins

RUNTIME = "onnxruntime"
"""The backend whose runs read these files: settings with conditions apply as in a run on it."""

_PLAIN_NAME = re.compile(r"[\w-][\w.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The graphs to write, and their layout."""

    workload: str
    profile: Profile = Profile.MINI
    weights: Weights = Weights.TRAINED
    layout: Layout = Layout.FILES
    overrides: Mapping[str, str]
    """Settings of the workload, as text: ``workload.weights``, ..."""


def export_graphs(request: ExportRequest, plugins: Plugins, folder: Path) -> Export:
    """Write each graph of a workload into a new folder, as an ONNX file in fp32, and return what was written.

    Raises:
        UsageError: something is at the folder's place, it cannot be written, a name or a setting is wrong, or the
            workload has no graphs.
        DataError: a file of the full profile is missing or another one.
        PluginError: the workload cannot make its model, or a graph has no ONNX form.
    """
    check_place(folder)
    model = _model(request, plugins)
    place = Path(os.path.realpath(folder))
    try:
        with hold_folder_beside(place) as beside:
            export = Export(
                workload=request.workload,
                profile=request.profile,
                weights=request.weights,
                weights_fingerprint=model.weights_fingerprint,
                is_batch_program=isinstance(model.program, BatchProgram),
                graphs=[_write(graph, beside, request) for graph in model.graphs.values()],
            )
            if request.layout is Layout.FILES:
                (beside / DOCUMENT).write_text(export.document().model_dump_json(indent=1) + "\n", encoding="utf-8")
            check_place(folder)  # minutes may have passed
            beside.rename(place)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.", hint="Choose another place.") from None
    return export


def check_place(folder: Path) -> None:
    """Raise `UsageError` where a new folder cannot be made because of what is there, or not there."""
    try:
        folder.lstat()
    except FileNotFoundError:
        if not folder.absolute().parent.is_dir():
            raise UsageError(f"{folder.parent} is not a folder.", hint="Make it first.") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.", hint="Choose another place.") from None
    else:
        raise UsageError(f"{folder} exists.", hint="Name a new folder.")


def _model(request: ExportRequest, plugins: Plugins) -> Model:
    """Return the workload's model, with the settings that a run would have."""
    workload = plugins.workload(request.workload)
    if other := next((key for key in request.overrides if not key.startswith("workload.")), ""):
        raise UsageError(f"{other!r} is not a setting of a workload.", hint="See `mlbench settings`.")
    settings = settings_of(
        RunRequest(
            workload=workload.name,
            backend=RUNTIME,
            scenario=next(iter(plugins.scenarios)),
            profile=request.profile,
            weights=request.weights,
            precision=Precision.FP32,
            overrides=request.overrides,
        ),
        plugins,
    )
    options = settings.fill("workload", workload.options)
    with convert_errors(
        lambda error: PluginError(f"workload {workload.name}: model() raised {describe_error(error)}.")
    ):
        model = workload.model(Variant(profile=request.profile, weights=request.weights, options=options))
    if not model.graphs:
        raise UsageError(f"workload {workload.name} has no graphs.", hint="See `mlbench list`.")
    return model


def _write(graph: Graph, folder: Path, request: ExportRequest) -> ExportedGraph:
    """Write a graph's files below a folder."""
    if not _PLAIN_NAME.fullmatch(graph.name):
        raise PluginError(f"graph {graph.name!r} cannot name a file.", hint="Use letters, digits, - and _.")
    source = graph.onnx()
    weights = list(onnx_weight_files(source))
    inputs, outputs = onnx_inputs(graph), onnx_outputs(graph)
    is_triton = request.layout is Layout.TRITON
    if is_triton:
        version = folder / graph.name / VERSION
        target = version / MODEL / MODEL if weights else version / MODEL
    else:
        target = folder / f"{graph.name}.onnx"
    written = [_copy(source, target), *(_copy(source.parent / each, target.parent / each) for each in weights)]
    size_bytes = sum(file.stat().st_size for file in written)
    if is_triton:
        what = f"{request.workload}, profile {request.profile}, weights {request.weights}, graph {graph.name}"
        text = config_text(inputs, outputs, comment=f"Written by mlbench {__version__}: {what}.")
        written.append(folder / graph.name / CONFIG)
        written[-1].write_text(text, encoding="utf-8")
    file, *more_files = (str(each.relative_to(folder)) for each in written)
    return ExportedGraph(
        name=graph.name,
        file=file,
        more_files=tuple(more_files),
        size_bytes=size_bytes,
        sha256=file_sha256(target),
        inputs=inputs,
        outputs=outputs,
        state=tuple(spec.name for spec in graph.state),
    )


def _copy(source: Path, target: Path) -> Path:
    """Copy a file to where none is; the cache stays as it is, whatever is done to the copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as read, target.open("xb") as write:
        shutil.copyfileobj(read, write, 1 << 22)
    return target
