"""The bytes that go into graphs and come out of them."""

from mlbench import Dim, Model, TensorSpec
from mlbench.contracts.engine import GraphCalls
from mlbench.measurement.transfers import transfers_of
from mlbench.toolkit import ModuleGraph

BATCH = Dim(name="batch", smallest=1, usual=4, largest=8)
FOUND = Dim(name="found", smallest=1, usual=2, largest=9)


def model_of(**rows):
    """Return graphs whose row takes 3 float32 in, and gives 8 uint8 out for each of so many rows."""
    graphs = {
        name: ModuleGraph(
            name,
            inputs=(TensorSpec(name="x", shape=(BATCH, 3), dtype="float32"),),
            outputs=(TensorSpec(name="y", shape=(dim, 8), dtype="uint8"),),
            build=dict,
            fingerprint=name,
        )
        for name, dim in rows.items()
    }
    return Model(name="m", graphs=graphs, program=None, weights_fingerprint="none")


def calls(graph, batch, count):
    return GraphCalls(graph=graph, shapes={"x": (batch, 3)}, count=count)


def test_bytes_of_all_calls_are_shared_among_the_samples():
    """Two batches of 4 and one of 2: 10 rows of 12 bytes in and 8 out, in 3 calls, for 5 samples."""
    found = transfers_of([calls("encoder", 4, 2), calls("encoder", 2, 1)], model_of(encoder=BATCH), samples=5)
    (encoder,) = found.graphs
    assert (encoder.graph, encoder.calls, encoder.input_bytes, encoder.output_bytes) == ("encoder", 3, 120, 80)
    assert (found.calls_per_sample, found.bytes_per_sample) == (0.6, 40.0)


def test_each_graph_has_its_own_in_the_order_of_its_first_call():
    several = [calls("decoder", 1, 7), calls("encoder", 4, 1), calls("decoder", 2, 3)]
    found = transfers_of(several, model_of(encoder=BATCH, decoder=BATCH), samples=1)
    assert [(each.graph, each.calls, each.input_bytes) for each in found.graphs] == [
        ("decoder", 10, 13 * 12),
        ("encoder", 1, 4 * 12),
    ]


def test_where_the_data_decides_the_rows_that_come_out_they_are_unknown_and_so_is_the_sum():
    found = transfers_of([calls("finder", 4, 1)], model_of(finder=FOUND), samples=4)
    assert (found.graphs[0].input_bytes, found.graphs[0].output_bytes) == (48, None)
    assert (found.calls_per_sample, found.bytes_per_sample) == (0.25, None)


def test_an_engine_that_counts_no_calls_has_no_transfers():
    assert transfers_of([], model_of(encoder=BATCH), samples=4) is None
