"""Checks of compiled graphs: the torch module's outputs, at every size, whatever was computed before."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlbench.conformance.comparison import demand_close
from mlbench.conformance.known_answers import LARGEST_BATCH, KnownGraph, Sizes, draw_seed, reference_graphs
from mlbench.conformance.subject import Check, Subject, demand
from mlbench.contracts.graph import Executable, TensorSpec
from mlbench.contracts.precision import Precision
from mlbench.errors import ConformanceError
from mlbench.toolkit import host_array

_UNCALIBRATED = frozenset({Precision.FP32, Precision.BF16, Precision.FP16})
"""Precisions that depend on no calibration set: the others are right for what is in it."""

_REPEATS = 4
_CALLS = 300
_HELD = 40
"""Outputs that are looked at again after later calls: more than a ring of buffers has."""


def outputs_have_the_promised_form(subject: Subject) -> None:
    """A compiled graph returns exactly the outputs of its specs: names, shapes and dtypes, without a NaN."""
    for known in reference_graphs():
        executable = subject.compile(known.graph)
        for sizes in known.sizes:
            outputs = executable(known.inputs(sizes, seed=1))
            for spec in known.graph.outputs:
                if wrong := _wrong_output(outputs, spec, sizes):
                    raise ConformanceError(
                        f"graph {known.graph.name} at {_format_sizes(sizes)}: {wrong}.",
                        hint="Return a mapping from the names in graph.outputs to arrays of their shape and dtype.",
                    )
            extra = sorted(outputs.keys() - {spec.name for spec in known.graph.outputs})
            demand(not extra, f"graph {known.graph.name} returns {extra} too.", "Return the outputs of the specs only.")


def equals_the_module(subject: Subject) -> None:
    """A compiled graph equals its torch module within the graph's tolerance, at all sizes, for new content too."""
    for known in reference_graphs():
        executable = subject.compile(known.graph)
        for number, sizes in enumerate(known.sizes):
            contents = {"": number}
            if subject.precision in _UNCALIBRATED:
                contents[", with new content"] = draw_seed()
            for content, seed in contents.items():
                inputs = known.inputs(sizes, seed=seed)
                where = f"at {_format_sizes(sizes)}{content}"
                _demand_right(subject, known, compute(executable, inputs), inputs, where)


def keeps_rows_apart(subject: Subject) -> None:
    """Each row of a batch gets its own answer, whatever its position in the batch and its neighbours."""
    for known in reference_graphs():
        executable = subject.compile(known.graph)
        inputs = known.inputs(known.sizes[2], seed=2)
        whole = compute(executable, inputs)
        order = np.random.default_rng(2).permutation(len(next(iter(inputs.values()))))
        shuffled = compute(executable, {name: array[order] for name, array in inputs.items()})
        expected = {name: array[order] for name, array in whole.items()}
        demand_close(subject, known.graph, shuffled, expected, "with its rows in another order")
        for row in (0, 5):
            alone = compute(executable, {name: array[row : row + 1] for name, array in inputs.items()})
            expected = {name: array[row : row + 1] for name, array in whole.items()}
            demand_close(subject, known.graph, alone, expected, f"with row {row} alone, not among eight,")


def repeats_its_outputs(subject: Subject) -> None:
    """The same inputs give the same outputs within the graph's tolerance, and others theirs after hundreds of calls."""
    for known in reference_graphs():
        executable = subject.compile(known.graph)
        inputs = known.inputs(known.sizes[1], seed=3)
        first = compute(executable, inputs)
        for call in range(2, _REPEATS + 1):
            demand_close(subject, known.graph, compute(executable, inputs), first, f"on call {call} with equal inputs")
        inputs = known.inputs(known.sizes[2], seed=12)
        expected = known.compute_outputs(inputs)
        for call in range(_REPEATS + 1, _CALLS + 1):
            row = call % LARGEST_BATCH
            outputs = compute(executable, {name: array[row : row + 1] for name, array in inputs.items()})
            right = {name: array[row : row + 1] for name, array in expected.items()}
            demand_close(subject, known.graph, outputs, right, f"on call {call}, each with another row")


