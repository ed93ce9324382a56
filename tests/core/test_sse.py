"""The reader of server-sent events: the WHATWG rules, and that cuts between chunks change nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.sse import Event, SSEParser

Plain = list[tuple[str | None, bytes]]


def parse(*chunks: bytes) -> list[Event]:
    parser = SSEParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def plain(events: list[Event]) -> Plain:
    return [(event.event, event.data) for event in events]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: a\n\n", [(None, b"a")], id="one event"),
        pytest.param(b"data: a\n\ndata: b\n\n", [(None, b"a"), (None, b"b")], id="two events in one chunk"),
        pytest.param(b"data:a\n\n", [(None, b"a")], id="no space after the colon"),
        pytest.param(b"data:  a\n\n", [(None, b" a")], id="only one space is taken"),
        pytest.param(b"data: a\ndata: b\n\n", [(None, b"a\nb")], id="data over two lines"),
        pytest.param(b"data\n\ndata:\n\ndata: \n\n", [], id="empty data is no event"),
        pytest.param(b"event: error\n\n", [("error", b"")], id="an error that says nothing"),
        pytest.param(b"event: error\ndata: a\n\n", [("error", b"a")], id="named event"),
        pytest.param(b"data: a\nevent: x\n\n", [("x", b"a")], id="name after the data"),
        pytest.param(b"event:\ndata: a\n\n", [(None, b"a")], id="empty name is no name"),
        pytest.param(b"event: x\n\ndata: a\n\n", [(None, b"a")], id="a name without data is forgotten"),
        pytest.param(b"id: 7\nretry: 10\ndata: a\n\n", [(None, b"a")], id="id and retry are understood"),
        pytest.param(b"dataset: a\nData: b\ndata: c\n\n", [(None, b"c")], id="other fields are ignored"),
        pytest.param(b": ping\n\n", [], id="comment alone"),
        pytest.param(b": data: no\ndata: a\n\n", [(None, b"a")], id="comment before data"),
        pytest.param(b"\n\n\ndata: a\n\n\n\ndata: b\n\n\n", [(None, b"a"), (None, b"b")], id="doubled blank lines"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [(None, b"a"), (None, b"b")], id="CRLF"),
        pytest.param(b"data: a\r\rdata: b\r\r", [(None, b"a"), (None, b"b")], id="CR"),
        pytest.param(b"data: a\r\ndata: b\n\r\n", [(None, b"a\nb")], id="mixed line ends"),
        pytest.param(b"data: a\n\r\ndata: b\r\n\n", [(None, b"a"), (None, b"b")], id="mixed blank lines"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [(None, b"a")], id="byte order mark"),
        pytest.param(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", [], id="second byte order mark is part of a name"),
        pytest.param("data: 北京🌍\n\n".encode(), [(None, "北京🌍".encode())], id="characters of several bytes"),
        pytest.param(b"data: a\n\ndata: b\n", [(None, b"a")], id="half an event is not delivered"),
        pytest.param(b"data: a\n\nda", [(None, b"a")], id="half a field is not delivered"),
    ],
)
class TestStreams:
    def test_read_whole(self, stream: bytes, expected: Plain) -> None:
        """A stream that comes in one chunk."""
        assert plain(parse(stream)) == expected

    def test_read_byte_by_byte(self, stream: bytes, expected: Plain) -> None:
        """The same stream in chunks of one byte."""
        assert plain(parse(*(stream[i : i + 1] for i in range(len(stream))))) == expected


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_offsets_frame_each_event(end: bytes) -> None:
    """`start` is the first byte of an event, `end` the byte after its blank line; comments lie outside."""
    first, second = b"data: a\n\n".replace(b"\n", end), b"event: x\ndata: b\n\n".replace(b"\n", end)
    stream = b": hello" + end + end + first + end + second
    assert [stream[event.start : event.end] for event in parse(stream)] == [first, second]


def test_settled_stops_before_the_unfinished_event() -> None:
    """All before `settled` is finished business; `pending` is the rest."""
    parser = SSEParser()
    parser.feed(b"data: a\n\n: ping\n\n\ndata: b")
    assert (parser.settled, parser.pending) == (18, b"data: b")


HOLLOW = {
    "empty data": (b"data:\n\n", [b"data:\n\n"]),
    "blank data in a block of its own": (b"data:  \n\n: c\n\n", [b"data:  \n\n"]),
    "retry alone": (b"retry: 10\n\n", [b"retry: 10\n\n"]),
    "an id alone": (b"id: 7\n\n: c\n\n", [b"id: 7\n\n"]),
    "a name alone": (b"event: ping\n\n", [b"event: ping\n\n"]),
    "a comment": (b": c\n\n\n\n", []),
    "an unknown field": (b"z: 1\n\n", []),
    "an empty id": (b"id:\n\n", []),
    "a comment after an id": (b"id: 7\ndata: a\n\n: c\n\n", [b": c\n\n"]),
    "blank lines after an id": (b"id: 7\ndata: a\n\n\n\ndata: b\n\n", [b"\n\n"]),
    "an id that was empty": (b"id:\ndata: a\n\n: c\n\n", []),
}


@pytest.mark.parametrize(("stream", "expected"), HOLLOW.values(), ids=HOLLOW)
@pytest.mark.parametrize("size", [1, 1000], ids=["byte by byte", "whole"])
def test_hollow_places_are_those_where_the_official_client_sees_an_event(
    stream: bytes, expected: list[bytes], size: int
) -> None:
    """Its decoder makes an event of every blank line after an event, id or retry field, data or none."""
    parser = SSEParser()
    for start in range(0, len(stream), size):
        parser.feed(stream[start : start + size])
    assert b"".join(stream[a:b] for a, b in parser.hollow) == b"".join(expected)


def test_event_is_delivered_at_the_first_half_of_its_last_line_end() -> None:
    """Nobody waits for the LF of a CRLF that was cut; it is swallowed when it comes."""
    parser = SSEParser()
    assert plain(parser.feed(b"data: a\r\n\r")) == [(None, b"a")]
    assert plain(parser.feed(b"\ndata: b\r\n\r\n")) == [(None, b"b")]


line = st.sampled_from(
    [b"data: x", b"data:", b"event: e", b": c", b"id: 1", b"data:  y", "data: é🌍".encode(), b"", b"z"]
)
stream_bytes = st.lists(st.tuples(line, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=30).map(
    lambda parts: b"".join(text + end for text, end in parts)
)


@given(stream=stream_bytes, mark=st.booleans(), cuts=st.lists(st.integers(0, 300), max_size=20))
def test_cuts_change_nothing(stream: bytes, mark: bool, cuts: list[int]) -> None:
    """However the stream is cut, the same events come out, at the same places, and the same bytes are settled."""
    stream = b"\xef\xbb\xbf" * mark + stream
    places = sorted({cut for cut in cuts if cut < len(stream)} | {0, len(stream)})
    chunks = [stream[a:b] for a, b in pairwise(places)]
    whole, cut = SSEParser(), SSEParser()
    expected = whole.feed(stream)
    got = [event for chunk in chunks for event in cut.feed(chunk)]
    assert [(e.event, e.data, e.start) for e in got] == [(e.event, e.data, e.start) for e in expected]
    assert (cut.settled, cut.pending) == (whole.settled, whole.pending)
