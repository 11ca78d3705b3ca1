import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from mlbench_dlrm_v2 import graphs
from mlbench_dlrm_v2.architecture import Architecture, cap_tables
from mlbench_dlrm_v2.graphs import StateDict, build_network, build_ranker, new_network, random_ranker, weights_file
from mlbench_dlrm_v2.network import Ranker
from safetensors.torch import save_file

from mlbench import DataError, GraphError


@pytest.fixture(params=["joined", "separate"])
def tables(request, monkeypatch):
    """Both forms in which whole tables are kept."""
    if request.param == "separate":
        monkeypatch.setattr(graphs, "LARGEST_JOINED_BYTES", 0)
    return request.param


def test_logits_are_the_references(golden, miniature, tables):
    case = json.loads((golden / "dcn_forward" / "expected.json").read_text())
    network = build_network(miniature.architecture, miniature.source)
    assert type(network.sparse_arch).__name__ == {"joined": "JoinedTables", "separate": "SeparateTables"}[tables]
    np.testing.assert_allclose(miniature.logits(network), case["logits"], atol=case["tolerance"]["logits_abs"])


def test_the_state_dict_has_the_official_names_and_shapes(golden, miniature):
    case = json.loads((golden / "dcn_forward" / "expected.json").read_text())
    network = new_network(miniature.architecture)
    assert {name: list(tensor.shape) for name, tensor in network.state_dict().items()} == case["state_dict"]


def test_the_official_sizes_have_the_official_number_of_parameters():
    dense_part = Ranker(Architecture(), torch.nn.Identity())
    assert sum(tensor.numel() for tensor in dense_part.parameters()) == 16_044_545
    assert Architecture().table_bytes == 4 * 26_135_627_264


def test_a_graph_says_what_goes_in_and_what_comes_out():
    graph = random_ranker(Architecture(table_rows=cap_tables(5)), None)
    (dense, indices), (logits,) = graph.inputs, graph.outputs
    assert (graph.name, dense.name, indices.name, logits.name) == ("ranker", "dense", "indices", "logits")
    assert (dense.shape[1:], indices.shape[1:], logits.shape[1:]) == ((13,), (214,), ())
    assert (dense.dtype, indices.dtype, logits.dtype) == ("float32", "int32", "float32")
    assert dense.shape[0] is indices.shape[0] is logits.shape[0]


def test_graphs_of_other_weights_or_tables_have_other_fingerprints(miniature):
    architecture = miniature.architecture
    shorter = replace(architecture, table_rows=(20, 3, 49, 7))
    made = [
        random_ranker(architecture, None),
        random_ranker(shorter, None),
        build_ranker(architecture, lambda: miniature.source, fingerprint="11", calibrate=None),
        build_ranker(architecture, lambda: miniature.source, fingerprint="22", calibrate=None),
    ]
    assert len({graph.fingerprint for graph in made}) == 4


def test_a_missing_tensor_and_one_of_another_shape_are_named(miniature):
    name = "inter_arch.crossnet.bias.1"
    without = StateDict({key: value for key, value in miniature.state.items() if key != name}, Path("w.safetensors"))
    with pytest.raises(DataError, match=rf"weights file lacks {name}: w\.safetensors"):
        build_network(miniature.architecture, without)
    other = replace(miniature.architecture, table_rows=(20, 3, 51, 7))
    with pytest.raises(DataError, match=r"t_cat_2\.weight is \(50, 8\), not \(51, 8\)"):
        build_network(other, miniature.source)


def test_weights_with_another_checksum_are_refused(miniature, tmp_path):
    save_file(miniature.state, tmp_path / "weights.safetensors")
    source = partial(weights_file, tmp_path / "weights.safetensors", sha256="0" * 64)
    graph = build_ranker(miniature.architecture, source, fingerprint="", calibrate=None)
    with pytest.raises(DataError, match=r"corrupt or another version: .*weights\.safetensors"):
        graph.module()


def test_tables_that_are_too_large_have_no_onnx_form(miniature, monkeypatch):
    source, architecture = miniature.source, miniature.architecture
    monkeypatch.setattr(graphs, "LARGEST_ONNX_BYTES", architecture.table_bytes - 1)
    trained = build_ranker(architecture, lambda: source, fingerprint="", calibrate=None)
    for graph in (trained, random_ranker(architecture, None)):
        with pytest.raises(GraphError, match=r"graph ranker: .* have no ONNX form"):
            graph.onnx()


@pytest.mark.thorough("exports")
def test_the_exported_file_sums_by_gathering_and_is_the_same_function_for_all_numbers_of_rows(miniature, tables):
    graph = build_ranker(miniature.architecture, lambda: miniature.source, fingerprint=tables, calibrate=None)
    operators = {node.op_type for node in onnx.load(graph.onnx()).graph.node}
    assert {"Gather", "ReduceSum"} <= operators
    assert not operators & {"Loop", "Scan", "If"}
    session = onnxruntime.InferenceSession(graph.onnx(), providers=["CPUExecutionProvider"])
    network = graph.module()
    for rows in (1, 11, 700):
        inputs = {name: np.resize(array, (rows, *array.shape[1:])) for name, array in miniature.inputs.items()}
        (logits,) = session.run(["logits"], inputs)
        with torch.inference_mode():
            expected = network(*map(torch.from_numpy, inputs.values()))
        np.testing.assert_allclose(logits, expected, atol=1e-6)
