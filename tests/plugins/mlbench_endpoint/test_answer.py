"""Messages of servers, as JSON that may be anything: each is taken as part of an answer, or refused by name."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("aiohttp")  # of the module beside

from mlbench_endpoint.answer import Answer, AnswerFormat
from mlbench_endpoint.failure import RequestFailed, one_line, without_key
from mlbench_endpoint.response import json_object

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
    told = without_key(before + key + json.dumps({before: key + after}), key)
    assert key not in told
    assert json.dumps(key)[1:-1] not in told
