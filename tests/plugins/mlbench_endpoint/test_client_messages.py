"""What the engine and the process with the client say to each other arrives as it was said."""

import dataclasses
import json

import pytest
from mlbench_endpoint.client.messages import Answered, Begun, Failed, RequestMessage, TurnMessage, of_line, to_line

ANSWER = Answered(
    id=3,
    answer=[5, 7],
    finish=None,
    prompt_tokens=None,
    answer_tokens=2,
    attempts=2,
    sent_ns=10,
    first_ns=0,
    at_ns=40,
    chunk_ns=[10, 2**62],
    part_sizes=[5, 2],
    oddities={"a second [DONE]": 2},
)


@pytest.mark.parametrize(
    "message",
    [
        RequestMessage(id=1, fields={"prompt": [1, 2], "max_tokens": 9}, limit=9),
        RequestMessage(
            id=5,
            fields={},
            limit=9,
            due_ns=7,
            turns=(TurnMessage(content="so?", think_ns=3, given=None, fields={"max_tokens": 2}, limit=2),),
        ),
        Begun(id=2, first="two\nlines", at_ns=1),
        ANSWER,
        dataclasses.replace(ANSWER, answer='{"kind": "Failed"}', finish="stop"),
        Failed(id=4, reason="the server said no", attempts=3, at_ns=2**62),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_is_one_line_and_arrives_whole(message):
    line = to_line(message)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert of_line(line) == message


@pytest.mark.parametrize("field", ["id", "attempts", "at_ns"])
def test_a_message_that_lacks_something_is_refused_where_it_is_read(field):
    values = json.loads(to_line(ANSWER))
    del values[field]
    with pytest.raises(TypeError, match=field):
        of_line(json.dumps(values).encode())
