"""What the exporter writes in many operators and ONNX Runtime has one for, against torch."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from mlbench_onnxruntime.backend import OnnxRuntime
from mlbench_onnxruntime.fusions import fuse_operators

from mlbench import Dim, Precision, TensorSpec
from mlbench.toolkit import ModuleGraph

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

HEADS, SIZE, TOKENS, SEEN, CHANNELS, SIDE = 3, 4, 5, 7, 6, 4
WIDTH = HEADS * SIZE
FUSED = ("BatchNormalization", "Gelu", "MultiHeadAttention")


class Parts(torch.nn.Module):
    """Attends to itself and to others, with a mask and without, and has a GELU and a group norm."""

    def __init__(self) -> None:
        super().__init__()
        self.projections = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(9))
        self.norm = torch.nn.GroupNorm(2, CHANNELS)

    def attend(self, first: int, x, others, mask=None):
        query, keys, values = (
            project(part).unflatten(2, (HEADS, SIZE)).transpose(1, 2)
            for project, part in zip(self.projections[first : first + 3], (x, others, others), strict=True)
        )
        seen = torch.nn.functional.scaled_dot_product_attention(query, keys, values, mask)
        return seen.transpose(1, 2).flatten(2)

    def forward(self, x, others, image):
        mask = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
        x = x + self.attend(0, x, x)
        x = x + self.attend(3, x, others)
        x = x + self.attend(6, x, x, mask)
        return torch.nn.functional.gelu(x), torch.tanh(self.norm(image))


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """Return the parts as a graph, exported once."""
    torch.manual_seed(7)
    module, rows = Parts().eval(), Dim(name="rows", smallest=1, usual=2, largest=8)
    with torch.no_grad():
        module.norm.weight.copy_(torch.randn(CHANNELS))
        module.norm.bias.copy_(torch.randn(CHANNELS))
    shapes = {
        "x": (TOKENS, WIDTH),
        "others": (SEEN, WIDTH),
        "image": (CHANNELS, SIDE, SIDE),
    }
    specs = {name: TensorSpec(name=name, shape=(rows, *shape), dtype="float32") for name, shape in shapes.items()}
    made = ModuleGraph(
        "parts",
        inputs=tuple(specs.values()),
        outputs=tuple(
            TensorSpec(name=name, shape=specs[like].shape, dtype="float32")
            for name, like in (("y", "x"), ("normal", "image"))
        ),
        build=lambda: module,
        fingerprint="parts",
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MLBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        made.onnx()
        yield made


def drawn(graph, rows: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(8)
    return {spec.name: random.standard_normal((rows, *spec.shape[1:]), dtype=np.float32) for spec in graph.inputs}


def counted(model) -> dict[str, int]:
    found = Counter(node.op_type for node in model.graph.node)
    return {kind: found[kind] for kind in FUSED}


@pytest.mark.thorough("exports")
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP16])
@pytest.mark.parametrize("rows", [1, 3])
def test_fused_operators_give_what_torch_gives(graph, rows, precision):
    inputs = drawn(graph, rows)
    with torch.no_grad():
        expected = graph.module()(*map(torch.from_numpy, inputs.values()))
    backend = OnnxRuntime()
    found = backend.with_options(replace(backend.options, threads=1)).compile(graph, precision)(inputs)
    for spec, wanted in zip(graph.outputs, expected, strict=True):
        np.testing.assert_allclose(found[spec.name], wanted, atol=1e-5 if precision is Precision.FP32 else 0.05)


@pytest.mark.thorough("exports")
def test_attention_without_a_mask_gelu_and_group_norm_become_an_operator_each(graph):
    model = onnx.load(graph.onnx())
    assert fuse_operators(model) == 4
    assert counted(model) == {"MultiHeadAttention": 2, "Gelu": 1, "BatchNormalization": 1}


def change_attribute(kind: str, name: str, value):
    def change(model):
        for node in model.graph.node:
            if node.op_type == kind:
                kept = [each for each in node.attribute if each.name != name]
                del node.attribute[:]
                node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])

    return change


def change_constant(kind: str, old: float, new: float):
    def change(model):
        read = {name for node in model.graph.node if node.op_type == kind for name in node.input}
        for tensor in model.graph.initializer:
            if tensor.name in read and np.allclose(onnx.numpy_helper.to_array(tensor), old):
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(new, np.float32), tensor.name))

    return change


def read_twice(kind: str):
    def change(model):
        made = next(node for node in model.graph.node if node.op_type == kind).output[0]
        model.graph.output.append(onnx.helper.make_tensor_value_info(made, onnx.TensorProto.FLOAT, None))

    return change


def interleave_heads(model):
    products = {node.output[0] for node in model.graph.node if node.op_type == "MatMul"}
    for node in model.graph.node:
        if node.op_type == "Transpose" and node.input[0] in products:
            node.attribute[0].ints[:] = [0, 2, 3, 1]


OTHERS = {
    "heads that end interleaved": (interleave_heads, "MultiHeadAttention", 0),
    "softmax over queries": (change_attribute("Softmax", "axis", 2), "MultiHeadAttention", 0),
    "probabilities that are an output": (read_twice("Softmax"), "MultiHeadAttention", 1),
    "heads that change places": (change_attribute("Transpose", "perm", [0, 1, 2, 3]), "MultiHeadAttention", 0),
    "an error function that is an output": (read_twice("Erf"), "Gelu", 0),
    "a third in place of half": (change_constant("Mul", 0.5, 1 / 3), "Gelu", 0),
    "another divisor": (change_constant("Div", 2**0.5, 1.5), "Gelu", 0),
    "a norm that is an output": (read_twice("InstanceNormalization"), "BatchNormalization", 0),
}


@pytest.mark.thorough("exports")
@pytest.mark.parametrize("case", OTHERS)
def test_what_differs_from_the_pattern_is_left_as_it_is(graph, case):
    change, kind, count = OTHERS[case]
    model = onnx.load(graph.onnx())
    change(model)
    fuse_operators(model)
    assert counted(model)[kind] == count
