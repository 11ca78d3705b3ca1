"""Engines for language models that are broken: each is caught by the check meant for it, which says what is wrong."""

import pytest

from mlbench.conformance import engine_checks, speed_checks, text_checks, text_timing_checks
from mlbench.conformance.kit import CHECKS_OF_TEXT, checks_for
from mlbench.errors import ConformanceError

for package in ("torch", "transformers", "tokenizers"):
    pytest.importorskip(package)
pytestmark = pytest.mark.slow  # `generate` answers all prompts once

CAUGHT = [
    ("wrong-token", text_checks.generates_the_models_tokens, r"prompt 0 .*: token 3 is \d+, and generate's is \d+"),
    ("reading-the-end", text_checks.generates_the_models_tokens, r"prompt 5 .*: token 0 is \d+, and generate's is \d+"),
    ("swapping-requests", text_checks.keeps_requests_apart, "prompt 2[012] is given the answer to prompt 2[012]"),
    ("in-order", text_checks.answers_in_any_order, r"prompt \d+ \(singly, without waiting\): token 0 is"),
    ("crowded", text_checks.answers_many_at_once, r"prompt \d+ \(46 in one query\): token \d+ is"),
    ("wearing-out", text_checks.answers_again_as_before, r"prompt 12 \(query 2 of one engine\): token 0 is"),
    (
        "knowing-indices",
        text_checks.answers_prompts_not_indices,
        "sample 0 with the content of prompt 1 was answered as",
    ),
    ("running-on", text_checks.ends_after_the_end_token, "prompt 12 has an end token in place 5, and 8 tokens"),
    ("cutting-short", text_checks.stops_at_the_longest_answer, "has 12 tokens and ends with .*, where 24 are allowed"),
    ("overlong", text_checks.stops_at_the_longest_answer, "has 25 tokens and ends with 5, where 24 are allowed"),
    ("ignoring-stops", text_checks.ends_at_stop_sequences, r"the stop sequence \[.*\]: token 8 is .*; 24 tokens came"),
    ("failing-together", text_checks.fails_a_bad_prompt_alone, r"prompt 0 \(beside .*\) was given up: a prompt is too"),
    ("cutting-prompts", text_checks.fails_a_bad_prompt_alone, "answered 1 times and given up 0 times"),
    ("guessing", speed_checks.reports_the_first_token_it_gives, "2 first tokens were reported"),
    ("knowing-prompts", text_timing_checks.reports_nothing_before_it_is_computed, "new content takes .* times as long"),
    ("holding-back", text_timing_checks.reports_first_tokens_early, "the first of 24 tokens came after 100%"),
    ("late-text", engine_checks.is_silent_after_exit, r"1 replies came after __exit__ had returned"),
]


IDS = [f"{name}-{check.__name__}" for name, check, _ in CAUGHT]
KEPT = ("wrong-token", "swapping-requests", "ignoring-stops", "failing-together")


@pytest.mark.thorough("kit", but=[name for name in IDS if name.startswith(KEPT)])
@pytest.mark.parametrize(("name", "check", "words"), CAUGHT, ids=IDS)
def test_a_broken_text_engine_is_caught_by_the_check_meant_for_it(on_trial, monkeypatch, name, check, words):
    monkeypatch.setattr(engine_checks, "_LATE_S", 60.0)  # it ends as soon as a late reply comes
    with pytest.raises(ConformanceError, match=words) as caught:
        check(on_trial(name, patience_s=20))
    assert caught.value.hint


@pytest.mark.thorough("kit")
@pytest.mark.parametrize("check", CHECKS_OF_TEXT, ids=lambda check: check.__name__)
def test_the_engine_that_they_are_made_from_passes_every_check(on_trial, check):
    check(on_trial("honest-text", patience_s=20))


def test_each_check_of_text_catches_a_broken_engine():
    meant = {check for _, check, _ in CAUGHT}
    assert {*text_checks.TEXT_CHECKS, *text_timing_checks.TEXT_TIMING_CHECKS} <= meant


def test_an_engine_for_text_is_asked_all_that_engines_and_texts_are(on_trial):
    assert set(CHECKS_OF_TEXT) <= set(checks_for(on_trial("honest-text").backend))
    assert not set(text_checks.TEXT_CHECKS) & set(checks_for(on_trial("null").backend))
