"""Attention of exported decode graphs as one operator, against attention spelled out over lists."""

from dataclasses import replace

import numpy as np
import pytest
from mlbench_onnxruntime.attention import with_fused_attention
from mlbench_onnxruntime.backend import OnnxRuntime

from mlbench import DECODE, PREFILL, Dim, Precision, TensorSpec
from mlbench.toolkit import ModuleGraph

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.thorough("exports")  # the exporter takes seconds

HEADS, SHARING, SIZE, SCALE = 2, 3, 8, 0.4
WINDOW = 4
KINDS = ("scaled query", "divided", "window")


class Attend(torch.nn.Module):
    """Stores new keys, and twice them as values, and attends with queries that are made of them."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, new, positions, columns, keys, values):
        from mlbench.toolkit.language.decoder_modules import SlotCache, attention

        rows, span = new.shape[0], columns.shape[0]
        cache = SlotCache((keys, values), torch.arange(rows), positions[:, None], lambda part: part[:rows, :, :span])
        is_hidden = columns[None, None, None, :] > positions[:, None, None, None]
        if self.kind == "window":
            is_hidden |= columns[None, None, None, :] <= positions[:, None, None, None] - WINDOW
        mask = torch.zeros(is_hidden.shape).masked_fill(is_hidden, torch.finfo(torch.float32).min)
        query = torch.stack([new, -new, 3 * new], dim=2).flatten(1, 2)
        stored = cache.update(new, 2 * new, 0)
        if self.kind == "divided":  # as GPT-J does
            products = query.unflatten(1, (HEADS, SHARING)).squeeze(3) @ stored[0].transpose(2, 3)
            seen = torch.softmax(products / (1 / SCALE) + mask, -1) @ stored[1]
            return seen.flatten(1, 2), keys, values
        seen, _ = attention(self, query, *stored, mask, scaling=SCALE)
        return seen[:, 0], keys, values


def decode_graph(kind: str) -> ModuleGraph:
    rows, slots, length, span = (
        Dim(name=name, smallest=1, usual=4, largest=64) for name in ("rows", "slots", "length", "span")
    )
    state = (slots, HEADS, length, SIZE)
    return ModuleGraph(
        DECODE,
        inputs=(
            TensorSpec(name="new", shape=(rows, HEADS, 1, SIZE), dtype="float32"),
            TensorSpec(name="positions", shape=(rows,), dtype="int64"),
            TensorSpec(name="columns", shape=(span,), dtype="int64"),
        ),
        outputs=(TensorSpec(name="seen", shape=(rows, HEADS * SHARING, SIZE), dtype="float32"),),
        state=tuple(TensorSpec(name=name, shape=state, dtype="float32") for name in ("keys", "values")),
        build=lambda: Attend(kind),
        fingerprint=kind,
    )


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """Return two graphs that attend to all tokens, and one with a window, exported once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MLBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        graphs = {kind: decode_graph(kind) for kind in KINDS}
        for graph in graphs.values():
            graph.onnx()
        yield graphs


def attended(history: list[np.ndarray], head: int, factor: float) -> np.ndarray:
    """Return what a query, a factor times the last token's key, sees of a row's tokens."""
    keys = np.array([token[head // SHARING, 0] for token in history], np.float64)
    weights = np.exp(SCALE * factor * keys @ keys[-1])
    return weights @ (2 * keys) / weights.sum()


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_attends_to_its_own_tokens_whatever_lies_behind_them(graphs, kind):
    backend = OnnxRuntime()
    executable = backend.with_options(replace(backend.options, threads=1)).compile(graphs[kind], Precision.FP32)
    state = executable.new_state({"slots": 5, "length": 32})
    for array in state.arrays.values():
        array.fill(9)  # what the last sequences left
    memory = {name: value.data_ptr() for name, value in state.values.items()}
    random = np.random.default_rng(4)
    histories: list[list[np.ndarray]] = [[] for _ in range(4)]
    for rows, span in ((1, 1), (1, 32), (3, 16), (4, 16), (2, 8), (4, 7)):
        new = random.standard_normal((rows, HEADS, 1, SIZE), dtype=np.float32)
        positions = np.array([len(history) for history in histories[:rows]])
        seen = executable({"new": new, "positions": positions, "columns": np.arange(span)}, state)["seen"]
        for row in range(rows):
            histories[row].append(new[row])
            for head in range(HEADS * SHARING):
                tokens = histories[row][-WINDOW:] if kind == "window" else histories[row]
                expected = attended(tokens, head, (1, -1, 3)[head % SHARING])
                np.testing.assert_allclose(seen[row, head], expected, atol=1e-5)
    for row, history in enumerate(histories):
        np.testing.assert_array_equal(state.arrays["keys"][row, :, : len(history)], np.concatenate(history, axis=1))
        assert (state.arrays["values"][row, :, len(history) :] == 9).all()
    assert (state.arrays["keys"][4] == 9).all()
    assert {name: value.data_ptr() for name, value in state.values.items()} == memory


def test_what_sees_all_tokens_before_it_is_fused_and_a_window_is_left_as_it_is(graphs):
    changed = {kind: with_fused_attention(graph.onnx(), graph) != graph.onnx() for kind, graph in graphs.items()}
    assert changed == {"scaled query": True, "divided": True, "window": False}


@pytest.fixture
def beside(graphs, tmp_path, monkeypatch):
    """Return a function that gives one decode graph's file a weight beside it, as a file above 1.5 GiB has."""
    onnx = pytest.importorskip("onnx")
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    exported = graphs["scaled query"].onnx()

    def made(factor: float) -> ModuleGraph:
        model = onnx.load(exported)
        for node in model.graph.node:
            node.input[:] = ["weighted" if name == "new" else name for name in node.input]
        model.graph.node.insert(0, onnx.helper.make_node("Mul", ["new", "weight"], ["weighted"], name="weighted"))
        weight = np.full((1, HEADS, 1, SIZE), factor, np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "weight"))
        file = tmp_path / str(factor) / "decode.onnx"
        file.parent.mkdir()
        onnx.external_data_helper.set_external_data(model.graph.initializer[-1], "weight.data")
        onnx.save(model, file)
        graph = decode_graph("scaled query")
        graph._fingerprint = f"weight {factor}"
        graph.onnx = lambda: file
        return graph

    return made


def test_a_fused_graph_has_the_weights_of_its_own_checkpoint(beside):
    backend, new = OnnxRuntime(), np.ones((1, HEADS, 1, SIZE), np.float32)
    checkpoints = [beside(1.0), beside(3.0)]
    assert checkpoints[0].onnx().read_bytes() == checkpoints[1].onnx().read_bytes()
    for graph, factor in zip(checkpoints, (1, 3), strict=True):
        assert with_fused_attention(graph.onnx(), graph) != graph.onnx()
        executable = backend.with_options(replace(backend.options, threads=1)).compile(graph, Precision.FP32)
        state = executable.new_state({"slots": 2, "length": 8})
        seen = executable({"new": new, "positions": np.array([0]), "columns": np.arange(1)}, state)["seen"]
        np.testing.assert_allclose(seen, np.full((1, HEADS * SHARING, SIZE), 2 * factor))  # values are twice the keys


def test_a_graph_of_another_name_is_left_as_it_is(graphs):
    graph = decode_graph("divided")
    graph.name = PREFILL
    file = graphs["divided"].onnx()
    assert with_fused_attention(file, graph) == file
