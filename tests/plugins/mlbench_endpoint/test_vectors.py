"""Embeddings and scores of documents: what a server gets, what of its answers is refused, and the speed shown."""

import json

import pytest
from invoking import invoke
from mlbench_endpoint.api import Api
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.client.answer import AnswerFormat
from mlbench_endpoint.client.failure import RequestFailed
from mlbench_endpoint.client.vector_answer import VectorAnswer
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.prompts import open_prompts
from mlbench_endpoint.loads.text_program import TextProgram, VectorProgram
from mlbench_endpoint.loads.workload import for_vectors
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.text_format import text_format, text_to_send
from mock_thread import mocked

from mlbench import EnginePlan, Model, UsageError

pytest.importorskip("aiohttp")


def fields_of(api, **options):
    sample = open_prompts(for_vectors(PromptOptions(count=1, **options))).sample(0)
    return text_format(api=api, extra={}, count="").fields(VectorProgram(1).prompt(sample)), text_to_send(sample)


def test_a_request_for_an_embedding_has_the_text_alone():
    fields, _ = fields_of(Api.EMBEDDINGS, tokens_in="30")
    assert list(fields) == ["input"]
    assert len(fields["input"].split()) == 30
    assert text_format(api=Api.EMBEDDINGS, extra={"dimensions": 64}, count="").common == {"dimensions": 64}


def test_a_request_for_scores_has_a_query_and_documents_of_all_words_together():
    """Of 60 words eight are the query's; five documents have 10, 10, 11, 10 and 11 of the rest."""
    fields, _ = fields_of(Api.RERANK, tokens_in="60", documents=5)
    assert list(fields) == ["query", "documents"]
    assert len(fields["query"].split()) == 8
    assert [len(each.split()) for each in fields["documents"]] == [10, 10, 11, 10, 11]


def read(api, message, limit=2):
    form = AnswerFormat(is_text=True, is_stream=False, api=api, vocabulary=0, choices=1, has_usage=True)
    answer = VectorAnswer(form, limit)
    text = answer.add(message)
    answer.check()
    return text, answer.prompt_tokens


def test_scores_are_read_as_a_ranking_and_embeddings_by_their_length():
    results = [{"index": 1, "relevance_score": 0.2}, {"index": 0, "relevance_score": 0.9}]
    assert read(Api.RERANK, {"results": results, "usage": {"total_tokens": 7}}) == ("0 1", 7)
    assert read(Api.EMBEDDINGS, {"data": [{"embedding": [0.5, -1]}], "usage": {"prompt_tokens": 3}}, 1) == (
        "2 numbers",
        3,
    )
    assert read(Api.EMBEDDINGS, {"data": [{"embedding": "AAAA"}]}, 1) == ("4 characters", None)


SCORE = {"index": 0, "relevance_score": 0.5}


@pytest.mark.parametrize(
    ("api", "message"),
    [
        (Api.EMBEDDINGS, {}),
        (Api.EMBEDDINGS, {"error": {"message": "no"}, "data": [{"embedding": [1]}] * 2}),
        (Api.EMBEDDINGS, {"data": [{"embedding": [1.0]}]}),
        (Api.EMBEDDINGS, {"data": [{"embedding": []}] * 2}),
        (Api.EMBEDDINGS, {"data": [{"embedding": [True]}] * 2}),
        (Api.EMBEDDINGS, {"data": [{"embedding": [float("nan")]}] * 2}),
        (Api.EMBEDDINGS, {"data": [3, 4]}),
        (Api.EMBEDDINGS, {"data": [{"embedding": [1]}] * 2, "usage": {"prompt_tokens": -1}}),
        (Api.RERANK, {"results": [SCORE, SCORE]}),
        (Api.RERANK, {"results": [SCORE, {"index": 2, "relevance_score": 0.5}]}),
        (Api.RERANK, {"results": [SCORE, {"index": 1, "relevance_score": None}]}),
        (Api.RERANK, {"results": [SCORE, {"index": "1", "relevance_score": 1}]}),
        (Api.RERANK, {"results": [SCORE]}),
    ],
)
def test_what_is_no_answer_of_numbers_fails(api, message):
    with pytest.raises(RequestFailed):
        read(api, message)


@pytest.mark.parametrize(("api", "program"), [(Api.EMBEDDINGS, TextProgram(8)), (Api.CHAT, VectorProgram(1))])
def test_an_endpoint_of_numbers_is_not_for_prompts_nor_the_other_way_round(api, program):
    model = Model(name="own", graphs={}, program=program, weights_fingerprint="")
    backend = Endpoint().with_options(EndpointOptions(url="http://localhost:1", api=api))
    with pytest.raises(UsageError, match=f"Run the workload {api.workload}"):
        backend.engine(model, EnginePlan())


@pytest.mark.thorough("servers")
def test_embeddings_are_timed_as_whole_answers_without_tokens(tmp_path):
    """Four at once, each of 20 ms at least: 200 requests/s at most, of 30 tokens each."""
    with mocked(ttft="20ms") as (_, url):
        words = ("--api", "embeddings", "--tokens-in", "30", "--concurrency", "4", "--seconds", "2", "--json")
        places = ("--results", str(tmp_path / "results"), "--out", str(tmp_path / "out"))
        done = invoke("bench-endpoint", url, *words, *places)
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)
    assert 0 < found["requests_per_s"] <= 4 / 0.02
    assert found["prompt_tokens_per_s"] == pytest.approx(30 * found["requests_per_s"])
    assert found["e2e"]["ns"]["p50"] >= 20e6
    assert (found["tokens_per_s"], found["ttft"]["ns"], found["tpot"]["ns"]) == (0, {}, {})
    assert any("no TTFT and no TPOT" in note for note in found["notes"])
