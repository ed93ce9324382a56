"""Many calls in a row and many at once over canned answers: the board, the ring buffer and memory must stay flat.

`sys.getallocatedblocks` counts the interpreter's own live blocks exactly and costs nothing; resident memory is what the
operating system sees; tracemalloc names what grew, over a shorter run since it is slow.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import openai

import shim
from benchmarks import canned, measure
from benchmarks.measure import Row
from benchmarks.overhead import MESSAGES, chat
from benchmarks.server import chat_body

BASE = "http://127.0.0.1:9/good/v1"
MOST_BLOCKS = 1000  # the interpreter's own caches breathe by a few hundred
MOST_MB = 2.0
_PAGE = os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass(frozen=True, slots=True)
class State:
    """What may grow: live blocks, resident MB, threads, open files, and what the board holds."""

    blocks: int
    resident: float
    threads: int
    files: int
    board: int
    calls: int


def state_of(router: Any) -> State:
    """The state after a full collection."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE if sys.platform == "linux" else 0.0
    files = len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0
    return State(sys.getallocatedblocks(), resident, threading.active_count(), files, _held(router), len(router.calls))


def _held(router: Any) -> int:
    """How many things the containers of the board hold, the ring buffer of calls left out."""
    board = router._board
    held = len(board.screenings) + len(board._made_by)
    for family in board.families.values():
        for route in family.routes:
            health = route.health
            held += len(health.latencies) + len(health.breaker._buckets) + len(health.verdicts) + len(health.dropped)
            held += len(health.provider.breaker._buckets) + health.in_flight + len(route.writer._urls)
            held += sum(len(key.models) for key in health.provider.keys)
    return held


def _grown(group: str, what: str, before: State, after: State, note: str) -> Row:
    blocks, resident = after.blocks - before.blocks, after.resident - before.resident
    others = [
        f"{word} {a} → {b}"
        for word, a, b in (
            ("calls kept", before.calls, after.calls),
            ("on the board", before.board, after.board),
            ("threads", before.threads, after.threads),
            ("files", before.files, after.files),
        )
    ]
    # The windows of the breakers hold up to 12 buckets each, by the clock.
    is_flat = blocks <= MOST_BLOCKS and resident <= MOST_MB and after.calls <= 1000 and after.board <= before.board + 24
    return Row(
        group,
        what,
        "",
        f"{before.resident:.1f} → {after.resident:.1f} MB",
        f"{blocks:+,} blocks, {resident:+.1f} MB; {', '.join(others)}",
        f"flat: under {MOST_BLOCKS:,} blocks and {MOST_MB:g} MB",
        "yes" if is_flat else "no",
        note,
    )


def in_a_row(calls: int, warm: int) -> Row:
    """Growth from the first `warm` calls to the last."""
    http = openai.DefaultHttpxClient(transport=canned.Canned(chat_body()))
    router = canned.one_route(BASE)
    with shim.OpenAI(api_key=canned.KEY, base_url=BASE, router=router, http_client=http) as client:
        chat(client, "ours", warm)()
        before = state_of(client.router)
        cpu = time.process_time()
        chat(client, "ours", calls - warm)()
        cpu = (time.process_time() - cpu) / (calls - warm) * 1e6
        after = state_of(client.router)
    what = f"{calls:,} calls in a row (the first {warm:,} not counted)"
    return _grown("Soak, no socket", what, before, after, f"{cpu:.0f} us of CPU a call")


class _Crowd(httpx2.AsyncBaseTransport):
    """Answers nobody until `size` requests are in flight at once, then all of them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.waiting = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.body = chat_body()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if self.waiting == self.size:
            self.gate.set()
        await self.gate.wait()
        self.waiting -= 1
        if not self.waiting:
            self.gate = asyncio.Event()
        return httpx2.Response(200, headers=canned.JSON, stream=httpx2.ByteStream(self.body))


async def _waves(client: Any, model: str, size: int, count: int, reached: list[State], router: Any) -> None:
    for _ in range(count):
        await asyncio.gather(
            *(client.chat.completions.create(model=model, messages=MESSAGES) for _ in range(size)),
        )
        reached.append(state_of(router))


def at_once(size: int, waves: int) -> Row:
    """Growth from one wave of calls, all in flight together, to the last wave."""
    crowd = _Crowd(size)
    http = openai.DefaultAsyncHttpxClient(transport=crowd)
    router = shim.Router({**canned.one_route(BASE), "policy": {"deadline": 3600, "attempt_timeout": 3600}})
    client = shim.AsyncOpenAI(api_key=canned.KEY, base_url=BASE, router=router, http_client=http)
    reached: list[State] = []

    async def run() -> None:
        await _waves(client, "ours", size, waves, reached, router)
        await client.close()

    asyncio.run(run())
    if crowd.most != size:
        raise SystemExit(f"only {crowd.most} calls were in flight")
    what = f"{size:,} calls at once, {waves} waves (first to last)"
    attempts = sum(1 for call in router.calls if len(call.attempts) != 1)
    return _grown("Soak, no socket", what, reached[0], reached[-1], f"{attempts} calls needed a second attempt")


def traced(calls: int, warm: int) -> Row:
    """What tracemalloc sees grow over a shorter run."""
    http = openai.DefaultHttpxClient(transport=canned.Canned(chat_body()))
    with shim.OpenAI(api_key=canned.KEY, base_url=BASE, router=canned.one_route(BASE), http_client=http) as client:
        tracemalloc.start()
        chat(client, "ours", warm)()
        gc.collect()
        before = tracemalloc.take_snapshot()
        chat(client, "ours", calls)()
        gc.collect()
        after = tracemalloc.take_snapshot()
        tracemalloc.stop()
    folder = str(Path(shim.__file__).parent / "*")
    kept = [tracemalloc.Filter(True, folder, all_frames=False)]
    old, new = (sum(s.size for s in shot.filter_traces(kept).statistics("filename")) for shot in (before, after))
    grown = (new - old) / 1e3
    return Row(
        "Soak, no socket",
        f"tracemalloc, {calls:,} calls after {warm:,}: what `shim` holds",
        "",
        f"{old / 1e3:.0f} → {new / 1e3:.0f} KB",
        f"{grown:+.1f} KB",
        "flat: under 50 KB",
        measure.judged([grown], 50),
    )


def collect(is_quick: bool) -> list[Row]:
    """All rows."""
    if is_quick:
        return [in_a_row(300, 100), at_once(100, 2), traced(50, 20)]
    return [in_a_row(100_000, 10_000), at_once(10_000, 4), traced(5_000, 2_000)]


if __name__ == "__main__":
    measure.main(collect, __doc__)
