"""An attempt's limit covers head and body: a stall or a drip of bytes does not restart it, in blocking clients too."""

from __future__ import annotations

import json
import threading
from typing import Any

import openai
import pytest

import shim
from shim._run.system import SystemClock
from shim._run.watchdog import watchdog
from tests.support import answers
from tests.support.faces import HELLO, MODEL, Face, configuration, each, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Script, Seen, head

LIMIT = 0.4
LATEST = LIMIT * 3 + 0.5
"""Generous, and still far from the time that a drip would take: a byte each 0.02 s for hundreds of bytes."""


def _drips_its_body(request: Seen, peer: Peer) -> None:
    body = json.dumps(answers.chat("x" * 500)).encode()
    peer.raw(head(200, [("content-type", "application/json"), ("content-length", str(len(body)))]))
    peer.drip(body, 0.02)


def _drips_its_head(request: Seen, peer: Peer) -> None:
    peer.drip(head(200, [("content-type", "application/json"), ("x-long", "y" * 500)]), 0.02)


def _stalls_in_its_body(request: Seen, peer: Peer) -> None:
    peer.raw(head(200, [("content-type", "application/json"), ("content-length", "100")]) + b'{"id')
    peer.hang()


def _drips_an_error(request: Seen, peer: Peer) -> None:
    peer.raw(head(500, [("content-type", "application/json"), ("content-length", "500")]))
    peer.drip(b" " * 500, 0.02)


SLOW: dict[str, Script] = {
    "a drip of the body": _drips_its_body,
    "a drip of the head": _drips_its_head,
    "a drip of an error's body": _drips_an_error,
    "a stall in the body": _stalls_in_its_body,
    "no answer at all": answers.hangs(),
}


@pytest.mark.parametrize("script", SLOW.values(), ids=SLOW)
async def test_it_is_ended_at_the_limit_and_the_next_route_answers(face: Face, serve: Serve, script: Script) -> None:
    slow, good = serve(script), serve(answers.says())
    client = face.client(configuration("chat", slow, good, policy={"attempt_timeout": LIMIT}))

    answer = await out(client.chat.completions.create(model=MODEL, messages=HELLO))

    assert answer.choices[0].message.content == answers.PONG
    first = client.router.calls[-1].attempts[0]
    assert first.reason == "timeout"
    assert LIMIT * 0.9 <= first.duration < LATEST
    assert slow.wait_for_closed()


async def test_a_drip_of_the_last_route_ends_at_the_deadline(face: Face, serve: Serve) -> None:
    client = face.client(configuration("chat", serve(_drips_its_body)), timeout=LIMIT)
    with pytest.raises(openai.APITimeoutError):
        await out(client.chat.completions.create(model=MODEL, messages=HELLO))
    assert client.router.calls[-1].duration < LATEST


def _drips_comments(request: Seen, peer: Peer) -> None:
    peer.begin()
    for _ in range(200):
        if peer.is_gone(0.02):
            return
        peer.chunk(b": ping\n\n")


async def test_comments_do_not_hold_a_stream_open(face: Face, serve: Serve) -> None:
    policy = {"first_chunk_timeout": LIMIT}
    client = face.client(configuration("chat", serve(_drips_comments), serve(answers.says()), policy=policy))
    stream = await out(client.chat.completions.create(model=MODEL, messages=HELLO, stream=True))
    await out(stream.close())
    assert client.router.calls[-1].attempts[0].reason == "first_chunk_timeout"
    assert client.router.calls[-1].attempts[0].duration < LATEST


async def test_a_short_deadline_still_reaches_the_second_route(face: Face, serve: Serve) -> None:
    """No attempt gets more than its fair share of what is left."""
    client = face.client(configuration("chat", serve(answers.hangs()), serve(answers.says())), timeout=1.0)
    answer = await out(client.chat.completions.create(model=MODEL, messages=HELLO))
    assert answer.choices[0].message.content == answers.PONG
    assert client.router.calls[-1].attempts[0].duration == pytest.approx(0.5, abs=0.3)


async def test_a_callers_hurry_is_nobodys_failure(face: Face, serve: Serve) -> None:
    """A limit below what the route is known to need neither opens its breaker nor benches it for the others."""

    def slow(request: Seen, peer: Peer) -> None:
        peer.is_gone(0.2)
        answers.says()(request, peer)

    server = serve(slow)
    client = face.client(configuration("chat", server))
    await out(client.chat.completions.create(model=MODEL, messages=HELLO))
    for hurry in [0.05, 0.02, 0.001, 0.0]:
        with pytest.raises(openai.APITimeoutError):
            await out(client.chat.completions.create(model=MODEL, messages=HELLO, timeout=hurry))
    await out(client.chat.completions.create(model=MODEL, messages=HELLO))
    assert [len(call.attempts) for call in client.router.calls] == [1] * 6


