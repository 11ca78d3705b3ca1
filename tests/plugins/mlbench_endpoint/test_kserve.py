"""The endpoint backend with KServe's protocol, in front of a server on loopback that computes with ONNX Runtime."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.kserve.protocol import difference
from mlbench_endpoint.options import EndpointOptions

from mlbench import EnginePlan, Model, Samples, UnavailableError, UsageError
from mlbench.conformance import EngineConformance
from mlbench.conformance.known_answers import TokenLists, reference_scores, scoring_model, token_graph
from mlbench.conformance.known_generation import generating_model
from mlbench.conformance.recording import RecordingReply
from mlbench.contracts.precision import Precision

pytest.importorskip("onnxruntime")
graph_server = pytest.importorskip("graph_server")

PATIENCE_S = 60
EVERYTHING = range(TokenLists().count)


@pytest.fixture(scope="module")
def file():
    return token_graph().graph.onnx()


@pytest.fixture
def server(file):
    with graph_server.serving({"tokens": file}) as server:
        yield server


def backend(server, **options):
    return Endpoint().with_options(EndpointOptions(protocol="kserve", url=server.url, **options))


@contextmanager
def opened(made, *, batch=4, workers=1, is_warm=True):
    """Give an engine of a backend for the kit's model, and all samples."""
    data = TokenLists()
    data.load(EVERYTHING)
    samples = Samples(list(EVERYTHING), list(EVERYTHING), data)
    plan = EnginePlan(batching="dynamic", batch=batch, workers=workers)
    with made.engine(scoring_model(), plan) as engine:
        if is_warm:
            engine.warm_up(samples)
        yield engine, samples


def answered(engine, samples):
    reply = RecordingReply()
    engine.submit(samples, reply)
    engine.flush()
    assert reply.wait(samples, PATIENCE_S)
    return reply


@pytest.mark.parametrize("tensors", ["auto", "json"])
def test_answers_are_those_of_the_graph_whether_tensors_are_bytes_or_numbers(server, tensors):
    made = backend(server, tensors=tensors)
    with opened(made) as (engine, samples):
        reply = answered(engine, samples)
    assert not reply.failures
    scores = np.stack([reply.answers[index][0] for index in EVERYTHING])
    np.testing.assert_allclose(scores, reference_scores(), rtol=1e-4, atol=1e-4)
    assert server.binary == (server.requests if tensors == "auto" else 0)
    assert made.observe().extra["served"] == {
        "servers": {server.url: "graph_server 1"},
        "models": {"tokens": "tokens"},
        "tensors": "binary" if tensors == "auto" else "json",
        "requests": server.requests,
        "retried": 0,
    }


@pytest.mark.parametrize(("tensors", "is_binary"), [("auto", False), ("binary", True)])
def test_a_server_that_does_not_say_that_it_takes_bytes_gets_them_where_the_user_says_so(file, tensors, is_binary):
    with graph_server.serving({"tokens": file}, extensions=()) as server:
        with opened(backend(server, tensors=tensors)) as (engine, samples):
            assert not answered(engine, samples).failures
        assert bool(server.binary) is is_binary


def test_batches_are_the_plans_and_connections_are_kept_open(server):
    with opened(backend(server), batch=4) as (engine, samples):
        engine.statistics()
        before, connections = server.requests, server.connections
        assert not answered(engine, samples).failures
        assert server.requests - before == 3
        assert server.connections == connections == 2  # one was for the metadata
        assert engine.statistics().batches_by_size == {4: 3}


@pytest.mark.parametrize("given", [{"connections": 3}, {}])
def test_as_many_requests_are_under_way_as_the_options_or_the_workers_say(server, given):
    meeting = threading.Barrier(3)
    with opened(backend(server, **given), batch=4, workers=1 if given else 3) as (engine, samples):
        server.fails = lambda number: meeting.wait(PATIENCE_S) and None
        assert not answered(engine, samples).failures  # three requests met, or none would have been answered
        assert engine.statistics().workers == 3
    assert server.most_at_once == 3


def test_servers_take_turns(file):
    with graph_server.serving({"tokens": file}) as one, graph_server.serving({"tokens": file}) as two:
        made = Endpoint().with_options(EndpointOptions(protocol="kserve", url=f"{one.url}, {two.url}/"))
        with opened(made, batch=1) as (engine, samples):
            before = one.requests, two.requests
            assert not answered(engine, samples).failures
            assert (one.requests - before[0], two.requests - before[1]) == (6, 6)


def test_nothing_is_remembered_of_earlier_requests(server):
    with opened(backend(server), batch=1) as (engine, samples):
        before = server.requests
        for _ in range(2):
            assert not answered(engine, samples).failures
        assert server.requests - before == 2 * len(samples)