def remembers_nothing(subject: Subject) -> None:
    """A call leaves nothing behind for the next: A, then B of another size, then A again give A's outputs twice."""
    for known in reference_graphs():
        executable = subject.compile(known.graph)
        inputs = known.inputs(known.sizes[1], seed=4)
        for sizes in (known.sizes[2], known.sizes[0]):
            compute(executable, known.inputs(sizes, seed=5))
            where = f"after a call at {_format_sizes(sizes)}"
            _demand_right(subject, known, compute(executable, inputs), inputs, where)


def hands_out_fresh_buffers(subject: Subject) -> None:
    """Outputs stay as they are when the graph is called again: no buffer is handed out twice."""
    for known in reference_graphs():
        executable = subject.compile(known.graph)
        held = []
        for call in range(_HELD):
            outputs = executable(known.inputs(known.sizes[1 + call % 2], seed=6 + call))
            held.append((outputs, {name: host_array(array).copy() for name, array in outputs.items()}))
        for outputs, before in held:
            for name, kept in before.items():
                demand(
                    np.array_equal(host_array(outputs[name]), kept, equal_nan=True),
                    f"graph {known.graph.name}: output {name!r} of an earlier call changed in a later one.",
                    "Copy outputs out of buffers that are used again.",
                )


def leaves_inputs_alone(subject: Subject) -> None:
    """A call changes nothing in its input arrays."""
    for known in reference_graphs():
        inputs = known.inputs(known.sizes[1], seed=8)
        before = {name: array.copy() for name, array in inputs.items()}
        subject.compile(known.graph)(inputs)
        for name, array in inputs.items():
            demand(
                np.array_equal(array, before[name]),
                f"graph {known.graph.name}: input {name!r} was changed by the call.",
                "Work on a copy: the caller's arrays belong to the dataset.",
            )


def takes_strided_inputs(subject: Subject) -> None:
    """Inputs may be views with gaps, and come in any order."""
    for known in reference_graphs():
        executable = subject.compile(known.graph)
        inputs = known.inputs(known.sizes[1], seed=9)
        views = {name: np.repeat(array, 2, axis=0)[::2] for name, array in reversed(inputs.items())}
        _demand_right(subject, known, compute(executable, views), inputs, "given views with gaps")


def compiles_independently(subject: Subject) -> None:
    """Two executables of one graph, as two workers have, do not disturb each other, even when one is dropped."""
    for known in reference_graphs():
        first, second = subject.compile(known.graph), subject.compile(known.graph)
        one, other = known.inputs(known.sizes[1], seed=10), known.inputs(known.sizes[2], seed=11)
        for executable, inputs in ((first, one), (second, other), (first, one), (second, one)):
            _demand_right(subject, known, compute(executable, inputs), inputs, "beside a second executable")
        del first, executable
        _demand_right(subject, known, compute(second, other), other, "after another executable was dropped")


def compute(executable: Executable, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Call an executable and return copies of its outputs, as NumPy arrays."""
    return {name: host_array(array).copy() for name, array in executable(inputs).items()}


def _demand_right(
    subject: Subject,
    known: KnownGraph,
    outputs: Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray],
    where: str,
) -> None:
    demand_close(subject, known.graph, outputs, known.compute_outputs(inputs), where)


def _wrong_output(outputs: object, spec: TensorSpec, sizes: Sizes) -> str:
    """Return what is wrong with the form of one output; empty when nothing is."""
    if not isinstance(outputs, Mapping):
        return f"the call returns a {type(outputs).__name__}, expected a mapping"
    if spec.name not in outputs:
        return f"output {spec.name!r} is missing among {list(outputs)}"
    try:
        array = host_array(outputs[spec.name])
    except TypeError as error:
        return f"output {spec.name!r}: {error}"
    shape = spec.concrete_shape(sizes)
    if array.shape != shape:
        return f"output {spec.name!r} has shape {array.shape}, expected {shape}"
    if array.dtype != np.dtype(spec.dtype):
        return f"output {spec.name!r} is {array.dtype}, expected {spec.dtype}"
    return f"NaN in output {spec.name!r}" if np.isnan(array).any() else ""


def _format_sizes(sizes: Sizes) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


GRAPH_CHECKS: tuple[Check, ...] = (
    outputs_have_the_promised_form,
    equals_the_module,
    keeps_rows_apart,
    repeats_its_outputs,
    remembers_nothing,
    hands_out_fresh_buffers,
    leaves_inputs_alone,
    takes_strided_inputs,
    compiles_independently,
)