async def test_a_route_that_died_is_found_out_by_shares_of_a_deadline(face: Face, serve: Serve) -> None:
    """Half a deadline is less than its slowest answer took, and more than it takes as a rule."""
    waits = [0.05, 0.05, 0.4]

    def script(request: Seen, peer: Peer) -> None:
        if waits:
            peer.is_gone(waits.pop(0))
            answers.says()(request, peer)
        else:
            peer.hang()

    policy = {"breaker": {"failures": 2}}
    client = face.client(configuration("chat", serve(script), serve(answers.says()), policy=policy))
    for _ in range(3):
        await out(client.chat.completions.create(model=MODEL, messages=HELLO))
    for _ in range(3):
        await out(client.chat.completions.create(model=MODEL, messages=HELLO, timeout=0.5))
    assert [len(call.attempts) for call in client.router.calls] == [1, 1, 1, 2, 2, 1]


async def test_a_silent_stream_counts_though_whole_streams_take_longer(face: Face, serve: Serve) -> None:
    calls: list[int] = []

    def script(request: Seen, peer: Peer) -> None:
        calls.append(1)
        if len(calls) > 1:
            peer.hang()
        peer.begin()
        for part in answers.chat_events():
            peer.chunk(part)
            peer.is_gone(0.1)
        peer.end()

    first, second = serve(script), serve(answers.says())
    policy = {"first_chunk_timeout": 0.4, "breaker": {"failures": 2}}
    client = face.client(configuration("chat", first, second, policy=policy))
    for _ in range(4):
        stream = await out(client.chat.completions.create(model=MODEL, messages=HELLO, stream=True))
        assert len([item async for item in each(stream)]) > 1
    assert [len(call.attempts) for call in client.router.calls] == [1, 2, 2, 1]


async def test_a_stall_that_the_caller_alone_finds_long_is_nobodys_failure(face: Face, serve: Serve) -> None:
    def script(request: Seen, peer: Peer) -> None:
        peer.begin()
        for part in answers.chat_events()[:2]:
            peer.chunk(part)
        peer.hang()

    policy = {"breaker": {"failures": 1}}
    client = face.client(configuration("chat", serve(script), serve(script), policy=policy), timeout=0.2)
    for _ in range(2):
        stream = await out(client.chat.completions.create(model=MODEL, messages=HELLO, stream=True))
        with pytest.raises(shim.StreamTimeoutError):
            [item async for item in each(stream)]
    assert [call.attempts[0].provider for call in client.router.calls] == ["a", "a"]


def test_one_watchdog_serves_all_clients_and_threads(serve: Serve) -> None:
    servers = [serve(_drips_its_body) for _ in range(3)]
    faces = [Face(False) for _ in range(6)]
    clients = [
        face.client(configuration("chat", server, policy={"attempt_timeout": LIMIT}))
        for face, server in zip(faces, servers * 2, strict=True)
    ]
    caught: list[BaseException] = []

    def ask(client: Any) -> None:
        try:
            client.chat.completions.create(model=MODEL, messages=HELLO)
        except openai.APITimeoutError as error:
            caught.append(error)

    threads = [threading.Thread(target=ask, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(caught) == 6
    assert sum(thread.name == "shim-watchdog" for thread in threading.enumerate()) == 1
    for client in clients:
        client.close()


def test_a_clock_that_a_test_moves_has_a_watchdog_of_its_own(serve: Serve) -> None:
    """The first router of a process must not decide by which clock all others are limited."""

    class Odd:
        now = staticmethod(lambda: 0.0)

    odd: Any = Odd()
    assert watchdog(odd) is watchdog(odd)
    assert watchdog(odd) is not watchdog(SystemClock())
    assert watchdog(SystemClock()) is watchdog(SystemClock())


def test_a_watch_is_forgotten_with_its_call(serve: Serve) -> None:
    face = Face(False)
    client = face.client(configuration("chat", serve(answers.says())))
    for _ in range(5):
        client.chat.completions.create(model=MODEL, messages=HELLO)
        client.chat.completions.create(model=MODEL, messages=HELLO, stream=True).close()
    assert not watchdog(SystemClock())._watches
    client.close()
