"""Each broken backend is caught by the check that is meant for it, with a message that leads to the fault."""

import re
import tempfile

import pytest

from mlbench.conformance import answer_checks, engine_checks, graph_checks, loadgen_checks, speed_checks, state_checks
from mlbench.conformance.kit import checks_for
from mlbench.errors import ConformanceError, PluginError
from mlbench.loadgen.scenarios import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM

GRAPHS = [
    ("stale-buffer", graph_checks.hands_out_fresh_buffers, "output 'logits' of an earlier call changed in a later one"),
    ("swapped-rows", graph_checks.equals_the_module, r"right rows in the wrong places \(\[3, 0, 1, 2\]\)"),
    ("swapped-rows", graph_checks.keeps_rows_apart, "graph image with its rows in another order"),
    ("noisy", graph_checks.repeats_its_outputs, "on call 2 with equal inputs: output 'logits' is .*, expected"),
    ("remembering", graph_checks.remembers_nothing, "after a call at batch 8: output 'logits' is .*, expected"),
    ("overwriting-inputs", graph_checks.leaves_inputs_alone, "input 'images' was changed by the call"),
    (
        "misnamed-output",
        graph_checks.outputs_have_the_promised_form,
        r"'logits' is missing among \['logits_0'\]",
    ),
    ("double-output", graph_checks.outputs_have_the_promised_form, "output 'logits' is float64, expected float32"),
    ("transposed-output", graph_checks.outputs_have_the_promised_form, r"has shape \(10, 1\), expected \(1, 10\)"),
    ("nan-in-a-row", graph_checks.outputs_have_the_promised_form, "NaN in output 'logits'"),
    (
        "right-in-eight-rows",
        graph_checks.equals_the_module,
        r"graph image at batch 65: output 'logits' is .*, expected",
    ),
    (
        "stale-after-200-calls",
        graph_checks.repeats_its_outputs,
        "on call 201, each with another row: output 'logits' is",
    ),
    ("ring-of-four", graph_checks.hands_out_fresh_buffers, "output 'logits' of an earlier call changed in a later one"),
    ("guessing-unknown-batches", answer_checks.answers_each_sample_with_its_own_scores, "sample 1[2-9] .*new from 12"),
    ("nan-in-a-row", graph_checks.equals_the_module, "There are NaNs"),
    ("leaks-between-runs", answer_checks.answers_alike_after_restart, r"\(engine 2 of the backend\) is answered"),
]

REPLIES = [
    (
        "empty-reply",
        engine_checks.replies_have_the_promised_form,
        r"sample 3 .*empty, of shape \(0,\), expected \(10,\)",
    ),
    ("wrong-shape", engine_checks.replies_have_the_promised_form, r"sample 3 .*shape \(9,\), expected \(10,\)"),
    ("wrong-dtype", engine_checks.replies_have_the_promised_form, "sample 3 .*is float16, expected float32"),
    ("nan-reply", engine_checks.replies_have_the_promised_form, "sample 3 .*NaN in the reply"),
    ("duplicated-reply", engine_checks.answers_one_at_a_time, "sample 3 .*was answered 2 times"),
    ("duplicated-reply", engine_checks.answers_all_at_once, "sample 3 .*was answered 2 times"),
    ("lost-reply", engine_checks.answers_eight_at_a_time, "sample 3 .*was not answered within 0.4 s"),
    ("lost-reply", engine_checks.answers_an_unfilled_batch, "sample 3 .*was not answered within 0.4 s"),
    ("lost-reply", engine_checks.answers_a_repeated_index_each_time, "sample 3 .*was not answered within 0.4 s"),
    ("failed-reply", engine_checks.answers_a_trickle, "sample 3 .*was given up: no luck with this one"),
    ("too-few-rows", engine_checks.answers_eight_at_a_time, "got 7 outputs for 8 samples"),
    ("swapped-replies", answer_checks.answers_each_sample_with_its_own_scores, "is given the answer to sample"),
    ("indices-for-ids", engine_checks.answers_all_at_once, r"ids \[0, 1, .*\] were answered and never submitted"),
    ("no-flush", engine_checks.answers_after_flush, r"not answered within 0.4 s of flush\(\)"),
    ("late-reply", engine_checks.is_silent_after_exit, r"replies came after __exit__ had returned"),
    ("raising-submit", engine_checks.answers_one_at_a_time, "submit raised RuntimeError: cannot digest this sample"),
    ("reply-at-exit", engine_checks.runs_again_after_exit, "sample 3 .*was answered 2 times"),
    (
        "shortening",
        engine_checks.replies_have_the_promised_form,
        r"sample 0 \(after replay_graphs\): the reply has shape \(9,\), expected \(10,\)",
    ),
    (
        "secretive",
        engine_checks.reports_facts_as_json,
        r"Engine.statistics\(\) returns values that JSON cannot represent",
    ),
    ("miscounting", engine_checks.reports_facts_as_json, r"Engine.statistics\(\) returns -1 as truncated_prompts"),
]

