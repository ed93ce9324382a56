"""The connection pools of one OpenAI client: per event loop, fresh after a fork, and more of them under load.

A client that the SDK made may be replaced by siblings with the same settings; a client that the caller handed in is
used as it is. The libraries' pools search all their connections for each request: with many in flight a few small pools
cost much less than one large one (`benchmarks/`), so a sibling is added for each `PER_POOL` requests in flight.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import quote_plus

from shim._http.sockets import end_all

PER_POOL = 24
MOST_POOLS = 16
_KEPT_URLS = 1024


def _loop() -> Any:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Pools:
    """Hands out clients to send with. `sibling` makes another client like the first; None when the caller owns it."""

    def __init__(self, client: Any, url_type: Any, sibling: Callable[[], Any] | None) -> None:
        # Weak: the pools live as long as the client does, and must not keep it from being closed when it is dropped.
        self._client = weakref.ref(client)
        self._url_type = url_type
        self._sibling = sibling
        self._is_async = hasattr(client, "aclose")
        self._urls: dict[str, Any] = {}
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._first_loop: weakref.ref[Any] | None = None
        self._by_loop: weakref.WeakKeyDictionary[Any, list[_Shard]] = weakref.WeakKeyDictionary()
        self._shards = [_Shard(None)]
        self._is_child = False

    def url(self, text: str, secrets: tuple[str, ...] = ()) -> Any:
        """The parsed form of a URL, kept: parsing costs more than all the rest of a request.

        A URL that carries a key is shown without it: the libraries write URLs into their logs.
        """
        known = self._urls.get(text)
        if known is None:
            hidden = tuple(form for secret in secrets for form in (secret, quote_plus(secret)) if form in text)
            known = _hiding(self._url_type)(text, hidden) if hidden else self._url_type(text)
            if len(self._urls) < _KEPT_URLS:
                self._urls[text] = known
        return known

    def lease(self) -> tuple[Any, Callable[[], None]]:
        """A client for one exchange, and what to call when it is over."""
        if self._sibling is None:
            return self._client(), _nothing
        shards = self._here()
        for shard in shards:
            if len(shard.out) < PER_POOL:
                break
        else:
            shard = self._another(shards)
        ticket = next(_tickets)
        shard.out.add(ticket)
        return shard.client or self._client(), lambda: shard.out.discard(ticket)

    def local_client(self) -> Any:
        """The client whose connections belong to this loop and process."""
        return self._client() if self._sibling is None else self._here()[0].client or self._client()

    def _here(self) -> list[_Shard]:
        if self._pid != os.getpid():  # connections of the parent are not ours to use
            self._start()
            self._is_child = True
            self._shards = [_Shard(self._made())]
        loop = _loop() if self._is_async else None
        if loop is None:
            return self._shards
        if self._first_loop is not None and self._first_loop() is loop:
            return self._shards
        shards = self._by_loop.get(loop)
        return self._settled(loop) if shards is None else shards

    def _settled(self, loop: Any) -> list[_Shard]:
        """The pools of a loop that comes for the first time."""
        with self._lock:
            self._end_closed()
            if self._first_loop is None and not self._is_child:
                self._first_loop = weakref.ref(loop)
                return self._shards
            shards = self._by_loop[loop] = [_Shard(self._made())]
            return shards

    def end_closed(self) -> None:
        """Close the connections of event loops that are closed: nobody else can, and they keep their loops alive."""
        with self._lock:
            self._end_closed()

    def _end_closed(self) -> None:
        for loop in [loop for loop in self._by_loop if loop.is_closed()]:
            for shard in self._by_loop.pop(loop):
                end_all(shard.client)
        first = None if self._first_loop is None else self._first_loop()
        if self._first_loop is not None and (first is None or first.is_closed()):
            for shard in self._shards:
                end_all(shard.client or self._client())
            self._shards, self._first_loop = [_Shard(None)], None

    def _another(self, shards: list[_Shard]) -> _Shard:
        with self._lock:
            if len(shards) < MOST_POOLS:
                shards.append(_Shard(self._made()))
                return shards[-1]
        return min(shards, key=lambda shard: len(shard.out))

    def _made(self) -> Any:
        assert self._sibling is not None
        return self._sibling()

    def siblings(self) -> list[Any]:
        """The clients that were made beside the first, for closing: those of this thread's or loop's alone."""
        loop = _loop() if self._is_async else None
        shards = self._by_loop.get(loop, []) if loop is not None else []
        return [shard.client for shard in (*self._shards, *shards) if shard.client is not None]


class _Shard:
    __slots__ = ("client", "out")

    def __init__(self, client: Any) -> None:
        self.client = client
        self.out: set[int] = set()


_tickets = itertools.count()


def _nothing() -> None:
    pass


@cache
def _hiding(url_type: Any) -> Any:
    class HidingURL(url_type):  # type: ignore[misc]
        """A URL whose text form lacks the keys in it; the parts that are sent are whole."""

        def __init__(self, text: str, hidden: tuple[str, ...]) -> None:
            super().__init__(text)
            self._hidden = hidden

        def __str__(self) -> str:
            text: str = super().__str__()
            for secret in self._hidden:
                text = text.replace(secret, "***")
            return text

        __repr__ = __str__

    return HidingURL
