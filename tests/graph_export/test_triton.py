"""Triton's configuration of a graph, read by the definition that Triton's own client brings."""

import os
import subprocess

import pytest

from mlbench import Dim, TensorSpec
from mlbench.graph_export.triton import DATA_TYPES, batch_limit, config_text

PYTHON = os.environ.get("MLBENCH_KSERVE_PYTHON", "")
"""A Python that has tritonclient."""

READ = """
import sys
from google.protobuf import json_format, text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig
print(json_format.MessageToJson(text_format.Parse(sys.stdin.read(), ModelConfig()), indent=None))
"""

ROWS = Dim(name="rows", smallest=1, usual=4, largest=64)
OTHERS = Dim(name="others", smallest=1, usual=4, largest=32)


def tensor(*shape, name="x", dtype="float32"):
    return TensorSpec(name=name, shape=shape, dtype=dtype)


@pytest.mark.parametrize(
    ("specs", "limit"),
    [
        ([tensor(ROWS, 3), tensor(ROWS, OTHERS)], 64),
        ([tensor(ROWS, 3), tensor(ROWS)], 0),
        ([tensor(ROWS)], 0),
        ([tensor(ROWS, 3), tensor(OTHERS, 3)], 0),
        ([tensor(ROWS, 3), tensor(4, 3)], 0),
        ([tensor(4, 3)], 0),
    ],
)
def test_requests_are_put_together_only_along_an_axis_that_all_tensors_begin_with(specs, limit):
    assert batch_limit(specs) == limit


def test_without_a_batch_shapes_are_whole():
    text = config_text([tensor(ROWS, 13, name="dense")], [tensor(ROWS, name="logits")], comment="one")
    assert "max_batch_size: 0\n" in text
    assert "dims: [ -1, 13 ]" in text and "dims: [ -1 ]" in text


@pytest.mark.kserve
@pytest.mark.skipif(not PYTHON, reason="nox -s kserve")
def test_tritons_own_definition_reads_names_types_and_shapes():
    import json

    inputs = [tensor(ROWS, 3, OTHERS, name=f"in {name}", dtype=name) for name in DATA_TYPES]
    outputs = [tensor(ROWS, 20, name='quo"ted \\ é')]
    text = config_text(inputs, outputs, comment="two\nlines")
    done = subprocess.run([PYTHON, "-c", READ], input=text, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {
        "backend": "onnxruntime",
        "maxBatchSize": 64,
        "input": [{"name": each.name, "dataType": DATA_TYPES[each.dtype], "dims": ["3", "-1"]} for each in inputs],
        "output": [{"name": 'quo"ted \\ é', "dataType": "TYPE_FP32", "dims": ["20"]}],
    }
