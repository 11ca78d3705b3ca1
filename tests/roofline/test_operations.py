"""Counts of operations and bytes, held against counts by hand."""

import re

import pytest

torch = pytest.importorskip("torch")

from mlbench import Dim, GraphCalls, GraphError, TensorSpec  # noqa: E402 - torch may be missing
from mlbench.roofline.call_costs import NotCountedError  # noqa: E402
from mlbench.roofline.operations import OperationCounter  # noqa: E402
from mlbench.toolkit import ModuleGraph  # noqa: E402

ROWS = Dim(name="rows", smallest=1, usual=2, largest=8)


def a_graph(module, *inputs, state=(), outputs=1):
    """Return a graph of a module, whose inputs are (name, dtype)."""
    return ModuleGraph(
        "graph",
        inputs=tuple(TensorSpec(name=name, shape=(ROWS,), dtype=dtype) for name, dtype in inputs),
        outputs=tuple(TensorSpec(name=f"y{number}", shape=(ROWS,), dtype="float32") for number in range(outputs)),
        state=state,
        build=lambda: module,
        fingerprint="test",
    )


def cost(module, shapes, *, state=(), **dtypes):
    names = [(name, dtypes.get(name, "float32")) for name in shapes]
    return OperationCounter(a_graph(module, *names, state=state)).cost(
        GraphCalls(graph="graph", shapes=shapes, state_sizes={"slots": 1000}, count=1)
    )


def test_a_convolution():
    """Two images 3 x 8 x 8, five filters 3 x 3, no border: five maps of 6 x 6."""
    found = cost(torch.nn.Conv2d(3, 5, 3), {"x": (2, 3, 8, 8)})
    assert found.operations == 2 * (2 * 5 * 6 * 6) * (3 * 3 * 3)  # every output number: 27 products, 27 additions
    assert found.numbers == 5 * 3 * 3 * 3 + 5  # filters and biases
    assert found.other_bytes == 4 * (2 * 3 * 8 * 8) + 4 * (2 * 5 * 6 * 6)  # image in, maps out


class Attention(torch.nn.Module):
    """Multi-head attention written out, as in its paper."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.projections = torch.nn.ModuleList(torch.nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        rows, tokens, width = x.shape
        q, k, v = (p(x).view(rows, tokens, self.heads, -1).transpose(1, 2) for p in self.projections[:3])
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.projections[3](mixed.transpose(1, 2).reshape(rows, tokens, width))


def test_an_attention_layer():
    """Three sequences of ten tokens of width 16, in four heads of four."""
    found = cost(Attention(16, 4), {"x": (3, 10, 16)})
    projections = 4 * 2 * (3 * 10) * 16 * 16  # queries, keys, values, output
    scores = 2 * 3 * 4 * 10 * 10 * 4  # each of 4 heads: 10 x 10 dot products of length 4
    mixing = 2 * 3 * 4 * 10 * 10 * 4  # each token: ten values of length 4
    assert found.operations == projections + scores + mixing
    assert found.numbers == 4 * 16 * 16
    assert found.other_bytes == 4 * (3 * 10 * 16) + 4 * (3 * 10 * 16)


def test_a_sum_of_embeddings_reads_the_rows_it_names_and_no_others():
    """Four bags of three rows, from a table of a million rows of five."""
    found = cost(torch.nn.EmbeddingBag(10**6, 5, mode="sum"), {"rows": (4, 3)}, rows="int64")
    assert found.operations == 4 * (3 - 1) * 5  # two additions for each number of a sum
    assert found.numbers == 4 * 3 * 5
    assert found.other_bytes == 8 * (4 * 3) + 4 * (4 * 5)


def test_a_look_up_reads_the_rows_it_names_and_at_most_the_table():
    assert cost(torch.nn.Embedding(100, 5), {"x": (4,)}, x="int64").numbers == 4 * 5
    assert cost(torch.nn.Embedding(3, 5), {"x": (400,)}, x="int64").numbers == 3 * 5


def test_a_weight_that_is_used_twice_is_read_once():
    linear = torch.nn.Linear(6, 6, bias=False)
    found = cost(torch.nn.Sequential(linear, linear), {"x": (2, 6)})
    assert (found.operations, found.numbers) == (2 * 2 * 2 * 6 * 6, 36)


class Cached(torch.nn.Module):
    """Writes a row into a cache, and multiplies with the part that is looked at."""

    def forward(self, x, columns, cache):
        cache.index_put_((columns[:1],), x)
        return x @ cache[: columns.shape[0]].t(), cache


def test_of_a_cache_the_part_that_is_looked_at_counts():
    """A cache of 1000 rows of 8: one is written, of 20 the products are taken."""
    slots = Dim(name="slots", smallest=1, usual=1, largest=1000)
    cache = TensorSpec(name="cache", shape=(slots, 8), dtype="float32")
    found = cost(Cached(), {"x": (1, 8), "columns": (20,)}, state=(cache,), columns="int64")
    assert found.operations == 2 * 20 * 8
    assert found.numbers == 8 + 20 * 8
    assert found.other_bytes == 4 * 8 + 8 + 4 * 20  # x, which counts once though it is used twice; a column; products


def test_numbers_take_the_bytes_of_their_precision():
    found = cost(torch.nn.Linear(8, 16, bias=False), {"x": (1, 8)})
    assert found.bytes_at(2) == 2 * 8 * 16 + 4 * 8 + 4 * 16


class Grouped(torch.nn.Module):
    def forward(self, x):
        return torch.mv(x, x[0])


def test_a_product_without_a_formula_is_named_with_the_torch_it_came_from():
    with pytest.raises(
        NotCountedError,
        match=rf"no formula for the operator mv of torch {re.escape(torch.__version__)} \(checked with 2\.",
    ):
        cost(Grouped(), {"x": (4, 4)})


class Choosing(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_a_module_that_depends_on_numbers_is_said_to_be_uncountable():
    with pytest.raises(NotCountedError, match="graph graph: "):
        cost(Choosing(), {"x": (4,)})


def test_a_graph_without_a_module_is_said_to_have_none():
    def refuse():
        raise GraphError("the official ONNX checkpoint has no torch module.")

    graph = ModuleGraph("g", inputs=(), outputs=(), build=refuse, fingerprint="g")
    with pytest.raises(NotCountedError, match="no torch module"):
        OperationCounter(graph)
