"""Jobs that end before their time: cancelled early, late and twice, with a closed loop, with a source that breaks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shim
from shim import JobState
from shim.embed import upkeep
from shim.embed.store import Store
from tests.embed.serving import Provider, config, expected
from tests.support.server import Peer, Seen, Server

TEXTS = [f"row {number}" for number in range(100)]


def _kept(folder: Path) -> int:
    return sum(one.vectors for one in upkeep.stores(folder))


def _held(provider: Provider, after: int, most: float = 4) -> threading.Event:
    """Requests after so many answered texts wait for this event, `most` seconds at most."""
    freed = threading.Event()

    def holds(one: Provider, request: Seen, peer: Peer) -> bool:
        if len(one.asked) >= after:
            freed.wait(most)
        return False

    provider.faults = [holds]
    return freed


def test_a_job_cancelled_while_its_source_is_opened_sends_nothing(
    server: Server, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, opened = threading.Event(), threading.Event()
    made = Store.__init__

    def slow(store: Store, *given: Any) -> None:
        opening.set()
        assert opened.wait(4)
        made(store, *given)

    monkeypatch.setattr(Store, "__init__", slow)

    async def main() -> None:
        async with shim.AsyncOpenAI(router=config(server)) as client:
            job = client.embed(TEXTS, store=tmp_path)
            await asyncio.to_thread(opening.wait, 4)
            job.cancel()
            asyncio.get_running_loop().call_later(0.05, opened.set)
            with pytest.raises(asyncio.CancelledError):
                await job
            assert job.state is JobState.CANCELLED
            assert job.summary().not_reached == 100

    asyncio.run(main())
    assert provider.sizes == []


def test_a_job_cancelled_before_its_first_step_says_so(server: Server, tmp_path: Path) -> None:
    async def main() -> None:
        async with shim.AsyncOpenAI(router=config(server)) as client:
            job = client.embed(TEXTS, store=tmp_path)
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
            assert job.state is JobState.CANCELLED
            with pytest.raises(RuntimeError, match="no results: cancelled before it began"):
                _ = job.vectors

    asyncio.run(main())


def test_a_job_that_nobody_awaits_says_why_it_failed(server: Server, tmp_path: Path) -> None:
    async def main() -> None:
        async with shim.AsyncOpenAI(router=config(server)) as client:
            job = client.embed(str(tmp_path / "nowhere.parquet"), column="text", store=tmp_path)
            await asyncio.wait([job._task])
            assert job.state is JobState.STOPPED
            with pytest.raises(RuntimeError, match=r"no results: there is no file .*nowhere\.parquet"):
                job.summary()

    asyncio.run(main())


def test_what_was_kept_before_is_among_the_vectors_of_a_cancelled_job(
    server: Server, provider: Provider, tmp_path: Path
) -> None:
    async def main() -> None:
        async with shim.AsyncOpenAI(router=config(server)) as client:
            await client.embed(TEXTS[:30], store=tmp_path)
            freed = _held(provider, after=30)
            job = client.embed([None, *TEXTS], store=tmp_path, batch_size=10)
            await asyncio.to_thread(server.wait_until, lambda: len(provider.sizes) >= 2)
            asyncio.get_running_loop().call_later(0.05, freed.set)
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
            done = job.summary().done
            assert done >= 30
            assert int((~np.isnan(job.vectors[:, 0])).sum()) == done
            assert job.vectors[1].tolist() == np.array(expected("row 0"), dtype=np.float32).tolist()
            assert len(job.provenance) == 101
            assert job.errors["index"].tolist() == [0]

    asyncio.run(main())


def test_a_loop_that_ends_without_the_job_does_not_wait_for_requests_it_has_cancelled(
    server: Server, provider: Provider, tmp_path: Path
) -> None:
    """asyncio.run cancels the requests' own tasks too: nothing of them will ever come."""
    freed = _held(provider, after=0)

    async def main() -> None:
        client = shim.AsyncOpenAI(router=config(server))
        client.embed(TEXTS, store=tmp_path)
        await asyncio.to_thread(server.wait_until, lambda: bool(provider.sizes))

    began = time.monotonic()
    asyncio.run(main())
    freed.set()
    assert time.monotonic() - began < 3


def test_a_job_whose_loop_was_closed_ends(server: Server, provider: Provider, tmp_path: Path) -> None:
    freed = _held(provider, after=0)
    loop = asyncio.new_event_loop()

    async def main() -> Any:
        client = shim.AsyncOpenAI(router=config(server))
        job = client.embed(TEXTS, store=tmp_path)
        await asyncio.to_thread(server.wait_until, lambda: bool(provider.sizes))
        return job

    job = loop.run_until_complete(main())
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    (worker,) = [one for one in threading.enumerate() if one.name == f"shim-embed-{job.id}"]
    worker.join(4)
    freed.set()
    assert not worker.is_alive()
    assert job.state is JobState.CANCELLED


def test_a_source_that_breaks_loses_nothing_that_was_asked_for(
    server: Server, provider: Provider, tmp_path: Path
) -> None:
    _held(provider, after=13_000, most=0.1)

    def broken() -> Iterator[str]:
        yield from (f"row {number}" for number in range(16_384))
        raise RuntimeError("the database is gone")

    with shim.OpenAI(router=config(server)) as client, pytest.raises(RuntimeError, match="database is gone"):
        client.embed(broken(), store=tmp_path)
    assert sum(provider.asked.values()) == _kept(tmp_path) > 0


@pytest.mark.parametrize("after", ["before it is kept", "after it is kept"])
def test_a_reply_that_is_being_kept_when_the_user_interrupts_is_kept(
    server: Server, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    put, calls = Store.put, 0

    def interrupted(store: Store, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != 2:
            return put(store, *given)
        if after == "after it is kept":
            put(store, *given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "put", interrupted)
    with shim.OpenAI(router=config(server)) as client, pytest.raises(KeyboardInterrupt, match="are kept"):
        client.embed(TEXTS, store=tmp_path, batch_size=10, concurrency=2)
    monkeypatch.undo()
    assert sum(provider.asked.values()) == _kept(tmp_path)
    with shim.OpenAI(router=config(server)) as client:
        job = client.embed(TEXTS, store=tmp_path)
    assert max(provider.asked.values()) == 1
    assert job.vectors.tolist() == np.array([expected(text) for text in TEXTS], dtype=np.float32).tolist()
