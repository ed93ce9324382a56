"""A route that comes back: one probe goes ahead, and what it finds is for all who wait."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import shim
from shim.events import BreakerState, CallStarted
from tests.support import answers
from tests.support.faces import HELLO, MODEL, Face, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import PATIENCE, Peer, Seen

ONE_IS_ENOUGH = {"breaker": {"failures": 1}, "max_retries": 2}


async def ask(client: Any, **extra: Any) -> Any:
    return await out(client.chat.completions.create(model=MODEL, messages=HELLO, **extra))


async def at_once(face: Face, client: Any, count: int) -> list[Any]:
    """So many calls side by side."""
    if face.is_async:
        return await asyncio.gather(*(ask(client) for _ in range(count)))
    return await asyncio.gather(*(asyncio.to_thread(asyncio.run, ask(client)) for _ in range(count)))


async def test_calls_that_find_a_probe_under_way_wait_for_it(face: Face, serve: Serve) -> None:
    """All routes are out. One call probes; the others, which have asked nobody, do not fail unseen."""
    all_there, started = threading.Event(), 0

    def watch(event: object) -> None:
        nonlocal started
        if isinstance(event, CallStarted):
            started += 1
            if started == 4:
                all_there.set()

    def script(request: Seen, peer: Peer) -> None:
        if len(server.seen) == 1:
            peer.answer(500, answers.error())
            return
        assert all_there.wait(PATIENCE)
        peer.answer(200, answers.chat())

    server = serve(script)
    router = shim.Router(configuration("chat", server, policy=ONE_IS_ENOUGH))
    client = face.client(router)
    with pytest.raises(shim.AllProvidersFailedError):
        await ask(client.with_options(max_retries=0))
    router.subscribe(watch)

    found = await at_once(face, client, 4)

    assert [answer.choices[0].message.content for answer in found] == [answers.PONG] * 4
    assert len(server.seen) == 5
    assert router.status().routes[0].breaker is BreakerState.CLOSED


async def test_who_may_not_wait_for_the_probe_is_told_when_to_come_again(plain: Face, serve: Serve) -> None:
    def script(request: Seen, peer: Peer) -> None:
        if len(server.seen) == 1:
            peer.answer(500, answers.error())
            return
        assert over.wait(PATIENCE)
        peer.answer(200, answers.chat())

    over = threading.Event()
    server = serve(script)
    client = plain.client(configuration("chat", server, policy={**ONE_IS_ENOUGH, "max_retries": 0}))
    with pytest.raises(shim.AllProvidersFailedError):
        await ask(client)
    probe = asyncio.ensure_future(ask(client) if plain.is_async else asyncio.to_thread(asyncio.run, ask(client)))
    assert await asyncio.to_thread(server.wait_for_requests, 2)

    with pytest.raises(shim.AllProvidersFailedError, match="back in 0 s") as caught:
        await ask(client)

    over.set()
    await probe
    assert caught.value.response.headers["retry-after"] == "1"
