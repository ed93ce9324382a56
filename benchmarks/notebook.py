"""What a live panel costs: 1,000 async calls with it against the same without it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks import canned, measure
from benchmarks.measure import Block, Row
from benchmarks.overhead import MESSAGES
from benchmarks.server import Server, serving
from notebook_ext.feed import GAP, Feed
from notebook_ext.watch import Watch
from shim import Router

GROUP = "A live panel, async, loopback (CPU us a call)"
WIDTH = 32


class Page:
    """Does what the widget does with a snapshot: makes plain data of it and writes them as JSON, ten times a second."""

    every = GAP

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.sent = 0

    def refresh(self) -> None:
        json.dumps(self._watch.snapshot().to_builtins())
        self.sent += 1

    def beat(self) -> None:
        """Nobody waits for it."""


@contextmanager
def watched(router: Router) -> Iterator[Page]:
    """The router with a panel on it, until the end of the block."""
    feed = Feed()
    watch = Watch(router, feed.notice)
    page = Page(watch)
    feed.join(page)
    try:
        yield page
    finally:
        watch.close()
        feed.close()


def _block(runner: asyncio.Runner, client: Any, calls: int, *, with_panel: bool) -> Block:
    async def worker() -> None:
        for _ in range(calls // WIDTH):
            await client.chat.completions.create(model="ours", messages=MESSAGES)

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(WIDTH):
                group.create_task(worker())

    def block() -> int:
        if with_panel:
            with watched(client.router):
                runner.run(all_of_them())
        else:
            runner.run(all_of_them())
        return calls // WIDTH * WIDTH

    return block


def with_a_panel(server: Server, calls: int, rounds: int) -> Row:
    """The same client, with and without a panel."""
    base = server.base("good")
    official, client = canned.clients(base, canned.one_route(base), is_async=True)
    with asyncio.Runner() as runner:
        sides = {
            "off": _block(runner, client, calls, with_panel=False),
            "on": _block(runner, client, calls, with_panel=True),
        }
        found = measure.in_turns(sides, rounds)
        runner.run(official.close())
        runner.run(client.close())
    return measure.ratio(GROUP, f"{calls:,} calls, panel on against off", found["off"], found["on"], 1.03)


def collect(is_quick: bool) -> list[Row]:
    """The rows of this benchmark."""
    with serving() as server:
        return [with_a_panel(server, 64 if is_quick else 1000, 1 if is_quick else 15)]


if __name__ == "__main__":
    measure.main(collect, __doc__)
