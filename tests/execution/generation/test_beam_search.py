"""Beam search, by hand on a few numbers; `test_language_models` holds it against Hugging Face's `generate`."""

import numpy as np
import pytest

from mlbench import Decoding, Prompt
from mlbench.execution.generation.beam_search import BeamSearch
from mlbench.execution.generation.cache import Choices

END = 9


def choices(*rows):
    """Return choices out of (token, log-probability) pairs, a list for each row."""
    return Choices(
        np.array([[token for token, _ in row] for row in rows]),
        np.array([[log for _, log in row] for row in rows], np.float32),
        0,
    )


def search(slots=1, **decoding):
    settings = {"end_tokens": (END,), "max_new_tokens": 4, "longest": 50, "beams": 2, "min_new_tokens": 0}
    return BeamSearch(Decoding(**{**settings, **decoding}), slots)


def prompt(length=3):
    return Prompt(tokens=np.full(length, 1))


RUNNING = np.array([0])


def test_the_best_continuations_of_all_beams_are_the_next_beams():
    made = search()
    assert made.start([0], [prompt()], choices([(4, -1.0), (5, -2.0), (6, -3.0), (7, -4.0), (8, -5.0)])) == []
    assert made.input_ids.tolist() == [4, 5]
    # -1 - 1.5 and -1 - 1.6 beat -2 - 0.7: both beams go on from the first
    rows = (
        [(6, -1.5), (7, -1.6), (8, -9.0), (5, -9.0), (4, -9.0)],
        [(6, -0.7), (7, -9.0), (8, -9.0), (5, -9.0), (4, -9.0)],
    )
    assert made.advance(RUNNING, choices(*rows)) == []
    assert made.input_ids.tolist() == [6, 7]
    copies = made.copies()
    assert (copies.sources, copies.targets, copies.columns) == ([0], [1], range(3, 4))


def test_beams_begin_as_copies_of_the_row_with_the_prompt():
    made = search(slots=2, beams=3)
    start = [(4, -1.0), (5, -2.0), (6, -3.0), (7, -4.0), (8, -5.0), (3, -6.0), (2, -7.0)]
    made.start([1], [prompt(5)], choices(start))
    copies = made.copies()
    assert (copies.sources, copies.targets, copies.columns) == ([3, 3], [4, 5], range(5))
    assert made.input_ids.tolist() == [0, 0, 0, 4, 5, 6]


def test_beams_that_change_places_stay_in_their_rows():
    made = search()
    made.start([0], [prompt()], choices([(4, -1.0), (5, -1.1), (6, -9.0), (7, -9.0), (8, -9.0)]))
    made.copies()
    rows = (
        [(6, -2.0), (7, -9.0), (8, -9.0), (5, -9.0), (4, -9.0)],
        [(7, -1.0), (6, -9.0), (8, -9.0), (5, -9.0), (4, -9.0)],
    )
    made.advance(RUNNING, choices(*rows))
    assert made.copies() is None
    assert made.input_ids.tolist() == [6, 7]  # the better beam, 5 7, is still in row 1


def test_ended_answers_are_ranked_by_log_probability_per_token_and_the_search_ends_with_as_many_as_beams():
    made = search()
    made.start([0], [prompt()], choices([(4, -1.0), (END, -1.2), (5, -1.5), (6, -4.0), (7, -5.0)]))
    assert made.input_ids.tolist() == [4, 5]  # the ended one, -1.2 for one token, is kept aside
    rows = (
        [(END, -1.0), (6, -3.0), (7, -3.0), (8, -3.0), (5, -3.0)],
        [(6, -3.0), (7, -3.0), (8, -3.0), (5, -3.0), (4, -3.0)],
    )
    assert made.advance(RUNNING, choices(*rows)) == [0]
    assert made.answer(0) == [4, END]  # -2 for two tokens: -1 each


def test_an_end_below_the_best_as_many_as_beams_counts_for_nothing():
    made = search()
    made.start([0], [prompt()], choices([(4, -1.0), (5, -1.1), (END, -1.2), (6, -4.0), (7, -5.0)]))
    rows = (
        [(6, -1.0), (7, -1.1), (8, -3.0), (5, -3.0), (4, -3.0)],
        [(6, -5.0), (7, -5.0), (8, -5.0), (5, -5.0), (4, -5.0)],
    )
    for _ in range(3):
        over = made.advance(RUNNING, choices(*rows))
    assert over == [0]
    assert made.answer(0) == [4, 6, 6, 6]


def test_no_answer_ends_before_the_least_number_of_tokens():
    made = search(min_new_tokens=1)
    made.start([0], [prompt()], choices([(END, -0.1), (4, -1.0), (5, -1.1), (6, -4.0), (7, -5.0)]))
    assert made.input_ids.tolist() == [4, 5]


def test_at_the_longest_the_best_of_ended_and_unended_answers_wins():
    made = search(max_new_tokens=2)
    made.start([0], [prompt()], choices([(4, -1.0), (END, -1.4), (5, -1.5), (6, -4.0), (7, -5.0)]))
    rows = (
        [(6, -1.9), (7, -3.0), (8, -3.0), (5, -3.0), (4, -3.0)],
        [(6, -1.2), (7, -3.0), (8, -3.0), (5, -3.0), (4, -3.0)],
    )
    assert made.advance(RUNNING, choices(*rows)) == [0]
    assert made.answer(0) == [5, 6]  # -2.7 / 2 beats -1.4 / 1 and -2.9 / 2


@pytest.mark.parametrize("batch", [2, 5])
@pytest.mark.parametrize("plain", [False, True])
def test_answers_do_not_depend_on_what_runs_beside_them(world, batch, plain):
    made = world(20, beams=3, min_new_tokens=4, plain=plain)
    with made.engine(batch=1) as engine:
        alone = made.answered(engine).answers
    with made.engine(batch=batch, prefill_tokens=16) as engine:
        together = made.answered(engine)
        assert engine.statistics().copied_rows > 0
    assert together.answers == alone
    assert not together.firsts  # which beam wins, and so the first token, is known at the end