def test_an_error_of_the_server_fails_its_batch_alone_with_the_servers_message(server):
    with opened(backend(server), batch=4) as (engine, samples):
        bad = server.requests + 1
        server.fails = lambda number: (500, {"error": "CUDA is out\nof memory"}) if number == bad else None
        reply = answered(engine, samples)
    assert set(reply.failures) == {4, 5, 6, 7}
    (reason,) = {reason for reasons in reply.failures.values() for reason in reasons}
    assert reason.endswith(f"{server.url}: the server answered 500: CUDA is out of memory.")
    assert set(reply.answers) == {0, 1, 2, 3, 8, 9, 10, 11}


def test_a_request_is_repeated_as_often_as_the_user_says(server):
    made = backend(server, retries=2)
    with opened(made, batch=12) as (engine, samples):
        first = server.requests
        server.fails = lambda number: (503, {"error": "busy"}) if number < first + 2 else None
        assert not answered(engine, samples).failures
        server.fails = lambda number: (503, {"error": "busy"})
        assert set(answered(engine, samples).failures) == set(samples.ids)
    assert made.observe().extra["served"]["retried"] == 4


def swap_outputs(fields, following):
    fields["outputs"][0]["name"], fields["outputs"][1]["name"] = (each["name"] for each in fields["outputs"][::-1])
    return fields, following


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (swap_outputs, "the server answered token_logits as FP32"),
        (lambda fields, following: (fields | {"id": "0"}, following), "the server answered with id '0'"),
        (
            lambda fields, following: (fields | {"model_name": "b"}, following),
            "the server answered with model_name 'b'",
        ),
        (lambda fields, following: (fields, following[:-4]), "early"),
        (lambda fields, following: (fields, following + b"1234"), "4 bytes more than its tensors"),
        (lambda fields, following: (fields, b""), "without Inference-Header"),
        (lambda fields, following: (b"<html>", b""), "invalid JSON: <html>"),
    ],
)
def test_an_answer_of_another_form_is_a_failure(server, change, reason):
    with opened(backend(server), batch=12) as (engine, samples):
        server.change = change
        reply = answered(engine, samples)
        server.change = lambda *answer: answer
        assert not answered(engine, samples).failures  # the connection was not used again
    assert set(reply.failures) == set(samples.ids)
    assert reason in reply.failures[0][0]


@pytest.mark.parametrize("limit", ["timeout_s", "total_timeout_s"])
def test_a_server_that_is_silent_fails_the_request_in_time(server, limit):
    silent = threading.Event()
    with opened(backend(server, **{limit: 0.3}), batch=12, is_warm=False) as (engine, samples):
        server.fails = lambda number: silent.wait(PATIENCE_S) and None
        reply = answered(engine, samples)
        silent.set()
    assert "no complete answer in time (backend.timeout_s, backend.total_timeout_s)" in reply.failures[0][0]


def test_a_server_that_is_gone_fails_what_it_is_asked(file):
    with graph_server.serving({"tokens": file}) as server:
        made = backend(server)
        with opened(made, batch=12) as (engine, samples):
            server.shutdown()
            server.server_close()
            server.fails = lambda number: (500, b"gone", b"", [("Connection", "close")])
            reply = answered(engine, samples)
            again = answered(engine, samples)
    assert "the server answered 500: gone" in reply.failures[0][0]
    assert "refused" in again.failures[0][0]


def test_the_key_is_sent_and_never_told(server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "s3cret")
    with opened(backend(server, key_variable="MY_KEY"), batch=12) as (engine, samples):
        server.fails = lambda number: (401, {"error": "no such key: s3cret"})
        reply = answered(engine, samples)
    assert server.keys == {"Bearer s3cret"}
    assert reply.failures[0][0].endswith("the server answered 401: no such key: [API key].")


def test_a_server_that_refuses_while_warming_up_ends_the_command_in_a_line(server):
    server.fails = lambda number: (400, {"error": "batches of 4 are too large"})
    with pytest.raises(UnavailableError, match=r"^http\S+: the server answered 400: batches of 4 are too large\.$"):
        with opened(backend(server)):
            pass


METADATA = {
    "inputs": [
        {"name": "ids", "datatype": "INT64", "shape": [-1, -1]},
        {"name": "mask", "datatype": "INT64", "shape": [-1, -1]},
    ],
    "outputs": [
        {"name": "scores", "datatype": "FP32", "shape": [-1, 10]},
        {"name": "token_logits", "datatype": "FP32", "shape": [-1, -1]},
    ],
}
"""Of a server of the kit's graph."""


