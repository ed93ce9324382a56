"""Events in order, observers that break nothing, one log line for a failed attempt."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from shim import Router
from shim.events import AttemptFinished, AttemptStarted, BreakerChanged, CallFinished, CallStarted, Event
from tests.support import answers
from tests.support.faces import HELLO, MODEL, Face, all_of, configuration, out
from tests.support.fixtures import Serve


async def ask(client: Any, **extra: Any) -> Any:
    return await out(client.chat.completions.create(model=MODEL, messages=HELLO, **extra))


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_the_events_of_a_call_come_in_order(face: Face, serve: Serve, is_stream: bool) -> None:
    router = Router(configuration("chat", serve(answers.fails(500)), serve(answers.says())))
    events: list[Event] = []
    router.subscribe(events.append)
    result = await ask(face.client(router), stream=is_stream)
    if is_stream:
        await all_of(result)
    assert [type(event) for event in events] == [
        CallStarted,
        AttemptStarted,
        AttemptFinished,
        AttemptStarted,
        AttemptFinished,
        CallFinished,
    ]
    failed, good = (event for event in events if isinstance(event, AttemptFinished))
    assert failed.then == "next: b/m-b"
    assert good.then == "answer"
    last = events[-1]
    assert isinstance(last, CallFinished)
    assert last.call == router.calls[-1]


async def test_a_breaker_that_moves_is_told(plain: Face, serve: Serve) -> None:
    router = Router(
        configuration("chat", serve(answers.fails(500)), serve(answers.says()), policy={"breaker": {"failures": 2}})
    )
    events: list[Event] = []
    router.subscribe(events.append)
    client = plain.client(router)
    for _ in range(3):
        await ask(client)
    changed = [event for event in events if isinstance(event, BreakerChanged)]
    assert [(event.subject, event.after.value) for event in changed] == [("a/m-a", "open")]


async def test_an_observer_that_raises_breaks_nothing_and_is_logged_once(
    face: Face, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    router = Router(configuration("chat", serve(answers.says())))
    seen: list[Event] = []

    def broken(event: Event) -> None:
        raise RuntimeError("a broken panel")

    router.subscribe(broken)
    router.subscribe(seen.append)
    client = face.client(router)
    for _ in range(3):
        await ask(client)
    assert caplog.text.count("RuntimeError: a broken panel") == 1
    assert len(seen) == 3 * 4


async def test_an_observer_may_leave(plain: Face, serve: Serve) -> None:
    router = Router(configuration("chat", serve(answers.says())))
    seen: list[Event] = []
    router.subscribe(seen.append)
    router.unsubscribe(seen.append)
    await ask(plain.client(router))
    assert seen == []


async def test_each_attempt_of_a_call_that_moved_is_one_log_line(
    face: Face, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    client = face.client(
        configuration("chat", serve(answers.fails(500)), serve(answers.fails(401)), serve(answers.says()))
    )
    with caplog.at_level(logging.INFO, "shim"):
        await ask(client)
        await ask(client)
    lines = [record.getMessage() for record in caplog.records if record.name == "shim" and "attempt" in record.msg]
    assert len(lines) == 5, "three of the first call, two of the second: the bad key is not asked again"
    assert "attempt 1 on a/m-a: transient" in lines[0]
    assert "HTTP 500" in lines[0]
    assert "next: b/m-b" in lines[0]
    assert "attempt 2 on b/m-b: broken" in lines[1]
    assert "attempt 3 on c/m-c: ok (ok, HTTP 200)" in lines[2]
    assert lines[2].endswith(": answer")
    assert "key-of" not in caplog.text
