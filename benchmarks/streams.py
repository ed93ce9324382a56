"""A chat stream of 500 pieces, read to its end: CPU for each piece against the official client."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks import canned, measure
from benchmarks.measure import Block, Row
from benchmarks.overhead import MESSAGES
from benchmarks.server import CHUNKS, serving, stream_events

GROUP = f"A stream of {CHUNKS} pieces (CPU us a piece)"
LIMIT = 1.10


def _block(client: Any, model: str, streams: int) -> Block:
    def run() -> int:
        seen = 0
        for _ in range(streams):
            for _ in client.chat.completions.create(model=model, messages=MESSAGES, stream=True):
                seen += 1
        if seen != streams * (CHUNKS + 2):
            raise SystemExit(f"{seen} pieces of {streams} streams")
        return streams * CHUNKS

    return run


def _async_block(runner: asyncio.Runner, client: Any, model: str, streams: int) -> Block:
    async def run() -> int:
        for _ in range(streams):
            async for _ in await client.chat.completions.create(model=model, messages=MESSAGES, stream=True):
                pass
        return streams * CHUNKS

    return lambda: runner.run(run())


def _rows(how: str, base_url: str, pieces: list[bytes] | None, rounds: int, streams: int) -> list[Row]:
    rows = []
    router = canned.one_route(base_url)
    for is_async in (False, True):
        transport = None if pieces is None else canned.CannedStream(pieces)
        official, ours = canned.clients(base_url, router, transport, is_async=is_async)
        with asyncio.Runner() as runner:
            if is_async:
                sides = {
                    "bare": _async_block(runner, official, "m", streams),
                    "ours": _async_block(runner, ours, "ours", streams),
                }
            else:
                sides = {"bare": _block(official, "m", streams), "ours": _block(ours, "ours", streams)}
            found = measure.in_turns(sides, rounds, warm=min(1, rounds - 1))
            if is_async:
                runner.run(official.close())
                runner.run(ours.close())
            else:
                official.close()
                ours.close()
        what = f"{'async' if is_async else 'sync'}, {how}"
        rows.append(measure.ratio(GROUP, what, found["bare"], found["ours"], LIMIT))
    return rows


def collect(is_quick: bool) -> list[Row]:
    """All rows."""
    rounds, streams = (1, 1) if is_quick else (25, 4)
    with serving() as server:
        rows = _rows("loopback, many pieces a read", server.base("good"), None, rounds, streams)
    return rows + _rows("no socket, one piece a read", "http://127.0.0.1:9/v1", stream_events(), rounds, streams)


if __name__ == "__main__":
    measure.main(collect, __doc__)
