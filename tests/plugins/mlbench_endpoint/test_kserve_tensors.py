"""Requests and answers of KServe's protocol; the examples are the specification's own, with its own bytes and sizes."""

import io
import json

import numpy as np
import pytest
from mlbench_endpoint.client.connection import Body
from mlbench_endpoint.client.failure import RequestFailed
from mlbench_endpoint.kserve.tensors import JSON_SIZE, Expected, encode_request, read_answer

EXAMPLE_INPUTS = {"input0": np.array([[1, 2], [3, 4]], np.uint32), "input1": np.array([True])}
"""Of the protocol's inference example, and of the binary data extension's."""

WANTED = [Expected(name="output0", dtype="float32", shape=(3, 2)), Expected(name="flag", dtype="bool", shape=(None,))]
VALUES = [1.0, 1.1, 2.0, 2.1, 3.0, 3.1]


class Response:
    """An HTTP response as `http.client` gives it: headers, and a body."""

    def __init__(self, body, headers):
        self._body, self.headers = io.BytesIO(body), headers

    def readinto(self, buffer):
        return self._body.readinto(buffer)

    def read(self, most):
        return self._body.read(most)


def read(fields, following=b"", *, wanted=WANTED, size=None):
    text = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    headers = {JSON_SIZE: size or str(len(text))} if following or size else {}
    return read_answer(Body(Response(text + following, headers)), wanted, number="42", model="mymodel")


def answer(*, output=None, flag=None, **more):
    """Return the specification's answer, and another output beside it."""
    return {
        "id": "42",
        "model_name": "mymodel",
        "model_version": "1",
        "outputs": [
            {"name": "output0", "shape": [3, 2], "datatype": "FP32", "data": VALUES} | (output or {}),
            {"name": "flag", "shape": [1], "datatype": "BOOL", "data": [True]} | (flag or {}),
        ],
        **more,
    }


def test_numbers_go_row_by_row_into_the_json_of_the_specifications_example():
    request = encode_request(EXAMPLE_INPUTS, ["output0"], number="42", is_binary=False)
    (text,) = request.body
    assert json.loads(text) == {
        "id": "42",
        "inputs": [
            {"name": "input0", "shape": [2, 2], "datatype": "UINT32", "data": [1, 2, 3, 4]},
            {"name": "input1", "shape": [1], "datatype": "BOOL", "data": [True]},
        ],
        "outputs": [{"name": "output0"}],
    }
    assert request.headers == {"Content-Type": "application/json"}


def test_bytes_follow_the_json_as_in_the_extensions_example():
    request = encode_request(EXAMPLE_INPUTS, ["output0"], number="42", is_binary=True)
    text, *tensors = map(bytes, request.body)
    assert json.loads(text) == {
        "id": "42",
        "inputs": [
            {"name": "input0", "shape": [2, 2], "datatype": "UINT32", "parameters": {"binary_data_size": 16}},
            {"name": "input1", "shape": [1], "datatype": "BOOL", "parameters": {"binary_data_size": 1}},
        ],
        "outputs": [{"name": "output0", "parameters": {"binary_data": True}}],
    }
    assert tensors == [bytes.fromhex("01000000020000000300000004000000"), b"\x01"]
    assert request.headers[JSON_SIZE] == str(len(text))


def test_arrays_of_any_layout_are_sent_row_by_row():
    turned = np.arange(6, dtype=">i4").reshape(2, 3).T
    _, tensor = map(bytes, encode_request({"x": turned}, [], number="0", is_binary=True).body)
    assert np.frombuffer(tensor, "<i4").tolist() == [0, 3, 1, 4, 2, 5]
    (text,) = encode_request({"x": turned}, [], number="0", is_binary=False).body
    assert json.loads(text)["inputs"][0]["data"] == [0, 3, 1, 4, 2, 5]


def test_float32_survives_json_to_the_last_bit():
    values = np.random.default_rng(1).standard_normal(500).astype(np.float32)
    (text,) = encode_request({"x": values}, [], number="0", is_binary=False).body
    sent = json.loads(text)["inputs"][0]["data"]
    fields = {"outputs": [{"name": "x", "shape": [500], "datatype": "FP32", "data": sent}]}
    found = read(fields, wanted=[Expected(name="x", dtype="float32", shape=(500,))])
    assert found["x"].tobytes() == values.tobytes()


