"""Replays event streams an event at a time, as a server sends them: in one piece, a stream that breaks after its first
words would look like one that broke before them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any
from unittest import mock

from shim._core.sse import SSEParser


def pieces(body: bytes) -> list[bytes]:
    """The body in pieces, each with the end of one event; together they are the body."""
    ends = [event.end for event in SSEParser().feed(body)]
    cuts = [0, *ends, len(body)]
    return [body[start:end] for start, end in pairwise(cuts) if end > start]


def event_by_event(library: Any) -> Iterator[Any]:
    """Patches that cut what the transports of a library give, on top of those that play cassettes."""

    class Events(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, body: bytes) -> None:
            self._pieces = pieces(body)

        def __iter__(self) -> Iterator[bytes]:
            yield from self._pieces

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in self._pieces:
                yield piece

    def cut(response: Any) -> Any:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream" and isinstance(response.stream, library.ByteStream):
            response.stream = Events(b"".join(response.stream))
        return response

    plays, async_plays = library.HTTPTransport.handle_request, library.AsyncHTTPTransport.handle_async_request

    def handle_request(self: Any, request: Any) -> Any:
        return cut(plays(self, request))

    async def handle_async_request(self: Any, request: Any) -> Any:
        return cut(await async_plays(self, request))

    yield mock.patch.object(library.HTTPTransport, "handle_request", handle_request)
    yield mock.patch.object(library.AsyncHTTPTransport, "handle_async_request", handle_async_request)
