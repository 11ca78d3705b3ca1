"""An ONNX file of the user's: its declarations, its tables of embeddings, and its graph."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench import Dim, Executable, Graph, UsageError
from mlbench.toolkit import ModuleGraph, build_once, file_sha256, foreign, onnx_weight_files
from mlbench_own_model.declarations import NO_SHAPE, NOT_A_TENSOR, DeclaredTensor, check_tensors
from mlbench_own_model.model_file import ModelFile
from mlbench_own_model.signature import Signature

if TYPE_CHECKING:
    import onnx

    from mlbench.toolkit import Calibrate

_PASS_ON = {"Cast", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Flatten", "Transpose", "Slice", "Expand"}
"""Operators whose output holds no other ids than their first input."""
_AS_WEIGHT = {"Identity", "Cast", "DequantizeLinear"}
"""Operators whose output is a table of as many rows as their first input."""
_MOST_INSIDE = 1_500_000_000
"""Bytes of weights that one file holds; protobuf's limit is 2 GiB."""


class OnnxModelFile(ModelFile):
    """A model in ONNX."""

    def __init__(self, path: Path) -> None:
        """Read all but the weights.

        Raises:
            UsageError: it is not an ONNX model, or has inputs or outputs that no array can be.
        """
        self.path = path
        model = read_onnx(path)
        constants = {each.name for each in model.graph.initializer}  # older files list them as inputs, too
        self.inputs = tuple(_declared(each) for each in model.graph.input if each.name not in constants)
        self.outputs = tuple(map(_declared, model.graph.output))
        check_tensors(path, self.inputs, "input")
        check_tensors(path, self.outputs, "output")
        self.id_counts = find_id_counts(model, [each.name for each in self.inputs])
        weights = [path.parent / each for each in _weight_files(path)]
        files = [path, *weights]
        self.has_linked_weights = any(each.is_symlink() or each.stat().st_nlink > 1 for each in weights)
        """Whether weights lie in links, as package managers and hubs store them: ONNX Runtime refuses these."""
        self.fingerprint = hashlib.sha256("".join(map(file_sha256, files)).encode()).hexdigest()

    def graph(self, signature: Signature, calibrate: Calibrate) -> Graph:
        """Return the file as it is, with the sizes that the user fixed."""
        return OnnxModelGraph(self, signature, calibrate)

    def noisy_graph(self, signature: Signature, share: float) -> Graph:
        """Return the file with other weights."""
        return OnnxModelGraph(self, signature, lambda: iter(()), noise=share)

    def compile_reference(self, graph: Graph) -> Executable:
        """Return a call of ONNX Runtime without its optimiser."""
        from mlbench_own_model.plain_onnx_runtime import compile_plainly

        return compile_plainly(graph)


class OnnxModelGraph(ModuleGraph):
    """The graph of a user's ONNX file; a torch module is made of it where one is asked for."""

    def __init__(self, file: OnnxModelFile, signature: Signature, calibrate: Calibrate, *, noise: float = 0.0) -> None:
        """Store which file.

        Args:
            file: the user's.
            signature: its shapes.
            calibrate: yields inputs for quantisation.
            noise: share of itself by which each weight is changed at most.
        """
        from mlbench_own_model.torch_module import module_of_onnx

        self._file = file
        self._noise = noise
        self.is_used_once = bool(noise)
        if noise:
            self._folder = Path(tempfile.mkdtemp())
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        super().__init__(
            "model",
            inputs=signature.inputs,
            outputs=signature.outputs,
            build=partial(module_of_onnx, self),
            fingerprint=f"{file.fingerprint} {noise}",
            calibrate=calibrate,
        )

    def onnx(self) -> Path:
        """Return the user's file, or a copy with the sizes that were fixed, and the noise."""
        declared = [each.shape for each in (*self._file.inputs, *self._file.outputs)]
        fixed = [spec.shape for spec in (*self.inputs, *self.outputs)]
        is_as_it_is = not any(map(_is_fixed, declared, fixed)) and not self._file.has_linked_weights
        if is_as_it_is and not self._noise:
            return self._file.path
        shapes = {
            spec.name: [size.name if isinstance(size, Dim) else size for size in spec.shape]
            for spec in (*self.inputs, *self.outputs)
        }
        name = self._file.path.name
        if self._noise:
            self._write(self._folder / name, shapes)
            return self._folder / name
        made_from = {"file": self._file.fingerprint, "name": name, "shapes": shapes}
        return build_once("own_model", made_from, lambda folder: self._write(folder / name, shapes)) / name

    def _write(self, target: Path, shapes: Mapping[str, list[int | str]]) -> None:
        import onnx

        model = read_onnx(self._file.path)
        for value in (*model.graph.input, *model.graph.output):
            for axis, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
                axis.CopyFrom(_axis(size))
        del model.graph.value_info[:]  # shapes of before
        for each in _weight_files(self._file.path):
            (target.parent / each).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._file.path.parent / each, target.parent / each)  # readers refuse links
        if not self._noise:
            onnx.save(model, target)
            return
        onnx.load_external_data_for_model(model, os.fspath(target.parent))
        _add_noise(model.graph, self._noise)
        is_large = sum(len(each.raw_data) for each in model.graph.initializer) > _MOST_INSIDE
        onnx.save(model, target, save_as_external_data=is_large, location=f"{target.name}.data")


