"""A torch exported program of the user's (.pt2): its declarations, its tables of embeddings, and its graph.

torch reads such a file with pickle: it can run code, so only the user's own word names one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from mlbench import Executable, Graph
from mlbench.toolkit import Calibrate, ModuleGraph, file_sha256, foreign
from mlbench_own_model.declarations import DeclaredTensor, check_tensors
from mlbench_own_model.model_file import ModelFile
from mlbench_own_model.plain_torch import compile_in_torch
from mlbench_own_model.signature import LARGEST_SIZE, Signature

_LOOK_UP = torch.ops.aten.embedding.default
_PASS_ON = ("view", "reshape", "unsqueeze", "squeeze", "slice", "expand", "clone", "_to_copy", "to", "contiguous")
"""Operators whose output holds no other ids than their first input."""


class ExportedModelFile(ModelFile):
    """A torch exported program."""

    def __init__(self, path: Path) -> None:
        """Load the program.

        Raises:
            DataError: it is none, or another version of torch wrote it.
            UsageError: it has inputs or outputs that are no tensors.
        """
        self.path = path
        hint = "Write it with torch.export.save, with the version of torch that is installed here."
        with foreign("model is not a torch exported program:", str(path), hint=hint, path=path):
            self.program = torch.export.load(path)
        values = {node.name: node.meta.get("val") for node in self.program.graph.nodes}
        signature = self.program.graph_signature
        self.inputs = tuple(_declare(name, values[name]) for name in signature.user_inputs if isinstance(name, str))
        made = [each for each in signature.user_outputs if isinstance(each, str)]
        names = _output_names(self.program, made)
        self.outputs = tuple(_declare(name, values[each]) for name, each in zip(names, made, strict=True))
        check_tensors(path, self.inputs, "input")
        check_tensors(path, self.outputs, "output")
        self.id_counts = find_id_counts(self.program, values)
        self.ranges = {str(each): _limits(found) for each, found in self.program.range_constraints.items()}
        self.fingerprint = file_sha256(path)

    def graph(self, signature: Signature, calibrate: Calibrate) -> Graph:
        """Return the program as a module."""
        return self._graph(signature, 0.0, calibrate)

    def noisy_graph(self, signature: Signature, share: float) -> Graph:
        """Return the program with other weights."""
        return self._graph(signature, share, lambda: iter(()))

    def compile_reference(self, graph: Graph) -> Executable:
        """Return a call of the program, eagerly."""
        return compile_in_torch(graph)

    def _graph(self, signature: Signature, noise: float, calibrate: Calibrate) -> Graph:
        return ModuleGraph(
            "model",
            inputs=signature.inputs,
            outputs=signature.outputs,
            build=partial(build_module, self.path, noise),
            fingerprint=f"{self.fingerprint} {noise}",
            calibrate=calibrate,
        )


class ProgramModule(torch.nn.Module):
    """A program that takes its inputs one by one, and returns its outputs as a tuple, or the only one."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self._spec = program.call_spec.in_spec
        self.program = program.module()

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Call the program as it was exported."""
        arguments, named = pytree.tree_unflatten(inputs, self._spec)
        outputs = pytree.tree_leaves(self.program(*arguments, **named))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def train(self, mode: bool = True) -> ProgramModule:
        """Return it as it is: a program was exported for training or not."""
        return self


def build_module(path: Path, noise: float) -> torch.nn.Module:
    """Return a file's program, each weight changed by up to a share of itself."""
    module = ProgramModule(torch.export.load(path))
    if noise:
        random = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in [each for each in (*module.parameters(), *module.buffers()) if each.is_floating_point()]:
                weight.mul_(1 + noise * (2 * torch.rand(weight.shape, generator=random) - 1).to(weight.dtype))
    return module


def _declare(name: str, value: Any) -> DeclaredTensor:
    if not isinstance(value, torch.Tensor):
        return DeclaredTensor(name=name, dtype=f"a {type(value).__name__}", shape=())
    shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
    return DeclaredTensor(name=name, dtype=str(value.dtype).removeprefix("torch."), shape=shape)


def _output_names(program: ExportedProgram, made: list[str]) -> list[str]:
    """Return the keys of the outputs where the program returns a dictionary, else the names of what makes them."""
    spec = program.call_spec.out_spec
    keys = list(spec.context) if spec is not None and spec.type is dict else []
    return [str(key) for key in keys] if len(keys) == len(made) else made


def _limits(found: Any) -> tuple[int, int | None]:
    """Return the smallest and the largest size; None: there is no largest."""
    return int(found.lower), int(found.upper) if found.upper < LARGEST_SIZE else None


def find_id_counts(program: ExportedProgram, values: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the rows of the smallest table that each input's numbers are looked up in, as far as the graph tells."""
    kinds = {each.arg.name: each.kind for each in program.graph_signature.input_specs if hasattr(each.arg, "name")}
    source = {name: name for name, kind in kinds.items() if kind is InputKind.USER_INPUT}
    found: dict[str, int] = {}
    for node in program.graph.nodes:
        names = [each.name for each in node.args if isinstance(each, torch.fx.Node)]
        if node.target is _LOOK_UP and names[1] in source:
            name, rows = source[names[1]], values[names[0]].shape[0]
            found[name] = min(rows, found.get(name, rows))
        elif names and names[0] in source and getattr(node.target, "__name__", "").partition(".")[0] in _PASS_ON:
            source[node.name] = source[names[0]]
    return found
