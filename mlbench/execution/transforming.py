"""Applies transforms to a model, and checks that what they return keeps their contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mlbench.contracts.graph import Graph
from mlbench.contracts.model import Model
from mlbench.contracts.transform import Calibration, Transform
from mlbench.errors import PluginError


def apply_transforms(model: Model, transforms: Sequence[Transform]) -> Model:
    """Return a model after these transforms, in their order.

    It has no files and no reference of the untouched model: an engine that read these would not run the changed one.

    Raises:
        UsageError: a transform does not take the model.
        PluginError: what it returned breaks its contract.
    """
    calibration = Calibration(model)
    for transform in transforms:
        changed = transform.apply(model, calibration)
        if fault := next(_faults(transform, model, changed), ""):
            raise PluginError(f"transform {transform.text} {fault}.", hint=f"See `mlbench check {transform.name}`.")
        model = replace(
            changed,
            files=None if changed.files == model.files else changed.files,
            reference=None if changed.reference == model.reference else changed.reference,
            weights_fingerprint=f"{model.weights_fingerprint}, {transform.text}",
        )
    return model


def _faults(transform: Transform, before: Model, after: object) -> Iterator[str]:
    """Yield how a transform breaks its contract."""
    if not isinstance(after, Model):
        yield f"returned a {type(after).__name__}, not a Model"
        return
    if len(after.changes) <= len(before.changes) or after.changes[: len(before.changes)] != before.changes:
        yield "does not say what it changed"
    if after.program.reply != before.program.reply:
        yield "changes the form of replies"
    if transform.writes_files:
        yield from _faults_of_files(before, after)
        return
    for name, graph in before.graphs.items():
        if name in after.graphs:
            yield from _faults_of_graph(graph, after.graphs[name])
        elif after.program is before.program:
            yield f"leaves out graph {name}, which the program calls"
    if transform.is_closed:
        yield from _faults_in_closed(before, after)


def _faults_of_graph(before: Graph, after: Graph) -> Iterator[str]:
    for kind in ("name", "inputs", "outputs"):
        if getattr(after, kind) != getattr(before, kind):
            yield f"changes the {kind} of graph {before.name}"
    if after is not before and after.fingerprint == before.fingerprint:
        yield f"changes graph {before.name}, which keeps its fingerprint"


def _faults_of_files(before: Model, after: Model) -> Iterator[str]:
    if after.files in (None, before.files):
        yield "writes no files"
    if after.graphs or not after.why_no_graphs:
        yield "returns graphs, or does not say why there are none"
    if after.program is not before.program:
        yield "changes the program, which weights alone cannot"


def _faults_in_closed(before: Model, after: Model) -> Iterator[str]:
    """Yield changes that are more than quantisation."""
    if after.program is not before.program:
        yield "changes the program, which the closed division forbids"
    if {name: graph.state for name, graph in after.graphs.items()} != {
        name: graph.state for name, graph in before.graphs.items()
    }:
        yield "changes the state of graphs or adds some, which the closed division forbids"