def read_onnx(path: Path) -> onnx.ModelProto:
    """Return an ONNX file's model without the weights beside it.

    Raises:
        UsageError: it is none.
    """
    import onnx

    with foreign("model is not an ONNX file:", str(path), hint="Export it anew.", path=path):
        model = onnx.load(path, load_external_data=False)
        if not model.graph.node:
            raise ValueError("it has no operators")
    return model


def _weight_files(path: Path) -> list[str]:
    """Return the files beside an ONNX file that hold its weights.

    Raises:
        UsageError: one is missing.
    """
    found = [os.fspath(each) for each in onnx_weight_files(path)]
    for each in found:
        if not (path.parent / each).is_file():
            raise UsageError(
                f"{path.name} keeps weights in {each!r}, which is not beside it.", hint="Put it where the model is."
            )
    return found


def _declared(value: onnx.ValueInfoProto) -> DeclaredTensor:
    import onnx

    if value.type.WhichOneof("value") != "tensor_type":
        return DeclaredTensor(name=value.name, dtype=NOT_A_TENSOR, shape=())
    tensor = value.type.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    except KeyError:
        dtype = f"type {tensor.elem_type}"
    if not tensor.HasField("shape"):
        dtype = NO_SHAPE
    axes = enumerate(tensor.shape.dim)
    shape = (axis.dim_value or axis.dim_param or f"{value.name}.{at}" for at, axis in axes)
    return DeclaredTensor(name=value.name, dtype=dtype, shape=tuple(shape))


def find_id_counts(model: onnx.ModelProto, inputs: list[str]) -> Mapping[str, int]:
    """Return the rows of the smallest table that each input's numbers are looked up in, as far as the graph tells."""
    rows = {each.name: each.dims[0] for each in model.graph.initializer if each.dims}
    source = {name: name for name in inputs}
    found: dict[str, int] = {}
    for node in model.graph.node:
        first = node.input[0] if node.input else ""
        if node.op_type in _PASS_ON and first in source:
            source[node.output[0]] = source[first]
        elif node.op_type in _AS_WEIGHT and first in rows:
            rows[node.output[0]] = rows[first]
        elif node.op_type == "Gather" and first in rows and node.input[1] in source:
            if not next((each.i for each in node.attribute if each.name == "axis"), 0):
                name = source[node.input[1]]
                found[name] = min(rows[first], found.get(name, rows[first]))
    return found


def _is_fixed(declared: tuple[int | str, ...], shape: tuple[int | Dim, ...]) -> bool:
    pairs = zip(declared, shape, strict=True)
    return any(isinstance(size, str) and isinstance(found, int) for size, found in pairs)


def _axis(size: int | str) -> Any:
    import onnx

    dimension = onnx.TensorShapeProto.Dimension
    return dimension(dim_value=size) if isinstance(size, int) else dimension(dim_param=size)


def _add_noise(graph: onnx.GraphProto, share: float) -> None:
    """Change each weight of floating point type by up to this share of itself."""
    import numpy as np
    from onnx import numpy_helper

    random = np.random.default_rng(0)
    for tensor in _weights(graph):
        values = numpy_helper.to_array(tensor)
        changed = values * (1 + share * random.uniform(-1, 1, values.shape))
        tensor.CopyFrom(numpy_helper.from_array(changed.astype(values.dtype), tensor.name))


def _weights(graph: onnx.GraphProto) -> Iterator[Any]:
    import onnx

    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
    yield from (each for each in graph.initializer if each.data_type in floats)
