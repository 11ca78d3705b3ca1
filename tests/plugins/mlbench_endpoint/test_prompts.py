"""Prompts for a server's own model: their lengths, their words, and what of a sweep is written and read."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest
from mlbench_endpoint.api import Api
from mlbench_endpoint.client.answer import Answer, AnswerFormat
from mlbench_endpoint.client.failure import RequestFailed
from mlbench_endpoint.client.messages import Answered
from mlbench_endpoint.loads import generated_prompts
from mlbench_endpoint.loads.load import Load
from mlbench_endpoint.loads.prompt_lengths import parse_lengths
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.prompts import open_prompts
from mlbench_endpoint.loads.text_program import TextProgram
from mlbench_endpoint.loads.text_sample import TextSample
from mlbench_endpoint.sweep.results import is_believable
from mlbench_endpoint.sweep.suite import suite_text
from mlbench_endpoint.text_format import text_format, text_to_send

from mlbench import Backend, EnginePlan, GraphBackend, Model, Probe, UsageError
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of
from mlbench.planning.requests import combinations


def drawn(text):
    return parse_lengths(text, "workload.tokens_in").draw(np.random.default_rng(0), 10_000)


def test_lengths_are_one_or_from_a_distribution():
    assert set(drawn("512")) == {512}
    uniform = drawn("uniform:128:1024")
    assert (uniform.min(), uniform.max()) == (128, 1024)
    normal = drawn("normal:512:64")
    assert normal.mean() == pytest.approx(512, abs=3)
    assert normal.std() == pytest.approx(64, abs=2)


def test_no_length_is_below_one():
    assert drawn("normal:2:50").min() == 1


@pytest.mark.parametrize("text", ["", "0", "-5", "1.5", "1e3", "uniform:5", "normal:0:1", "zipf:1:2", "9" * 30, "512:"])
def test_what_is_no_length_is_refused_with_the_forms(text):
    with pytest.raises(UsageError, match=r"workload\.tokens_in is .* uniform:128:1024"):
        parse_lengths(text, "workload.tokens_in")


def test_prompts_have_so_many_words_that_the_server_counts_the_tokens_asked_for():
    """At 1.5 tokens a word and 12 for the template, 312 tokens are 200 words."""
    prompts = open_prompts(PromptOptions(tokens_in="312", tokens_per_word=1.5, template_tokens=12, count=5))
    texts = [text_to_send(prompts.sample(index)) for index in range(5)]
    assert [len(text.split()) for text in texts] == [200] * 5


def test_prompts_of_a_million_tokens_are_as_many_as_memory_holds(monkeypatch):
    monkeypatch.setattr(generated_prompts, "_MOST_WORDS", 1000)
    assert open_prompts(PromptOptions(tokens_in="uniform:1:100", turns=2)).count == 5
    assert open_prompts(PromptOptions(tokens_in="2000")).count == 1


def test_no_prompt_is_sent_twice_with_the_same_beginning():
    sample = open_prompts(PromptOptions(tokens_in="40", count=1)).sample(0)
    sent = [text_to_send(sample).split() for _ in range(50)]
    assert len({tuple(words[:4]) for words in sent}) == 50
    assert len({tuple(words[4:]) for words in sent}) == 1


def test_the_same_options_give_the_same_data_and_other_seeds_other_data():
    options = PromptOptions(count=20)
    assert open_prompts(options).fingerprint == open_prompts(options).fingerprint
    assert open_prompts(options).fingerprint != open_prompts(PromptOptions(count=20, seed=1)).fingerprint


def test_a_text_file_has_a_prompt_on_each_line(tmp_path):
    file = tmp_path / "own.txt"
    file.write_bytes("\ufeffGrüße an alle\r\n\nzwei\n".encode())
    prompts = open_prompts(PromptOptions(file=str(file), tokens_out="9"))
    samples = [prompts.sample(index) for index in range(prompts.count)]
    assert [text_to_send(sample) for sample in samples] == ["Grüße an alle", "zwei"]
    assert [sample.answer_tokens for sample in samples] == [9, 9]


def test_a_chat_asks_with_a_message_and_reads_thoughts_and_answers():
    form = text_format(api=Api.CHAT, extra={}, count="")
    program = TextProgram(8)
    fields = form.fields(program.prompt(TextSample(text="why?", answer_tokens=8)))
    assert fields == {"max_tokens": 8, "messages": [{"role": "user", "content": "why?"}]}
    answer = Answer(form.answer, 8)
    deltas = [{"role": "assistant"}, {"reasoning_content": "hm", "reasoning": "hm"}, {"content": "so"}]
    brought = [answer.add({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas]
    assert brought == [None, "hm", "so"]


def test_a_chat_whose_message_is_none_fails():
    form = AnswerFormat(is_text=True, is_stream=True, api=Api.CHAT, vocabulary=0, choices=1, has_usage=True)
    with pytest.raises(RequestFailed, match="as text"):
        Answer(form, 8).add({"choices": [{"index": 0, "delta": "so"}]})


def test_an_answer_has_as_many_tokens_as_the_server_counts():
    form = text_format(api=Api.COMPLETIONS, extra={}, count="")
    assert form.count(300, answered(64)) == 64
    with pytest.raises(ValueError, match="counts 1 token"):
        form.count(300, answered(1))


def answered(counted, chunks=0, text="one two three"):
    return Answered(
        id=1,
        answer=text,
        finish="stop",
        prompt_tokens=None,
        answer_tokens=counted,
        attempts=1,
        sent_ns=0,
        first_ns=1,
        at_ns=9,
        chunk_ns=range(chunks),
    )


def test_chunks_are_counted_where_the_user_says_so_or_nobody_asks_the_server():
    for form in (
        text_format(api=Api.CHAT, extra={}, count="chunks"),
        text_format(api=Api.CHAT, extra={"stream_options": None}, count=""),
    ):
        assert not form.answer.has_usage
        assert form.count(300, answered(64, chunks=5)) == 5
        with pytest.raises(ValueError, match="has 1 token by chunks"):
            form.count(300, answered(64, chunks=1))


def test_a_tokenizer_that_the_user_names_counts_prompts_and_answers(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"one": 0, "two": 1, "[UNK]": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    for place in (tmp_path, tmp_path / "tokenizer.json"):
        form = text_format(api=Api.COMPLETIONS, extra={}, count=f"tokenizer:{place}")
        assert form.count(300, answered(None)) == 3
        prompt = TextProgram(8).prompt(TextSample(text="one two", answer_tokens=8, new_words=2))
        assert form.counted_prompt(prompt, answered(None)) == 4


@pytest.mark.parametrize(
    ("extra", "limit"),
    [
        ({}, 8),
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 50}, 50),
        ({"max_tokens": None, "max_completion_tokens": 40}, 40),
    ],
)
def test_an_answer_may_be_as_long_as_the_request_says(extra, limit):
    form = text_format(api=Api.CHAT, extra=extra, count="")
    assert form.limit(TextProgram(8).prompt(TextSample(text="why?", answer_tokens=8))) == limit


def test_several_answers_to_a_prompt_are_refused():
    with pytest.raises(UsageError, match=r"3 answers to a prompt \(n\)"):
        text_format(api=Api.CHAT, extra={"n": 3}, count="")
    assert text_format(api=Api.CHAT, extra={"n": 1}, count="").common["n"] == 1


def test_a_suite_file_holds_whatever_is_in_a_url_or_a_path():
    odd = 'http://[::1]:8000/v1 "quoted" \\ back 🎈 \x7f \t'
    text = suite_text(
        "𝒜", [(Load(rate_per_s=2.5), {"backend.url": odd, "load.target_qps": 2.5})], tier="dev", repeats=3
    )
    suite = tomllib.loads(text)
    assert (suite["name"], suite["repeats"]) == ("𝒜", 3)
    (run,) = suite["runs"]
    assert (run["scenario"], run["tier"]) == ("Rate", "dev")
    assert run["settings"] == {"backend.url": odd, "load.target_qps": 2.5}


@pytest.mark.parametrize(("share", "enough"), [(0.5, 7), (0.9, 44), (0.99, 459)])
def test_a_percentile_is_shown_with_as_many_requests_as_early_stopping_wants(share, enough):
    assert is_believable(share, enough)
    assert not is_believable(share, enough - 1)


def test_a_run_of_all_workloads_leaves_prompts_out():
    plugins = Plugins.discover()
    found = list(combinations(plugins, [], ["null"], []))
    assert len({request.workload for request in found}) == 9
    assert {request.scenario for request in found} == {"SingleStream", "MultiStream", "Server", "Offline"}
    named = list(combinations(plugins, ["prompts"], ["endpoint"], ["Rate", "Concurrency"]))
    assert [request.scenario for request in named] == ["Rate", "Concurrency"]


class Compiler(GraphBackend):
    name = "compiler"

    def probe(self):
        return Probe(is_available=True)

    def compile(self, graph, precision):
        raise AssertionError


def test_a_model_without_graphs_is_refused_by_a_backend_that_compiles_them():
    model = Model(name="prompts", graphs={}, program=TextProgram(8), weights_fingerprint="")
    backend: Backend = Compiler()
    with pytest.raises(UsageError, match=r"compiler compiles graphs, and prompts has none\. Choose another backend.$"):
        engine_of(backend, model, EnginePlan())
    model = replace(model, why_no_graphs="It is text.")
    with pytest.raises(UsageError, match=r"compiler compiles graphs, and prompts has none\. It is text.$"):
        engine_of(backend, model, EnginePlan())
