import numpy as np

from mlbench import Decoding, Prompt
from mlbench.toolkit.language import TokenProgram

PROGRAM = TokenProgram(Decoding(end_tokens=(2,), max_new_tokens=8, longest=16))


def test_a_reply_is_the_new_tokens_as_int64():
    reply = PROGRAM.answer([5, 6, 2])
    assert (reply.tolist(), reply.dtype) == ([5, 6, 2], np.int64)
    assert (PROGRAM.reply.dtype, PROGRAM.reply.shape) == ("int64", (None,))


def test_an_end_token_alone_comes_twice():
    assert PROGRAM.answer([2]).tolist() == [2, 2]


def test_a_sample_is_its_prompt():
    prompt = Prompt(tokens=np.array([1, 5]))
    assert PROGRAM.prompt(prompt) is prompt
