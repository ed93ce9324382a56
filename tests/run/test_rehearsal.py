"""Rehearsed faults: judged and told as real ones, marked as what they are, and gone without a trace when it is over."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from shim import AllProvidersFailedError, Attempt, BreakerState, Router, attempts
from shim.events import AttemptFinished, BreakerChanged, Event, Switched
from shim.testing import FakeClock
from tests.support import answers
from tests.support.faces import HELLO, MODEL, Face, configuration, out
from tests.support.fixtures import Serve


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def router(serve: Serve, clock: FakeClock) -> Router:
    policy = {"breaker": {"failures": 2, "cooldown": 10}}
    return Router(configuration("chat", serve(answers.says()), serve(answers.says()), policy=policy), clock=clock)


async def ask(client: Any, **extra: Any) -> tuple[Attempt, ...]:
    return attempts(await out(client.chat.completions.create(model=MODEL, messages=HELLO, **extra)))


def told(made: tuple[Attempt, ...]) -> list[tuple[str, str, bool]]:
    return [(one.provider, one.reason, one.is_rehearsal) for one in made]


def standing(router: Router) -> list[tuple[Any, ...]]:
    """All that a rehearsal must leave as it was."""
    status = router.status()
    routes = [
        (one.breaker, one.cooldown, one.misconfigured, one.attempts, dict(one.verdicts), one.p95, one.last_message)
        for one in status.routes
    ]
    return routes + [(one.breaker, one.cooldown, one.keys, one.last_message) for one in status.providers]


@pytest.mark.parametrize("subject", ["a", "a/m-a"], ids=["a provider", "a route"])
async def test_a_rehearsed_429_moves_the_call_and_leaves_no_trace(face: Face, router: Router, subject: str) -> None:
    client = face.client(router)
    before = standing(router)

    with router.rehearse(subject, status=429, retry_after=30) as rehearsal:
        made = await ask(client)
        assert told(made) == [("a", "rate_limit", True), ("b", "ok", False)]
        assert made[0].status == 429
        assert made[0].retry_at is not None, "the cooldown is as for real"
        assert told(await ask(client)) == [("b", "ok", False)], "and so is what it does to the next call"
        assert rehearsal.is_under_way
        assert rehearsal.met == 1
        assert [(one.subject, one.what) for one in router.status().rehearsals] == [
            (subject, "HTTP 429, retry after 30 s")
        ]

    assert standing(router)[0] == before[0], "the rehearsed route is as it was"
    assert standing(router)[2] == before[2], "and so is its provider"
    assert told(await ask(client)) == [("a", "ok", False)]
    assert router.status().rehearsals == ()


async def test_a_breaker_opens_recovers_and_is_as_before(plain: Face, router: Router, clock: FakeClock) -> None:
    events: list[Event] = []
    router.subscribe(events.append)
    client = plain.client(router)

    with router.rehearse("a", status=500, times=2):
        assert told(await ask(client))[0] == ("a", "server_error", True)
        assert told(await ask(client))[0] == ("a", "server_error", True)
        assert router.status().routes[0].breaker is BreakerState.OPEN
        assert told(await ask(client)) == [("b", "ok", False)]
        clock.advance(11)
        assert told(await ask(client)) == [("a", "ok", False)], "the third attempt asks the provider: it is a real one"
        assert router.status().routes[0].breaker is BreakerState.CLOSED

    moved = [(one.after.value, one.is_rehearsal) for one in events if isinstance(one, BreakerChanged)]
    assert moved == [("open", True), ("half-open", True), ("closed", True)]
    assert [one.switch.value for one in events if isinstance(one, Switched)] == ["rehearsal", "rehearsal over"]
    assert router.status().routes[0].verdicts == {"ok": 1}
    marked = [one.attempt.is_rehearsal for one in events if isinstance(one, AttemptFinished)]
    assert marked == [True, False, True, False, False, False]


async def test_what_happens_for_real_meanwhile_stays(plain: Face, serve: Serve, clock: FakeClock) -> None:
    """A real 429 that names an hour is not forgotten because a rehearsal ends."""
    sick = serve(answers.fails(429, headers=[("retry-after", "3600")]))
    router = Router(configuration("chat", sick, serve(answers.says())), clock=clock)
    client = plain.client(router)

    with router.rehearse("a", status=500, times=1):
        assert told(await ask(client))[0] == ("a", "server_error", True)
        assert told(await ask(client))[0] == ("a", "rate_limit", False)

    assert router.status().providers[0].keys[0].ready_in == pytest.approx(3600)
    assert router.status().routes[0].verdicts == {"transient": 1}


async def test_what_was_out_before_is_out_after(plain: Face, serve: Serve, clock: FakeClock) -> None:
    router = Router(
        configuration("chat", serve(answers.fails(500)), serve(answers.says()), policy={"breaker": {"failures": 1}}),
        clock=clock,
    )
    client = plain.client(router)
    await ask(client)
    before = standing(router)
    assert router.status().routes[0].breaker is BreakerState.OPEN

    with router.rehearse("a", status=401):
        router.explain(MODEL)

    assert standing(router)[0] == before[0]


async def test_a_rehearsed_timeout_waits_as_long_as_a_real_one(face: Face, router: Router, clock: FakeClock) -> None:
    client = face.client(router)
    with router.rehearse("a", fault="timeout", times=1):
        made = await ask(client)

    assert told(made) == [("a", "timeout", True), ("b", "ok", False)]
    assert made[0].duration == pytest.approx(120), "the attempt timeout of chat"


async def test_a_late_answer_is_a_real_one_that_counts_in_no_figure(plain: Face, router: Router) -> None:
    client = plain.client(router)
    with router.rehearse("a", delay=3.0):
        made = await ask(client)

    assert told(made) == [("a", "ok", True)]
    assert made[0].duration >= 3.0
    assert router.status().routes[0].p95 is None
    assert router.status().routes[0].input_tokens > 0, "but its tokens were paid for"


async def test_it_ends_when_its_seconds_are_over(plain: Face, router: Router, clock: FakeClock) -> None:
    client = plain.client(router)
    rehearsal = router.rehearse("", status=503, seconds=60).begin()
    with pytest.raises(AllProvidersFailedError) as caught:
        await ask(client)
    assert all(one.is_rehearsal for one in caught.value.attempts)
    assert "rehearsal of HTTP 503" in str(caught.value)

    clock.advance(60)
    assert router.rehearsals == ()
    assert not rehearsal.is_under_way
    assert told(await ask(client)) == [("a", "ok", False)]


async def test_two_at_once_and_each_ends_for_itself(plain: Face, router: Router) -> None:
    client = plain.client(router)
    before = standing(router)
    first = router.rehearse("a", status=500).begin()
    second = router.rehearse("a/m-a", status=401).begin()
    assert told(await ask(client))[0] == ("a", "server_error", True)

    first.end()
    assert router.rehearsals == (second,)
    assert router.status().routes[0].last_message != "", "the provider is still rehearsed"
    second.end()
    second.end()

    assert standing(router)[0] == before[0]


async def test_an_operator_acts_on_what_is_real_too(plain: Face, router: Router) -> None:
    with router.rehearse("a", status=500):
        router.force_open("a/m-a")

    assert router.status().routes[0].breaker is BreakerState.FORCED_OPEN


async def test_a_raced_call_takes_part(face: Face, serve: Serve, clock: FakeClock) -> None:
    servers = serve(answers.says()), serve(answers.says())
    router = Router(configuration("chat", *servers, policy={"mode": "race"}))
    with router.rehearse("a", status=429, retry_after=5):
        made = await ask(face.client(router))

    assert ("a", "rate_limit", True) in told(made)
    assert told(made)[-1][:2] == ("b", "ok") or ("b", "ok", False) in told(made)


async def test_a_stream_takes_part(plain: Face, router: Router) -> None:
    client = plain.client(router)
    with router.rehearse("a", fault="reset", times=1):
        stream = await out(client.chat.completions.create(model=MODEL, messages=HELLO, stream=True))
        assert told(attempts(stream))[0] == ("a", "reset", True)
        await out(stream.close())


async def test_the_log_and_the_trail_say_so(plain: Face, router: Router, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "shim")
    with router.rehearse("a", status=500, times=1):
        raw = await out(plain.client(router).chat.completions.with_raw_response.create(model=MODEL, messages=HELLO))

    assert raw.headers["x-shim-trail"] == "a/m-a=server_error (rehearsal); b/m-b=ok"
    assert "rehearsal: chat family fam: attempt 1 on a/m-a" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "c", "status": 500}, "no route or provider 'c'; known: a/m-a"),
        ({}, "name one of status .429., fault .'timeout'. and delay"),
        ({"status": 500, "fault": "timeout"}, "name one of"),
        ({"status": 200}, "status must be an error from 400 to 599, is 200"),
        ({"fault": "earthquake"}, "no fault 'earthquake'; known: timeout, connection, reset, tls"),
        ({"status": 500, "times": 0}, "times must be above 0, is 0"),
        ({"status": 500, "seconds": float("nan")}, "seconds must be above 0, is nan"),
        ({"delay": -1.0}, "delay must be above 0, is -1.0"),
        ({"fault": "timeout", "retry_after": 3}, "retry_after goes with a status"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_means_nothing_is_refused(router: Router, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        router.rehearse(**arguments)
