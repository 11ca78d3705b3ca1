"""The requests before a sweep: how many tokens a server makes of a word, also one with a short context."""

import pytest

pytest.importorskip("aiohttp")

from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.sweep.server_trial import try_server
from mock_thread import mocked

from mlbench import UnavailableError


@pytest.mark.thorough("servers", but=["70"])
@pytest.mark.parametrize("context", [70, 10_000])
def test_words_are_counted_by_prompts_that_the_server_takes(context):
    """The mock server makes one token of each word, and holds 70 tokens of prompt and answer."""
    with mocked(context=context) as (_, url):
        found = try_server(EndpointOptions(url=url), PromptOptions(tokens_in="40", tokens_out="8"))
    assert (found.prompts.tokens_per_word, found.prompts.template_tokens) == (1.0, 0)
    assert (found.longest_prompt_tokens, found.answer_tokens) == (40, 8)


def test_a_server_that_takes_no_short_prompt_either_says_so():
    with mocked(context=50) as (_, url), pytest.raises(UnavailableError, match="maximum context length is 50 tokens"):
        try_server(EndpointOptions(url=url), PromptOptions(tokens_in="40", tokens_out="8"))


@pytest.mark.slow
@pytest.mark.thorough("servers")
def test_an_answer_of_many_tokens_may_have_more_bytes_than_any_short_one():
    """18,000 events of a kilobyte, by the length of the model's name: those of 70,000 usual tokens."""
    with mocked(model="m" * 800) as (_, url):
        found = try_server(EndpointOptions(url=url), PromptOptions(tokens_in="8", tokens_out="18000", count=1))
    assert found.answer_tokens == 18_000
