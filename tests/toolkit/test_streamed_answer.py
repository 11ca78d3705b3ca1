import numpy as np
import pytest

from mlbench import Decoding, Prompt
from mlbench.toolkit import StreamedAnswer

END = 2


def answer(*, prompt=(5, 6), stop=(), most=8, fewest=1, ends=(END,)):
    decoding = Decoding(end_tokens=ends, max_new_tokens=most, min_new_tokens=fewest, longest=32)
    return StreamedAnswer(Prompt(tokens=np.array(prompt, np.int64), stop=stop), decoding)


def test_an_answer_ends_with_the_first_end_token_and_nothing_after_it_counts():
    found = answer()
    found.add([7, 8])
    assert not found.is_over
    found.add([END, 9, 9])
    found.add([9])
    assert found.result() == [7, 8, END]


def test_each_end_token_ends_an_answer():
    found = answer(ends=(END, 9))
    found.add([7, 9, 8])
    assert found.result() == [7, 9]


def test_an_answer_ends_at_its_longest_without_an_end_token():
    found = answer(most=3)
    found.add([7, 8, 9, 10])
    assert found.result() == [7, 8, 9]


def test_an_end_token_follows_a_stop_sequence_wherever_it_is_cut():
    for parts in ([[7, 20, 21, 22]], [[7, 20], [21, 22]], [[7], [20], [21], [22]]):
        found = answer(stop=(20, 21))
        for part in parts:
            found.add(part)
        assert found.result() == [7, 20, 21, END]


def test_a_stop_sequence_may_begin_in_the_prompt():
    found = answer(prompt=(5, 20), stop=(20, 21))
    found.add([21])
    assert found.result() == [21, END]


def test_a_prompt_that_ends_with_the_stop_sequence_is_answered_with_the_end_token_at_once():
    assert answer(prompt=(5, 20, 21), stop=(20, 21)).result() == [END]


def test_a_prompt_that_is_the_stop_sequence_and_no_more_is_answered():
    assert not answer(prompt=(20, 21), stop=(20, 21)).is_over


def test_at_the_longest_no_end_token_follows_a_stop_sequence():
    found = answer(stop=(20, 21), most=2)
    found.add([20, 21])
    assert found.result() == [20, 21]


def test_an_answer_that_only_stops_coming_is_none():
    found = answer()
    found.add([7])
    with pytest.raises(ValueError, match="the answer stopped after 1 tokens"):
        found.result()


def test_an_end_token_before_the_fewest_tokens_is_a_fault_of_the_runtime():
    for tokens in ([END], [7, END]):
        with pytest.raises(ValueError, match=rf"token {len(tokens)} is an end token, which may only follow 2 others"):
            answer(fewest=2).add(tokens)
    found = answer(fewest=2)
    found.add([7, 8, END])
    assert found.result() == [7, 8, END]


@pytest.mark.parametrize("token", [7.0, "7", None, np.float32(7), [7]])
def test_what_is_no_integer_is_no_token(token):
    with pytest.raises(TypeError):
        answer().add([token])


def test_numpys_integers_are_tokens():
    found = answer(most=2)
    found.add(np.array([7, 8]))
    assert found.result() == [7, 8]
    assert {type(token) for token in found.tokens} == {int}


def test_a_prompt_that_leaves_too_few_positions_is_none():
    decoding = Decoding(end_tokens=(END,), max_new_tokens=8, longest=10)
    for count, line in ((0, "is empty"), (3, "exceed the 10 positions")):
        with pytest.raises(ValueError, match=line):
            StreamedAnswer(Prompt(tokens=np.zeros(count, np.int64)), decoding)
    assert not StreamedAnswer(Prompt(tokens=np.zeros(2, np.int64)), decoding).is_over
