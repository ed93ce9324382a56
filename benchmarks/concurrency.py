"""Many calls in flight on one event loop: CPU and wall against the official client, and the TLS contexts it takes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks import canned, measure
from benchmarks.measure import Block, Row
from benchmarks.overhead import MESSAGES
from benchmarks.server import Server, serving
from shim import AsyncOpenAI

GROUP = "Calls in flight, async, loopback (CPU us a call)"


def _block(runner: asyncio.Runner, client: Any, model: str, width: int, calls: int) -> Block:
    async def worker() -> None:
        for _ in range(calls):
            await client.chat.completions.create(model=model, messages=MESSAGES)

    async def block() -> int:
        async with asyncio.TaskGroup() as group:
            for _ in range(width):
                group.create_task(worker())
        return width * calls

    return lambda: runner.run(block())


def in_flight(server: Server, width: int, calls: int, rounds: int) -> Row:
    """`width` workers that make `calls` calls each."""
    base = server.base("good")
    official, ours = canned.clients(base, canned.one_route(base), is_async=True)
    with asyncio.Runner() as runner:
        sides = {
            "bare": _block(runner, official, "m", width, calls),
            "ours": _block(runner, ours, "ours", width, calls),
        }
        found = measure.in_turns(sides, rounds)
        runner.run(official.close())
        runner.run(ours.close())
    return measure.ratio(GROUP, f"{width} in flight", found["bare"], found["ours"], 1.0)


@contextmanager
def _counted() -> Iterator[list[int]]:
    """Counts the TLS contexts that are made."""
    made = [0]
    original = ssl.SSLContext.__new__

    def counting(cls: Any, *arguments: Any, **named: Any) -> Any:
        made[0] += 1
        return original(cls, *arguments, **named)

    ssl.SSLContext.__new__ = counting  # type: ignore[method-assign]
    try:
        yield made
    finally:
        ssl.SSLContext.__new__ = original  # type: ignore[method-assign]


def tls_contexts(server: Server, providers: int, width: int) -> Row:
    """How many TLS contexts a client makes for many providers and many calls in flight."""
    names = [f"p{number}" for number in range(providers)]
    router = {
        "providers": {name: {"base_url": server.base(name), "api_key": canned.KEY} for name in names},
        "families": {name: {"kind": "chat", "routes": [f"{name}/{name}-m"]} for name in names},
    }

    async def all_at_once(client: Any) -> None:
        calls = (
            client.chat.completions.create(model=names[number % providers], messages=MESSAGES)
            for number in range(width)
        )
        await asyncio.gather(*calls)
        await client.close()

    with _counted() as made:
        client = AsyncOpenAI(api_key=canned.KEY, base_url=server.base("good"), router=router)
        asyncio.run(all_at_once(client))
    what = f"TLS contexts, {providers} providers, {width} in flight"
    return Row(GROUP, what, "1 a client", str(made[0]), str(made[0]), "1", measure.judged([made[0]], 1))


def collect(is_quick: bool) -> list[Row]:
    """All rows."""
    with serving() as server:
        if is_quick:
            return [in_flight(server, 32, 1, 1), tls_contexts(server, 3, 32)]
        return [
            in_flight(server, 32, 16, 8),
            in_flight(server, 256, 4, 8),
            tls_contexts(server, 8, 256),
        ]


if __name__ == "__main__":
    measure.main(collect, __doc__)
