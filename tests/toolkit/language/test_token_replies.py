from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from mlbench import InvalidRunError, LoggedReply
from mlbench.toolkit.language import decoded, logged_tokens, tokens_agree

DATA = Path(__file__).parents[2] / "data"


def logged(tokens, index=0, dtype="<i8"):
    return LoggedReply(index=index, data=np.array(tokens, dtype).tobytes())


def test_the_first_reply_to_a_sample_counts_in_the_order_of_the_log():
    found = logged_tokens([logged([5, 6], 3), logged([7], 1), logged([8], 3)], samples=4, dtype="int64")
    assert {index: tokens.tolist() for index, tokens in found.items()} == {3: [5, 6], 1: [7]}
    assert list(found) == [3, 1]


def test_an_empty_reply_has_no_tokens():
    assert logged_tokens([logged([])], samples=1, dtype="int32")[0].tolist() == []


@pytest.mark.parametrize(
    ("replies", "complaint"),
    [
        ([], "no replies"),
        ([logged([1], 4)], "sample 4 was answered, but there are 4"),
        ([logged([1], -1)], "sample -1 was answered"),
        ([LoggedReply(index=2, data=bytes(9))], "sample 2 has 9 bytes, not int64 tokens"),
        ([logged([7, -3], 2)], "sample 2 holds -3, which is no token id"),
        ([logged([7, 8, 9, 10], 2, "<i4")], "sample 2 holds 34359738375, which is no token id"),  # 7 + 8 * 2**32
    ],
)
def test_what_cannot_be_tokens_names_its_sample(replies, complaint):
    with pytest.raises(InvalidRunError, match=complaint):
        logged_tokens(replies, samples=4, dtype="int64")


class TestDecoding:
    @pytest.fixture
    def tokenizer(self):
        return Tokenizer.from_file(str(DATA / "gptj" / "tokenizer.json"))

    def test_special_tokens_are_left_out(self, tokenizer):
        tokens = [*tokenizer.encode("The river rose.").ids, 628, 628]
        assert decoded([np.array(tokens), np.array([628])], tokenizer) == ["The river rose.", ""]

    def test_blanks_before_punctuation_stay_unless_asked(self, tokenizer):
        text = "It rose , did n't it ? Yes ! It 's so . They 've , we 're , I 'm ; a ' b"
        tokens = [np.array(tokenizer.encode(text).ids)]
        assert decoded(tokens, tokenizer) == [text]
        tidied = "It rose, didn't it? Yes! It's so. They've, we're, I'm ; a'b"
        assert decoded(tokens, tokenizer, tidies_blanks=True) == [tidied]


class TestAgreement:
    """Two answers agree when they share half their tokens."""

    def agree(self, reply, reference):
        return tokens_agree(np.array(reply, "<i8").tobytes(), np.array(reference, "<i8").tobytes(), dtype="int64")

    def test_equal_answers_agree(self):
        assert self.agree([5, 6, 7], [5, 6, 7])

    def test_a_token_that_tipped_over_does_not_matter(self):
        assert self.agree([5, 6, 9, 8], [5, 6, 7, 8])

    def test_half_the_tokens_are_enough_and_fewer_are_not(self):
        assert self.agree([1, 2, 3, 4], [1, 2, 8, 9])
        assert not self.agree([1, 2, 3, 4], [1, 7, 8, 9])

    def test_a_token_counts_as_often_as_both_have_it(self):
        assert not self.agree([5, 5, 5, 5], [5, 6, 7, 8])

    def test_an_answer_cut_to_a_third_agrees_and_a_shorter_one_does_not(self):
        assert self.agree(range(10), range(30))
        assert not self.agree(range(9), range(30))

    def test_an_empty_answer_disagrees_with_any_other(self):
        assert not self.agree([], [5])
        assert not self.agree([5], [])

    def test_bytes_that_are_no_tokens_disagree(self):
        assert not tokens_agree(bytes(8), bytes(9), dtype="int64")
        assert not tokens_agree(bytes(9), bytes(8), dtype="int64")
