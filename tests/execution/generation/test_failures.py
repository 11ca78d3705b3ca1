"""Failures in a call of the backend or in the workload's code: which sequences fail, and which go on."""

import numpy as np
import pytest

from mlbench import Prompt


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        (Prompt(tokens=np.zeros(0, np.int64)), "the prompt is empty"),
        (
            Prompt(tokens=np.full(73, 5)),
            "a prompt of 73 tokens and 24 new ones exceed the 96 positions of the model",
        ),
        (ValueError("no such sample"), "ValueError: no such sample"),
    ],
)
def test_a_request_that_can_never_be_served_is_refused_and_the_others_are_answered(world, prompt, reason):
    sound = Prompt(tokens=np.full(72, 5))
    made = world([sound, prompt, sound])
    with made.engine() as engine:
        reply = made.answered(engine)
    assert reply.failures == {1001: reason}
    assert reply.answers == made.compute_outputs(made.samples(0)) | made.compute_outputs(made.samples(2, first=1002))


def test_beam_search_refuses_stop_sequences(world):
    made = world([Prompt(tokens=np.array([5]), stop=(7, 8))], beams=2)
    with made.engine() as engine:
        assert made.answered(engine).failures == {1000: "a stop sequence, which beam search does not follow"}


def test_a_decode_call_that_fails_fails_those_that_run_and_no_others(world):
    made = world(12)

    def fails(name, number):
        if name == "decode" and number >= 5:
            made.backend.fails = lambda name, number: None
            raise RuntimeError("device lost\nand found again")

    made.backend.fails = fails
    with made.engine() as engine:
        reply = made.answered(engine)
        assert engine.statistics().failed_samples == len(reply.failures)
    assert 1 <= len(reply.failures) <= 4
    assert set(reply.failures.values()) == {"RuntimeError: device lost"}
    expected = made.compute_outputs()
    assert reply.answers == {id_: expected[id_] for id_ in expected.keys() - reply.failures.keys()}


def test_rows_that_cannot_be_copied_fail_those_that_run(world):
    made = world(12, beams=3)

    def fails(name, number):
        if name == "copy" and number >= 9:
            made.backend.fails = lambda name, number: None
            raise RuntimeError("no stream")

    made.backend.fails = fails
    with made.engine(batch=3) as engine:
        reply = made.answered(engine)
    assert 1 <= len(reply.failures) <= 3
    assert set(reply.failures.values()) == {"RuntimeError: no stream"}
    assert len(reply.answers) == 12 - len(reply.failures)


def test_a_row_of_nans_fails_its_sequence_and_no_other(world):
    made = world(6)

    def spoils(name, number, outputs):
        if name == "decode" and number == 6:
            outputs["log_probabilities"][1] = np.nan
        return outputs

    made.backend.spoils = spoils
    with made.engine(batch=3) as engine:
        reply = made.answered(engine)
    assert list(reply.failures.values()) == ["NaN in log_probabilities"]
    assert len(reply.answers) == 5


def test_a_prompt_that_ends_in_nans_fails_its_sequence_and_no_other(world):
    made = world(6)

    def spoils(name, number, outputs):
        if name == "prefill":
            made.backend.spoils = lambda name, number, outputs: outputs
            outputs["log_probabilities"][0] = np.nan
        return outputs

    made.backend.spoils = spoils
    with made.engine(batch=3) as engine:
        reply = made.answered(engine)
    assert list(reply.failures.values()) == ["NaN in log_probabilities"]
    assert not reply.failures.keys() & reply.firsts.keys()
    expected = made.compute_outputs()
    assert reply.answers == {id_: expected[id_] for id_ in expected.keys() - reply.failures.keys()}


def test_outputs_for_another_number_of_rows_fail_the_call(world):
    made = world(2)
    made.backend.spoils = lambda name, number, outputs: {key: value[:1] for key, value in outputs.items()}
    with made.engine() as engine:
        reply = made.answered(engine)
    assert set(reply.failures.values()) == {"ValueError: tokens (1, 2) and log_probabilities (1, 2) for 2 rows"}


def test_an_answer_that_cannot_be_made_fails_its_sample(world):
    made = world(3)
    made.model.program.answer = lambda tokens: 1 / 0
    with made.engine() as engine:
        assert set(made.answered(engine).failures.values()) == {"ZeroDivisionError: division by zero"}
