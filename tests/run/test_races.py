"""Races and hedges over a real wire: the first good answer wins, and losers are really cancelled, sync and async."""

from __future__ import annotations

import contextvars
import signal
import threading
from typing import Any

import pytest

from shim.events import Ending, Purpose, Verdict
from tests.support import answers
from tests.support.faces import HELLO, MODEL, Face, all_of, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import PATIENCE, Peer, Seen

RACE: dict[str, object] = {"mode": "race", "race_width": 3}


async def ask(client: Any, **extra: Any) -> Any:
    return await out(client.chat.completions.create(model=MODEL, messages=HELLO, **extra))


def in_flight(client: Any) -> int:
    return sum(route.health.in_flight for route in client.router._board.families["fam"].routes)


async def test_the_winner_is_returned_and_the_losers_connections_are_closed(face: Face, serve: Serve) -> None:
    losers = [serve(answers.hangs()) for _ in range(2)]
    client = face.client(configuration("chat", *losers, serve(answers.says()), policy=RACE))

    answer = await ask(client)

    assert answer.choices[0].message.content == answers.PONG
    for loser in losers:
        assert loser.wait_for_closed()
    assert in_flight(client) == 0
    call = client.router.calls[-1]
    assert (call.mode, call.ending, call.winner) == ("race", Ending.OK, 3)
    assert [attempt.verdict for attempt in call.attempts] == [None, None, Verdict.OK]
    assert [attempt.purpose for attempt in call.attempts] == [Purpose.FIRST, Purpose.RACE, Purpose.RACE]


async def test_a_loser_counts_on_no_breaker(plain: Face, serve: Serve) -> None:
    client = plain.client(configuration("chat", serve(answers.hangs()), serve(answers.says()), policy=RACE))
    for _ in range(5):
        await ask(client)
    assert all(route.state == "closed" or route.failures == 0 for route in _breakers(client))


def _breakers(client: Any) -> list[Any]:
    return [route.health.breaker for route in client.router._board.families["fam"].routes]


async def test_a_race_of_streams_hands_over_the_first_with_content(face: Face, serve: Serve) -> None:
    def role_and_hang(request: Seen, peer: Peer) -> None:
        peer.begin()
        peer.chunk(answers.event(answers.chunk("", role="assistant")))
        peer.hang()

    loser = serve(role_and_hang)
    client = face.client(configuration("chat", loser, serve(answers.says("won")), policy=RACE))
    chunks = await all_of(await ask(client, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "won"
    assert loser.wait_for_closed()
    assert in_flight(client) == 0


async def test_a_failure_in_a_race_is_no_answer(face: Face, serve: Serve) -> None:
    """The slower good answer wins over the quicker bad one."""
    gate = threading.Event()

    def late(request: Seen, peer: Peer) -> None:
        assert gate.wait(PATIENCE)
        peer.answer(200, answers.chat("late"))

    def bad(request: Seen, peer: Peer) -> None:
        peer.answer(500, answers.error())
        gate.set()

    client = face.client(configuration("chat", serve(bad), serve(late), policy=RACE))
    assert (await ask(client)).choices[0].message.content == "late"


async def test_a_hedge_starts_after_its_delay_alone(face: Face, serve: Serve) -> None:
    slow, quick = serve(answers.hangs()), serve(answers.says())
    policy = {"mode": "hedged", "hedge_delay": 0.15, "hedge_budget": 1.0}
    client = face.client(configuration("chat", slow, quick, policy=policy))
    await ask(client)
    call = client.router.calls[-1]
    assert [attempt.purpose for attempt in call.attempts] == [Purpose.FIRST, Purpose.HEDGE]
    assert call.attempts[1].started_at - call.attempts[0].started_at >= 0.14
    assert slow.wait_for_closed()


async def test_a_quick_answer_starts_no_hedge(plain: Face, serve: Serve) -> None:
    first, second = serve(answers.says()), serve(answers.says())
    policy = {"mode": "hedged", "hedge_delay": 5, "hedge_budget": 1.0}
    client = plain.client(configuration("chat", first, second, policy=policy))
    for _ in range(5):
        await ask(client)
    assert second.seen == []


async def test_hedges_come_from_a_budget(plain: Face, serve: Serve) -> None:
    """Each call earns a twentieth of a hedge; two are there from the start."""
    gate = threading.Event()
    second = serve(lambda request, peer: peer.hang())

    def slow(request: Seen, peer: Peer) -> None:
        gate.wait(0.15)
        peer.answer(200, answers.chat())

    policy = {"mode": "hedged", "hedge_delay": 0.02}
    client = plain.client(configuration("chat", serve(slow), second, policy=policy))
    for _ in range(6):
        await ask(client)
    assert len(second.seen) == 2


async def test_the_callers_context_is_seen_in_every_attempt(face: Face, serve: Serve) -> None:
    """A request hook (tracing does that) reads a context variable of the caller, in the thread of a race too."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    def note(request: Any) -> None:
        seen.append(variable.get())

    async def anote(request: Any) -> None:
        note(request)

    own = face.http_client(event_hooks={"request": [anote if face.is_async else note]})
    config = configuration("chat", serve(answers.hangs()), serve(answers.says()), policy=RACE)
    client = face.client(config, http_client=own)
    token = variable.set("mine")
    await ask(client)
    variable.reset(token)
    assert seen == ["mine", "mine"]


@pytest.mark.parametrize("mode", ["race", "sequential"])
def test_an_interrupt_in_a_sync_call_gives_the_permits_back(serve: Serve, mode: str) -> None:
    servers = [serve(answers.hangs()) for _ in range(2)]
    face = Face(False)
    client = face.client(configuration("chat", *servers, policy={"mode": mode}))
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        for server in servers if mode == "race" else servers[:1]:
            server.wait_for_requests(1)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        client.chat.completions.create(model=MODEL, messages=HELLO)
    thread.join()

    for server in servers:
        assert server.wait_for_closed()
    assert client.router._board.families["fam"].routes[0].health.breaker.state.value == "closed"
    for _ in range(200):  # a race gives them back on its own loop
        if in_flight(client) == 0:
            break
        threading.Event().wait(0.01)
    assert in_flight(client) == 0
    client.close()