STATES = [
    ("forgetful", state_checks.keeps_state_between_calls, "prefill on the second piece of a list: output 'scores' is"),
    ("mingling", state_checks.keeps_slots_apart, "graph decode continuing the first 3 of 8 slots"),
    ("spilling", state_checks.keeps_slots_apart, "continuing the first 8 of 8 slots"),
    (
        "seeing-the-last",
        state_checks.sees_nothing_of_a_slots_last_list,
        "a shorter list in a slot that was used, with all",
    ),
    ("dirty", state_checks.starts_with_zeros, "columns of a new state .* that nothing was written to"),
    ("one-for-all", state_checks.keeps_states_apart, "continuing the first of two states"),
    ("keeping-to-itself", state_checks.shares_state_between_graphs, "graph decode with a state that prefill made"),
    (
        "binding-once",
        state_checks.shares_state_between_all_kinds_of_writers,
        "graph prefill in call 5 of prefill and scaling on one state: output 'scores' is",
    ),
    ("forgetting-when-grown", state_checks.grows_state, "after the state grew from 2 x 8 to 2 x 24"),
    ("reshaping-when-grown", state_checks.grows_state, "after the state grew from 2 x 8 to 2 x 24"),
    ("copying-in-turn", state_checks.copies_rows, r"after rows \[0, 1, 2\] were copied to rows \[1, 2, 0\]"),
    ("copying-the-wrong-way", state_checks.copies_rows, r"after rows \[3\] were copied to rows \[0\]"),
    ("copying-from-the-start", state_checks.copies_the_columns_it_is_told, "after columns 5 to 10 of rows"),
    ("halving", state_checks.keeps_types_of_state, r"is \[4096.0, 3.0\] after 1 times \[4097, 3\] were added"),
    ("holding-one-output", state_checks.keeps_state_between_calls, "output 'scores' of an earlier call changed"),
]

CAUGHT = GRAPHS + REPLIES + STATES


@pytest.mark.thorough("kit", first_of="check")
@pytest.mark.parametrize(("name", "check", "words"), CAUGHT, ids=[f"{case[0]}-{case[1].__name__}" for case in CAUGHT])
def test_a_broken_backend_is_caught_by_the_check_meant_for_it(on_trial, monkeypatch, name, check, words):
    monkeypatch.setattr(engine_checks, "_LATE_S", 60.0)  # it ends as soon as a late reply comes
    with pytest.raises(ConformanceError, match=words) as caught:
        check(on_trial(name))
    assert caught.value.hint


@pytest.mark.thorough("kit")
def test_a_right_backend_passes_every_check(on_trial):
    subject = on_trial("right", patience_s=20)
    for check in checks_for(subject.backend):
        check(subject)