def test_what_json_cannot_say_is_not_sent():
    with pytest.raises(ValueError, match="JSON"):
        encode_request({"x": np.array([np.nan], np.float32)}, [], number="0", is_binary=False)


@pytest.mark.parametrize("data", [VALUES, [[1.0, 1.1], [2.0, 2.1], [3.0, 3.1]]])
def test_numbers_of_an_answer_may_be_flat_or_nested(data):
    found = read(answer(output={"data": data}))
    np.testing.assert_array_equal(found["output0"], np.array(VALUES, np.float32).reshape(3, 2))
    assert found["output0"].dtype == np.float32
    assert found["flag"].tolist() == [True]


def test_bytes_and_numbers_may_come_in_one_answer_and_are_the_callers_own():
    data = np.array(VALUES, "<f4").tobytes()
    fields = answer(output={"parameters": {"binary_data_size": 24}})
    del fields["outputs"][0]["data"]
    found = read(fields, data)
    np.testing.assert_array_equal(found["output0"], np.array(VALUES, np.float32).reshape(3, 2))
    assert found["output0"].flags.writeable and found["output0"].flags.owndata
    assert found["flag"].tolist() == [True]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (answer(id="41"), "answered with id '41', not '42'"),
        (answer(model_name="other"), "model_name 'other'"),
        (answer(output={"name": "output9"}), "an output 'output9' that was not requested"),
        (answer(flag={"name": "output0"}), "or is there twice"),
        ({"outputs": answer()["outputs"][:1]}, "lacks flag"),
        (answer(output={"shape": [2, 3]}), r"output0 as FP32 \[2, 3\], not as FP32 \[3, 2\]"),
        (answer(output={"shape": "3x2"}), "as FP32 3x2"),
        (answer(output={"shape": [3, 2, -1]}), "as FP32"),
        (answer(output={"datatype": "FP64"}), "as FP64"),
        (answer(output={"data": VALUES[:5]}), "not 6 numbers of float32"),
        (answer(output={"data": [[1.0], [1.0, 2.0]]}), "not 6 numbers"),
        (answer(output={"data": [*VALUES[:5], None]}), "not 6 numbers"),
        (answer(output={"data": ["1"] * 6}), "not 6 numbers"),
        (answer(output={"data": "123456"}), "not 6 numbers"),
        (answer(flag={"data": [1]}), "not 1 numbers of bool"),
        (answer(output={"parameters": {"binary_data_size": 24}}), "24 bytes of output0, not 24, without Inference"),
        (answer(output={"parameters": [24]}), "parameters are no object"),
        ({"outputs": {}}, "has no outputs"),
        ({"outputs": [1]}, "has no outputs"),
        (b"[1]", "not an object"),
        (b"{", "invalid JSON"),
        (b"\xff", "invalid JSON"),
        (b"[" * 100_000, "invalid JSON"),
        (b" " * (2 << 20), "more than"),
    ],
)
def test_an_answer_of_another_form_is_refused_with_what_is_wrong(fields, reason):
    with pytest.raises(RequestFailed, match=reason):
        read(fields)


@pytest.mark.parametrize(
    ("size", "following", "reason"),
    [
        (24, bytes(23), "ends 1 bytes early"),
        (24, bytes(25), "1 bytes more than its tensors"),
        (20, bytes(24), "20 bytes of output0, not 24"),
        (True, bytes(24), "True bytes of output0"),
        (1 << 60, bytes(24), "1152921504606846976 bytes of output0, not 24"),
    ],
)
def test_tensors_of_other_sizes_than_they_should_have_are_refused(size, following, reason):
    with pytest.raises(RequestFailed, match=reason):
        read(answer(output={"parameters": {"binary_data_size": size}}), following)


@pytest.mark.parametrize("size", ["many", "-1", "²", "9" * 30])
def test_a_size_of_the_json_that_is_none_is_refused(size):
    with pytest.raises(RequestFailed, match=JSON_SIZE):
        read(answer(), b"x", size=size)


@pytest.mark.parametrize("data", [[1.5, 2.0], [2**40, 1], [-(2**31) - 1, 0]])
def test_integers_are_neither_rounded_nor_wrapped(data):
    fields = {"outputs": [{"name": "n", "shape": [2], "datatype": "INT32", "data": data}]}
    with pytest.raises(RequestFailed, match="not 2 numbers of int32"):
        read(fields, wanted=[Expected(name="n", dtype="int32", shape=(2,))])
