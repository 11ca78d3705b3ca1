from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from mlbench import InvalidRunError, LoggedReply
from mlbench.toolkit.language import decode_answers, read_logged_tokens, token_difference

DATA = Path(__file__).parents[2] / "data"


def logged(tokens, index=0, dtype="<i8"):
    return LoggedReply(index=index, data=np.array(tokens, dtype).tobytes())


def test_the_first_reply_to_a_sample_counts_in_the_order_of_the_log():
    found = read_logged_tokens([logged([5, 6], 3), logged([7], 1), logged([8], 3)], samples=4, dtype="int64")
    assert {index: tokens.tolist() for index, tokens in found.items()} == {3: [5, 6], 1: [7]}
    assert list(found) == [3, 1]


def test_an_empty_reply_has_no_tokens():
    assert read_logged_tokens([logged([])], samples=1, dtype="int32")[0].tolist() == []


@pytest.mark.parametrize(
    ("replies", "complaint"),
    [
        ([], "no replies"),
        ([logged([1], 4)], "sample 4 was answered, but there are 4"),
        ([logged([1], -1)], "sample -1 was answered"),
        ([LoggedReply(index=2, data=bytes(9))], "sample 2 has 9 bytes, not int64 tokens"),
        ([logged([7, -3], 2)], "sample 2 contains -3, which is not a token id"),
        ([logged([7, 8, 9, 10], 2, "<i4")], "sample 2 contains 34359738375, which is not a token id"),  # 7 + 8 * 2**32
    ],
)
def test_what_cannot_be_tokens_names_its_sample(replies, complaint):
    with pytest.raises(InvalidRunError, match=complaint):
        read_logged_tokens(replies, samples=4, dtype="int64")


class TestDecoding:
    @pytest.fixture
    def tokenizer(self):
        return Tokenizer.from_file(str(DATA / "gptj" / "tokenizer.json"))

    def test_special_tokens_are_left_out(self, tokenizer):
        tokens = [*tokenizer.encode("The river rose.").ids, 628, 628]
        assert decode_answers([np.array(tokens), np.array([628])], tokenizer) == ["The river rose.", ""]

    def test_blanks_before_punctuation_stay_unless_asked(self, tokenizer):
        text = "It rose , did n't it ? Yes ! It 's so . They 've , we 're , I 'm ; a ' b"
        tokens = [np.array(tokenizer.encode(text).ids)]
        assert decode_answers(tokens, tokenizer) == [text]
        tidied = "It rose, didn't it? Yes! It's so. They've, we're, I'm ; a'b"
        assert decode_answers(tokens, tokenizer, tidies_blanks=True) == [tidied]


class TestDifference:
    """The share of the longer answer that the other does not hold in the same order."""

    def difference(self, reply, reference):
        return token_difference(np.array(reply, "<i8").tobytes(), np.array(reference, "<i8").tobytes(), dtype="int64")

    def test_equal_answers_do_not_differ(self):
        assert self.difference([5, 6, 7], [5, 6, 7]) == 0
        assert self.difference([], []) == 0

    def test_a_token_that_tipped_over_is_one_of_all(self):
        assert self.difference([5, 6, 9, 8], [5, 6, 7, 8]) == 0.25

    def test_a_token_put_in_shifts_the_rest_and_is_still_one(self):
        assert self.difference([5, 9, 6, 7], [5, 6, 7]) == 0.25
        assert self.difference([5, 6, 7], [5, 9, 6, 7]) == 0.25

    def test_the_order_counts(self):
        assert self.difference([4, 3, 2, 1], [1, 2, 3, 4]) == 0.75
        assert self.difference([1, 2, 4, 3], [1, 2, 3, 4]) == 0.25

    def test_a_token_counts_as_often_as_both_have_it(self):
        assert self.difference([5, 5, 5, 5], [5, 6, 7, 8]) == 0.75
        assert self.difference([5, 6, 5, 7], [5, 5, 6, 7]) == 0.25

    def test_an_answer_cut_to_a_third_is_two_thirds_off(self):
        assert self.difference(range(10), range(30)) == pytest.approx(2 / 3)
        assert self.difference(range(30), range(10)) == pytest.approx(2 / 3)

    def test_long_answers_are_compared_whole(self):
        answer = list(range(1000))
        assert self.difference([*answer[:500], 9999, *answer[501:]], answer) == pytest.approx(0.001)

    def test_an_empty_answer_has_nothing_of_another(self):
        assert self.difference([], [5]) == 1
        assert self.difference([5], []) == 1

    def test_bytes_that_are_no_tokens_have_nothing_of_any(self):
        assert token_difference(bytes(8), bytes(9), dtype="int64") == 1
        assert token_difference(bytes(9), bytes(8), dtype="int64") == 1
