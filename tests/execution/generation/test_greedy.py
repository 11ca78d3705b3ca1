"""Greedy search on choices that are written out."""

import numpy as np
import pytest

from mlbench import Decoding, Prompt
from mlbench.execution.generation.cache import Choices
from mlbench.execution.generation.greedy import Greedy

END, OTHER_END = 9, 8


def search(slots=3, **decoding):
    settings = {"end_tokens": (END,), "max_new_tokens": 5, "longest": 50, "min_new_tokens": 0}
    return Greedy(Decoding(**{**settings, **decoding}), slots)


def choices(*rows):
    return Choices(np.array(rows), np.zeros((len(rows), len(rows[0])), np.float32), 0)


def prompt(*tokens, stop=()):
    return Prompt(tokens=np.array(tokens), stop=stop)


def answer_to(made, asked, tokens):
    """Return the answer in slot 1 when these are the likeliest tokens in turn, an end token the second likeliest."""
    over = made.start([1], [asked], choices([tokens[0], END, 2]))
    for token in tokens[1:]:
        if over:
            break
        over = made.advance(np.array([1]), choices([0, 0, 0], [token, END, 2], [0, 0, 0]))
    assert over == [1]
    return made.answer(1)


@pytest.mark.parametrize(
    ("settings", "tokens", "answer"),
    [
        ({}, [4, 5, END, 6], [4, 5, END]),
        ({}, [4, 5, 6, 7, 3, 3], [4, 5, 6, 7, 3]),
        ({}, [END], [END]),
        ({"end_tokens": (END, OTHER_END)}, [4, OTHER_END, 5], [4, OTHER_END]),
        ({"min_new_tokens": 2}, [END, 4, END], [2, 4, END]),
        ({"min_new_tokens": 2, "end_tokens": (OTHER_END, END)}, [OTHER_END, END, END], [2, 2, END]),
        ({"max_new_tokens": 1}, [4], [4]),
    ],
)
def test_an_answer_ends_with_an_end_token_or_with_the_most_tokens(settings, tokens, answer):
    assert answer_to(search(**settings), prompt(3), tokens) == answer


@pytest.mark.parametrize(
    ("asked", "tokens", "answer"),
    [
        (prompt(3, stop=(5, 6)), [4, 5, 6, 7], [4, 5, 6, END]),
        (prompt(3, stop=(5, 6)), [6, 5, 4, 5, 6], [6, 5, 4, 5, 6]),  # no room for an end token
        (prompt(3, 5, stop=(5, 6)), [6, 7], [6, END]),
        (prompt(3, 5, 6, stop=(5, 6)), [7], [END]),
        (prompt(5, 6, stop=(5, 6)), [7, 7, 7, 7, 7], [7, 7, 7, 7, 7]),  # nothing but the sequence
        (prompt(4, 6, stop=(5, 6)), [7, 6, 7, 7, 7], [7, 6, 7, 7, 7]),
    ],
)
def test_an_end_token_follows_the_stop_sequence(asked, tokens, answer):
    assert answer_to(search(), asked, tokens) == answer


def test_slots_go_on_side_by_side_and_take_their_last_tokens():
    made = search()
    made.start([0, 2], [prompt(3), prompt(3, 3)], choices([4, END], [5, END]))
    assert made.advance(np.array([0, 2]), choices([6, 1], [0, 0], [END, 1])) == [2]
    assert made.answer(2) == [5, END]
    assert made.input_ids.tolist() == [6, 0, END]
    assert made.first_tokens([0, 2]).tolist() == [[4], [5]]


def test_a_sequence_that_moves_goes_on_in_its_new_slot():
    made = search()
    made.start([2], [prompt(3, 5, stop=(5, 6, 7))], choices([6, END]))
    made.move(2, 0)
    assert made.advance(np.array([0]), choices([7, END])) == [0]
    assert made.answer(0) == [6, 7, END]
