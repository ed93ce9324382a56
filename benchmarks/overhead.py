"""What a call costs more than on the official client, in CPU time: passed through, and routed.

Over a loopback server, and over canned answers in this process, where the sockets' own noise is gone. And what it costs
to give a body of a thousand texts another model, against parsing and writing it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from benchmarks import canned, measure
from benchmarks.measure import Block, Row
from benchmarks.server import Server, chat_body, serving
from shim._core.prepare import Prepared, Writer
from shim._core.request import Request, read_fields, sort_headers
from shim.events import Kind
from shim.router import Router

GROUP = "A call more (CPU us, minimum / median of the rounds)"
LIMIT = 20.0
MESSAGES = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "What do you know?"}]


def chat(client: Any, model: str, calls: int) -> Block:
    """A block of sync chat calls."""

    def block() -> int:
        for _ in range(calls):
            client.chat.completions.create(model=model, messages=MESSAGES)
        return calls

    return block


def async_chat(runner: asyncio.Runner, client: Any, model: str, calls: int) -> Block:
    """A block of async chat calls, one after the other."""

    async def block() -> int:
        for _ in range(calls):
            await client.chat.completions.create(model=model, messages=MESSAGES)
        return calls

    return lambda: runner.run(block())


def _sides(make: Callable[[Any, str], Block], official: Any, ours: Any) -> dict[str, Block]:
    return {"bare": make(official, "m"), "passed": make(ours, "another"), "routed": make(ours, "ours")}


def _rows(how: str, sides: dict[str, Block], rounds: int) -> list[Row]:
    found = measure.in_turns(sides, rounds)
    return [
        measure.difference(GROUP, f"{how}, routed", found["bare"], found["routed"], LIMIT),
        measure.difference(GROUP, f"{how}, passed through", found["bare"], found["passed"], None),
    ]


def _calls(how: str, base_url: str, body: bytes | None, rounds: int, calls: int) -> list[Row]:
    """Rows for sync and async clients; over `body` when given, else over the network."""
    rows = []
    router = canned.one_route(base_url)
    for is_async in (False, True):
        transport = None if body is None else canned.Canned(body)
        official, ours = canned.clients(base_url, router, transport, is_async=is_async)
        if not is_async:
            with official, ours:
                rows += _rows(f"sync, {how}", _sides(lambda c, m: chat(c, m, calls), official, ours), rounds)
            continue
        with asyncio.Runner() as runner:
            make = lambda c, m: async_chat(runner, c, m, calls)  # noqa: E731
            rows += _rows(f"async, {how}", _sides(make, official, ours), rounds)
            runner.run(official.close())
            runner.run(ours.close())
    return rows


def over_loopback(server: Server, rounds: int, calls: int) -> list[Row]:
    """Rows of calls to the server."""
    return _calls("loopback", server.base("good"), None, rounds, calls)


def over_canned(rounds: int, calls: int) -> list[Row]:
    """Rows of calls without a socket."""
    return _calls("no socket", "http://127.0.0.1:9/good/v1", chat_body(), rounds, calls)


def renaming(rounds: int, texts: int) -> Row:
    """Giving a body of many texts another model: ours, against parsing and writing it again."""
    words = "a text of the usual length, with a word or two more so that it is about a hundred characters long, \u00e9"
    fields = {"model": "ours", "input": [f"{number} {words}" for number in range(texts)], "encoding_format": "base64"}
    body = json.dumps(fields).encode()
    writer = _writer()

    def whole() -> int:
        for _ in range(20):
            read = json.loads(body)
            read["model"] = "m"
            json.dumps(read).encode()
        return 20

    def shallow() -> int:
        for _ in range(20):
            _renamed(writer, body)
        return 20

    before = body.split(b'"input"')[1]
    if _renamed(writer, body).split(b'"input"')[1].replace(b" ", b"") != before.replace(b" ", b""):
        raise SystemExit("renaming changed more than the model")
    found = measure.in_turns({"whole": whole, "shallow": shallow}, rounds)
    what = f"{texts:,} texts renamed ({len(body) // 1000} KB), against json.loads and json.dumps"
    return measure.faster(GROUP, what, found["whole"], found["shallow"], 5, (1e6, "us"))


def _writer() -> Writer:
    router = Router(canned.one_route("http://127.0.0.1:9/v1", "embedding"))
    return router._board.families["ours"].routes[0].writer


def _renamed(writer: Writer, body: bytes) -> bytes:
    fields = read_fields(body)
    assert fields is not None
    headers = sort_headers([(b"content-type", b"application/json")])
    request = Request("POST", "/embeddings", "/embeddings", Kind.EMBEDDING, headers, body, fields=fields)
    written = writer.write(request, 0, None)
    assert isinstance(written, Prepared)
    return written.body


def collect(is_quick: bool) -> list[Row]:
    """All rows."""
    rounds, calls = (1, 2) if is_quick else (60, 25)
    with serving() as server:
        rows = over_loopback(server, rounds, calls)
    return [*rows, *over_canned(rounds, calls), renaming(rounds, 50 if is_quick else 1000)]


if __name__ == "__main__":
    measure.main(collect, __doc__)
