"""Messages of servers, as JSON that may be anything: each is taken as part of an answer, or refused by name."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("aiohttp")  # of the module beside

from mlbench_endpoint.api import Api
from mlbench_endpoint.client.answer import Answer, AnswerFormat
from mlbench_endpoint.client.failure import RequestFailed, one_line, without_secrets
from mlbench_endpoint.client.json_object import json_object

VOCABULARY, LIMIT = 100, 8

drawn = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner), max_leaves=5
)


ODD = (-1, 0, 2**63, VOCABULARY, LIMIT + 1, 1.5, True, None, "", "seven", "\ud800", [], [7] * 9, [[7]], {}, {"a": 1})


def sound_answer():
    """Return the messages of three tokens and the usage, as JSON values."""
    parts = [([5], None), ([6], None), ([7], "stop")]
    choices = [{"index": 0, "token_ids": ids, "text": "a", "finish_reason": finish} for ids, finish in parts]
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 3}}
    return [*({"model": "m", "choices": [choice]} for choice in choices), usage]


def places(value):
    """Return every place in some JSON at which something else may stand: its container, and its key there."""
    inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return [place for key, each in inner for place in ((value, key), *places(each))]


def read(sent, *, is_text):
    form = AnswerFormat(is_text=is_text, is_stream=True, vocabulary=VOCABULARY, choices=1, has_usage=True)
    answer = Answer(form, LIMIT)
    for message in sent:
        answer.add(json_object(json.dumps(message).encode()))
    answer.check()
    return answer


@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_an_answer_with_an_odd_value_anywhere_is_refused_by_name_or_is_one_all_the_same(odd, is_text):
    for number in range(len(places(sound_answer()))):
        sent = sound_answer()
        container, key = places(sent)[number]
        container[key] = odd
        try:
            answer = read(sent, is_text=is_text)
        except RequestFailed as error:
            assert one_line(str(error)).isprintable()
            continue
        counts = answer.prompt_tokens, answer.answer_tokens
        assert answer.finish in ("stop", "length"), sent
        assert all(type(count) is int and count >= 0 for count in counts), sent
        assert answer.answer_tokens <= LIMIT, sent
        if is_text:
            assert "".join(answer.parts).encode(), sent
        else:
            tokens = [token for part in answer.parts for token in part]
            assert all(type(token) is int and 0 <= token < VOCABULARY for token in tokens), sent
            assert answer.answer_tokens - len(tokens) in (0, 1), sent


@pytest.mark.parametrize("count", [2**31, 2**63, 1e300], ids=repr)
def test_a_count_that_no_column_of_a_record_holds_is_refused(count):
    sent = sound_answer()
    sent[-1]["usage"]["prompt_tokens"] = count
    with pytest.raises(RequestFailed, match="as prompt_tokens"):
        read(sent, is_text=True)


def test_a_sound_answer_is_read():
    assert read(sound_answer(), is_text=False).parts == [[5], [6], [7]]
    assert read(sound_answer(), is_text=True).parts == ["a", "a", "a"]


@drawn
@given(st.binary() | anything.map(lambda value: json.dumps(value).encode()))
def test_bytes_are_a_json_object_or_refused_by_name(data):
    try:
        assert isinstance(json_object(data), dict)
    except RequestFailed as error:
        assert one_line(str(error)).isprintable()


@drawn
@given(st.text('01bdf"\\', min_size=4), st.text('01bdf"\\'), st.text('01bdf"\\'))
def test_no_key_is_left_in_a_text_or_in_json(key, before, after):
    told = without_secrets(before + key + json.dumps({before: key + after}), [key])
    assert key not in told
    assert json.dumps(key)[1:-1] not in told


def chat(*messages):
    """Return what an answer of these deltas holds, its oddities, and its counted tokens."""
    form = AnswerFormat(is_text=True, api=Api.CHAT, is_stream=True, vocabulary=0, choices=1, has_usage=False)
    answer = Answer(form, 100, "m")
    brought = []
    for message in messages:
        fields = json_object(message if isinstance(message, bytes) else json.dumps(message).encode())
        brought.append(answer.add(fields))
    answer.end()
    answer.check()
    return brought, answer.oddities.counts, answer.answer_tokens


def delta(finish=None, **fields):
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def test_all_that_a_model_generates_in_a_chat_is_text():
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a"'}}
    brought, oddities, _ = chat(
        delta(role="assistant", content=""),
        delta(reasoning_content="hm ", reasoning="hm "),
        delta(content=[{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]),
        delta(refusal="no "),
        delta(tool_calls=[call]),
        delta("tool_calls", tool_calls=[{"index": 0, "function": {"arguments": ": 1}"}}]),
    )
    assert brought == [None, "hm ", "one two", "no ", 'f{"a"', ": 1}"]
    assert oddities == {"finish_reason 'tool_calls'": 1}


def test_a_whole_message_beside_the_last_empty_delta_is_not_read_again():
    last = {"index": 0, "delta": {}, "message": {"role": "assistant", "content": "one two"}, "finish_reason": "stop"}
    assert chat(delta(content="one "), delta(content="two"), {"choices": [last]})[0] == ["one ", "two", None]


@pytest.mark.parametrize(
    ("parts", "tokens"),
    [
        ([{"content": "one "}, {"content": "two"}], 2),
        ([{"reasoning_content": "one "}, {"content": "two"}], 9),
        ([{"content": "hm</think>"}, {"content": "two"}], 9),
        ([{"content": "one "}] * 3, 9),
    ],
    ids=["not sent", "sent", "sent as text", "sent in part"],
)
def test_thoughts_that_a_server_counts_and_keeps_to_itself_are_no_tokens_of_the_answer(parts, tokens):
    usage = {"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}}
    _, oddities, counted = chat(*(delta(**part) for part in parts), delta("stop"), {"choices": [], "usage": usage})
    assert counted == tokens
    assert oddities == ({"thoughts that are counted and not sent": 1} if tokens == 2 else {})


def test_a_character_that_is_divided_between_messages_is_whole_in_the_text():
    halves = [
        b'{"choices": [{"delta": {"content": "a\\ud83d"}}]}',
        b'{"choices": [{"delta": {"content": "\\ude00b"}}]}',
    ]
    brought, oddities, _ = chat(*halves, delta("stop"))
    assert brought == ["a", "\U0001f600b", None]
    assert oddities == {"a character divided between two messages": 1}


@pytest.mark.parametrize("second", ["", "b", "\\ud83d"])
def test_half_a_character_is_refused(second):
    halves = [b'{"choices": [{"delta": {"content": "a\\ud83d"}}]}', b'{"choices": [{"delta": {"content": "%s"}}]}']
    halves[1] = halves[1] % second.encode()
    with pytest.raises(RequestFailed, match="not Unicode"):
        chat(*halves, delta("stop"))
