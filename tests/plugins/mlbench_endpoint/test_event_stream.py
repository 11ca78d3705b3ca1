"""Streams of events, cut at every byte: examples of the standard (HTML, 9.2.6), and others whose events are evident."""

from random import Random

import pytest

pytest.importorskip("aiohttp")  # of the package

from mlbench_endpoint.client.event_stream import LONGEST_EVENT, EventReader
from mlbench_endpoint.client.failure import RequestFailed
from mlbench_endpoint.client.oddities import Oddities

STREAMS = {
    "two lines of data": (b"data: YHOO\ndata: +2\ndata: 10\n\n", [("", b"YHOO\n+2\n10")]),
    "a comment and ids": (
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        [("", b"first event"), ("", b"second event"), ("", b"third event")],
    ),
    "a space after the colon or none": (b"data:test\n\ndata: test\n\n", [("", b"test"), ("", b"test")]),
    "types": (b"event: add\ndata: 73857293\n\nevent: x\n\ndata: 7\n\n", [("add", b"73857293"), ("", b"7")]),
    "carriage returns": (b"data: a\rdata: b\r\rdata: c\r\r", [("", b"a\nb"), ("", b"c")]),
    "both": (b"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", [("", b"a\nb"), ("", b"c")]),
    "all three": (b"data: a\r\ndata: b\rdata: c\n\n\r\r\ndata: d\n\n", [("", b"a\nb\nc"), ("", b"d")]),
    "a byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [("", b"a")]),
    "a second byte order mark": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [("", b"b")]),
    "unknown fields": (b"datum: x\ndata: a\n data: y\n\n", [("", b"a")]),
    "UTF-8": ("data: \u65e5\U0001f600\n\n".encode(), [("", "\u65e5\U0001f600".encode())]),
    "line ends of Unicode": ("data: a\u2028\x0b\x0c\x85b\n\n".encode(), [("", "a\u2028\x0b\x0c\x85b".encode())]),
    "nothing": (b"", []),
    "no data": (b"data\n\ndata:\n\ndata\ndata\n\n", []),
}


def events_of(pieces, oddities):
    reader = EventReader(oddities)
    found = [event for piece in pieces for event in reader.feed(piece)]
    return [(event.kind, event.data) for event in [*found, *reader.end()]]


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_has_the_same_events_wherever_it_is_cut(name):
    stream, expected = STREAMS[name]
    oddities = Oddities()
    assert events_of([stream], oddities) == expected
    assert events_of([stream[place : place + 1] for place in range(len(stream))], oddities) == expected
    for place in range(len(stream)):
        assert events_of([stream[:place], b"", stream[place:]], oddities) == expected
    assert oddities.counts == {}


def test_an_event_is_there_as_soon_as_its_blank_line_is():
    reader = EventReader(Oddities())
    for line_end in (b"\n", b"\r", b"\r\n"):
        assert [event.data for event in reader.feed(b"data: a" + 2 * line_end)] == [b"a"]


@pytest.mark.parametrize(
    ("stream", "expected", "count"),
    [
        (b'data: {"a": 1}\n\ndata: {"b": 2}', [b'{"a": 1}', b'{"b": 2}'], 1),
        (b'data: {"a": 1}\ndata: {"b": 2}\ndata: [DONE]\n', [b'{"a": 1}', b'{"b": 2}', b"[DONE]"], 3),
        (b'data: {"a":\ndata: 1}\n\n', [b'{"a":\n1}'], 0),
    ],
)
def test_events_without_a_blank_line_are_told_apart_where_each_line_is_one(stream, expected, count):
    oddities = Oddities()
    assert [data for _, data in events_of([stream], oddities)] == expected
    assert sum(oddities.counts.values()) == count


@pytest.mark.parametrize("piece", [b"x" * 4096, b"data: " + b"x" * 4096 + b"\n", b"data:\n" * 700])
def test_an_event_without_end_is_refused_before_it_fills_the_memory(piece):
    reader = EventReader(Oddities())
    with pytest.raises(RequestFailed, match=f"more than {LONGEST_EVENT} bytes"):
        for _ in range(LONGEST_EVENT):
            assert not list(reader.feed(piece))
    assert len(reader._rest) + reader._size <= LONGEST_EVENT + 2 * 4200


def test_words_that_a_server_chooses_fill_no_record():
    oddities = Oddities()
    for number in range(1000):
        oddities.count(f"{number} " + "x" * 1000)
    assert sum(oddities.counts.values()) == 1000
    assert len(oddities.counts) <= 21
    assert max(map(len, oddities.counts)) <= 70


def read_in_pieces(pieces):
    oddities = Oddities()
    reader = EventReader(oddities)
    found = [event for piece in (b": hello\n\n", *pieces) for event in reader.feed(piece)]
    return [*found, *reader.end()], oddities.counts


@pytest.mark.parametrize("seed", range(20))
def test_whole_pieces_bring_the_same_events_as_single_bytes(seed):
    """Usual pieces are read in a shorter way, which single bytes never take."""
    random = Random(seed)
    usual = ["data: {}\n\n", 'data: {"a": 1}\n\n', "data: {}\n\ndata: {}\n\n"]
    others = ["data:  {} \n\n", "data: [DONE]\n\n", "data:{}\n\n", "\n", "data: {}\n", "data: {}\r\n\r\n", "event: x\n"]
    others += [": ping\n\n", "data: \n\n", "data", ": {}\n\n"]
    weights = [*[6] * len(usual), *[1] * len(others)]
    pieces = ["".join(random.choices(usual + others, weights, k=5)).encode() for _ in range(20)]
    stream = b"".join(pieces)
    assert read_in_pieces(pieces) == read_in_pieces([bytes([each]) for each in stream])