def changed(what, place, **values):
    tensors = [each | (values if number == place else {}) for number, each in enumerate(METADATA[what])]
    return METADATA | {what: tensors}


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        (METADATA, ""),
        (changed("outputs", 0, shape=[-1, -1]), ""),
        (METADATA | {"outputs": [*METADATA["outputs"], {"name": "more"}]}, ""),
        (changed("inputs", 0, name="input_ids"), "its inputs are input_ids, mask, not ids, mask"),
        (
            METADATA | {"inputs": [*METADATA["inputs"], {"name": "more"}]},
            "its inputs are ids, mask, more, not ids, mask",
        ),
        (METADATA | {"inputs": None}, "its inputs are not named, not ids, mask"),
        (METADATA | {"outputs": METADATA["outputs"][:1]}, "its outputs are scores, not scores, token_logits"),
        (changed("inputs", 1, datatype="INT32"), "its input mask is INT32 [-1, -1], not INT64 [-1, -1]"),
        (changed("inputs", 1, shape=[1, -1]), "its input mask is INT64 [1, -1], not INT64 [-1, -1]"),
        (changed("inputs", 1, shape=[-1]), "its input mask is INT64 [-1], not INT64 [-1, -1]"),
        (changed("outputs", 0, shape=[-1, 11]), "its output scores is FP32 [-1, 11], not FP32 [-1, 10]"),
        (changed("outputs", 0, shape=None), "its output scores is FP32 None, not FP32 [-1, 10]"),
        ({}, "its inputs are not named, not ids, mask"),
    ],
)
def test_a_model_with_other_tensors_than_the_graphs_is_told_from_it(metadata, told):
    assert difference(token_graph().graph, metadata) == told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "other"}, "v2/models/other: the server answered 404: no such thing as /v2/models/other."),
        (
            {"model": "image"},
            "has another model as image than conformance's graph tokens: its inputs are images, not ids",
        ),
        ({"prompt": "text"}, "backend.prompt has no meaning with backend.protocol=kserve."),
        ({"start": "serve {port}"}, "backend.start has no meaning with backend.protocol=kserve."),
        ({"connections": 3}, "backend.connections is 3, and execution.workers 2"),
        ({"url": "localhost:8000"}, "backend.url is 'localhost:8000'."),
        ({"url": "http://127.0.0.1:99999"}, "backend.url: http://127.0.0.1:99999 is not a URL"),
        ({"url": "http://a b/v1"}, "backend.url: http://a b/v1 is not a URL"),
        (
            {"url": "http://127.0.0.1:1"},
            "1/v2: [Errno 111] Connection refused. Check that the server runs",
        ),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_measured(file, options, message):
    from mlbench.conformance.known_answers import image_graph

    with graph_server.serving({"tokens": file, "image": image_graph().graph.onnx()}) as server:
        made = Endpoint().with_options(EndpointOptions(**{"protocol": "kserve", "url": server.url, **options}))
        with pytest.raises((UsageError, UnavailableError)) as raised:
            made.engine(scoring_model(), EnginePlan(workers=2))
        assert message in str(raised.value)
        assert raised.value.exit_code == 2
        assert server.requests == 0


def test_each_protocol_refuses_the_others_models_and_options(server):
    with pytest.raises(UsageError, match=r"cannot run .* with backend\.protocol=kserve, which is for graphs"):
        backend(server).engine(generating_model(), EnginePlan())
    with pytest.raises(UsageError, match=r"OpenAI's protocol is for language models.*backend\.protocol=kserve"):
        Endpoint().with_options(EndpointOptions(url=server.url)).engine(scoring_model(), EnginePlan())
    with pytest.raises(UsageError, match=r"backend\.tensors is for backend\.protocol=kserve"):
        Endpoint().with_options(EndpointOptions(url=server.url, tensors="json")).engine(
            generating_model(), EnginePlan()
        )


def test_of_several_graphs_each_has_a_model_of_its_own(file):
    one, two = token_graph().graph, token_graph().graph
    two.name = "more"
    model = scoring_model()
    both = Model(
        name="two",
        graphs={"tokens": one, "more": two},
        program=model.program,
        weights_fingerprint=model.weights_fingerprint,
    )
    with graph_server.serving({"a-tokens": file, "a-more": file}) as server:
        made = backend(server, model="a-{graph}")
        made.engine(both, EnginePlan())
        assert made.observe().extra["served"]["models"] == {"tokens": "a-tokens", "more": "a-more"}
        with pytest.raises(UsageError, match=r"backend\.model is 'a', and two has 2 graphs: tokens, more\."):
            backend(server, model="a").engine(both, EnginePlan())


@pytest.mark.thorough("kit")
class TestKit(EngineConformance):
    precision = Precision("fp32")

    @pytest.fixture
    def backend(self, server):
        return backend(server)