SPEEDS = [
    ("caching-by-index", speed_checks.answers_content_not_indices, "the content of sample 1 was answered as sample 0"),
    ("caching-by-index", speed_checks.computes_each_answer, "times as long as content that was answered before"),
    ("caching-by-content", speed_checks.computes_each_answer, "times as long as content that was answered before"),
    ("caching-calls", speed_checks.computes_each_answer, "times as long as content that was answered before"),
    ("counting-too-many", speed_checks.counts_the_tokens_it_gives, "token count 132 for an answer of 12 tokens"),
    ("another-first-token", speed_checks.reports_the_first_token_it_gives, "was reported, and the answer begins with"),
    ("making-up-first", speed_checks.reports_the_first_token_it_gives, "first token 7 was reported"),
    ("forcing-first", speed_checks.continues_its_answers, "[5-8] of 8 prompts that hold the beginning of an answer"),
    ("cutting", speed_checks.gives_whole_answers, "has 4 tokens, expected 12"),
    ("cutting-with-end", speed_checks.gives_whole_answers, "has 4 tokens, expected 12"),
]


@pytest.mark.thorough("kit", first_of="check")
@pytest.mark.parametrize(("name", "check", "words"), SPEEDS, ids=[f"{case[0]}-{case[1].__name__}" for case in SPEEDS])
def test_a_speed_that_was_not_computed_is_caught_by_the_check_meant_for_it(on_trial, name, check, words):
    with pytest.raises(ConformanceError, match=words) as caught:
        check(on_trial(name, patience_s=20))
    assert caught.value.hint


@pytest.mark.thorough("kit")
def test_answers_that_an_earlier_process_left_on_a_disk_are_caught_in_the_next(on_trial, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    speed_checks.computes_each_answer(on_trial("caching-on-disk", patience_s=20))
    with pytest.raises(ConformanceError, match="times as long as content that was answered before"):
        speed_checks.computes_each_answer(on_trial("caching-on-disk", patience_s=20))


def test_every_check_of_speed_catches_something():
    assert {check for _, check, _ in SPEEDS} == {
        *speed_checks.SPEED_CHECKS,
        *speed_checks.TOKEN_CHECKS,
        *speed_checks.GENERATION_CHECKS,
    }


@pytest.mark.parametrize("check", state_checks.STATE_CHECKS, ids=lambda check: check.__name__)
def test_a_backend_that_lets_state_in_and_out_passes_every_check_of_state(on_trial, check):
    check(on_trial("plain"))


def test_a_backend_that_returns_no_state_names_which_output_is_missing(on_trial):
    with pytest.raises(PluginError, match=r"compiled without its state: there is no output 'keys.next'"):
        state_checks.keeps_state_between_calls(on_trial("stateless"))


def test_every_check_of_state_catches_something():
    assert {check for _, check, _ in STATES} == set(state_checks.STATE_CHECKS)


FAULTS = [
    ("empty-reply", SINGLE_STREAM, r"sample 3: empty reply"),
    ("wrong-shape", OFFLINE, r"sample 3: wrong shape \(9,\), expected \(10\)"),
    ("wrong-dtype", SERVER, "sample 3: wrong dtype float16, expected float32"),
    ("nan-reply", OFFLINE, "sample 3: NaN in the reply"),
    ("duplicated-reply", OFFLINE, "sample 3: answered twice, or never asked"),
    ("reply-at-exit", MULTI_STREAM, "sample 3: answered after the test had ended"),
    ("lost-reply", OFFLINE, "sample 3: failed: no reply within"),
    ("failed-reply", SERVER, "sample 3: failed: no luck with this one"),
    ("raising-submit", SINGLE_STREAM, "sample 3: failed: RuntimeError: cannot digest this sample"),
]


@pytest.mark.thorough("kit", but=["nan-reply-Offline", "lost-reply-Offline"])
@pytest.mark.parametrize(("name", "scenario", "words"), FAULTS, ids=[f"{case[0]}-{case[1].name}" for case in FAULTS])
def test_a_run_under_loadgen_names_the_sample_whose_reply_was_not_sound(on_trial, name, scenario, words):
    patience_s = 2 if "no reply within" in words else 20
    faults = loadgen_checks.loadgen_faults(on_trial(name, patience_s=patience_s), scenario)
    assert re.search(words, faults[0])
    assert all(fault.startswith("sample 3:") for fault in faults)
