"""`embeddings.create` against the official client's: base64 answers, and a provider that answers numbers."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks import canned, measure
from benchmarks.measure import Block, Row
from benchmarks.server import Server, serving

LIMITS = {"good": 1.5, "floats": 20.0}
WORDS = {"good": "base64", "floats": "numbers"}


def _texts(rows: int) -> list[str]:
    words = "a text of the usual length, with a word or two more so that it is about a hundred characters long"
    return [f"{number} {words}" for number in range(rows)]


def _check(official: Any, ours: Any) -> None:
    """Both give the same vectors; a fast wrong answer would be worth nothing."""
    if [row.embedding for row in official.data] != [row.embedding for row in ours.data]:
        raise SystemExit("the vectors differ from the official client's")


def _sync(server: Server, how: str, texts: list[str], rounds: int) -> Row:
    router = canned.one_route(server.base(how), "embedding")
    official, ours = canned.clients(server.base(how), router, is_async=False)

    def block(client: Any, model: str) -> Block:
        return lambda: len([client.embeddings.create(model=model, input=texts)])

    with official, ours:
        _check(official.embeddings.create(model="m", input=texts), ours.embeddings.create(model="ours", input=texts))
        found = measure.in_turns({"bare": block(official, "m"), "ours": block(ours, "ours")}, rounds, warm=0)
    return measure.faster(_group(texts), f"sync, {WORDS[how]}", found["bare"], found["ours"], LIMITS[how])


def _async(server: Server, how: str, texts: list[str], rounds: int) -> Row:
    router = canned.one_route(server.base(how), "embedding")
    official, ours = canned.clients(server.base(how), router, is_async=True)

    async def one(client: Any, model: str) -> int:
        await client.embeddings.create(model=model, input=texts)
        return 1

    with asyncio.Runner() as runner:
        sides: dict[str, Block] = {
            "bare": lambda: runner.run(one(official, "m")),
            "ours": lambda: runner.run(one(ours, "ours")),
        }
        found = measure.in_turns(sides, rounds)
        runner.run(official.close())
        runner.run(ours.close())
    return measure.faster(_group(texts), f"async, {WORDS[how]}", found["bare"], found["ours"], LIMITS[how])


def _group(texts: list[str]) -> str:
    return f"`embeddings.create`, {len(texts):,} texts a call (CPU ms a call)"


def collect(is_quick: bool) -> list[Row]:
    """All rows."""
    rows, dimensions = (20, 64) if is_quick else (1000, 1536)
    few, many = (1, 2) if is_quick else (4, 15)
    with serving(rows, dimensions) as server:
        texts = _texts(rows)
        return [
            _sync(server, "good", texts, many),
            _async(server, "good", texts, many),
            _sync(server, "floats", texts, few),
            *([] if is_quick else [_async(server, "floats", texts, 2)]),
        ]


if __name__ == "__main__":
    measure.main(collect, __doc__)
