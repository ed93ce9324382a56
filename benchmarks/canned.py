"""Answers without a socket, so that what remains is the clients' own work; and the clients that are compared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx2
import openai

import shim

KEY = "benchmark-key"
JSON = [(b"content-type", b"application/json"), (b"x-request-id", b"req_1")]
EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8")]


class Canned(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Gives the same answer to every request, sync and async."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=JSON, stream=httpx2.ByteStream(self.body))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=JSON, stream=httpx2.ByteStream(self.body))


class Events(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that comes piece by piece."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.pieces)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


class CannedStream(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Answers every request with an event stream, one event for each read: the most work a stream can be."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=EVENTS, stream=Events(self.pieces))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=EVENTS, stream=Events(self.pieces))


def one_route(base_url: str, kind: str = "chat") -> dict[str, object]:
    """A configuration with one provider and one family, `ours`, that it serves as `m`."""
    return {
        "providers": {"lab": {"base_url": base_url, "api_key": KEY}},
        "families": {"ours": {"kind": kind, "routes": ["lab/m"]}},
    }


def clients(base_url: str, router: Mapping[str, object], transport: Any = None, *, is_async: bool) -> tuple[Any, Any]:
    """The official client and ours with the same arguments; with `transport` in place of sockets."""
    official: Any = openai.AsyncOpenAI if is_async else openai.OpenAI
    ours: Any = shim.AsyncOpenAI if is_async else shim.OpenAI
    http: Any = openai.DefaultAsyncHttpxClient if is_async else openai.DefaultHttpxClient
    made = [{} if transport is None else {"http_client": http(transport=transport)} for _ in range(2)]
    return (
        official(api_key=KEY, base_url=base_url, **made[0]),
        ours(api_key=KEY, base_url=base_url, router=router, **made[1]),
    )
