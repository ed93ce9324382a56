"""Calls leave nothing behind: neither the bodies of failures nor records without end."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import httpx2

import shim
from tests.support import answers
from tests.support.faces import HELLO, MODEL, configuration

MEGABYTE = 1 << 20


def _client(first: bytes, status: int) -> Any:
    """A client over a transport in this process: the first route fails with a large body, the second answers."""
    good = json.dumps(answers.chat()).encode()

    def handle(request: httpx2.Request) -> httpx2.Response:
        is_first = request.url.host == "a.invalid"
        headers = {"content-type": "application/json"}
        return httpx2.Response(status if is_first else 200, content=first if is_first else good, headers=headers)

    # The breaker would leave the first route alone after a few calls: here each call is to fail there first.
    policy = {
        "breaker": {"failures": 10**6, "failure_rate": 1.0, "window_min": 10**6, "cooldown": 0, "max_cooldown": 0}
    }
    config = configuration("chat", "https://a.invalid/v1", "https://b.invalid/v1", policy=policy)
    return shim.OpenAI(router=config, http_client=httpx2.Client(transport=httpx2.MockTransport(handle)))


def _ask(client: Any, times: int) -> None:
    for _ in range(times):
        client.chat.completions.create(model=MODEL, messages=HELLO)


def _alive(*names: str) -> int:
    return sum(type(thing).__name__ in names for thing in gc.get_objects())


def _errors_alive() -> int:
    """All of this process: what other tests left behind is in it, so only a difference means something."""
    return sum(isinstance(thing, BaseException) for thing in gc.get_objects())


def test_five_thousand_large_failures_leave_nothing_behind() -> None:
    """200 kB each would be a gigabyte."""
    body = json.dumps(answers.error("x" * 200_000)).encode()
    client = _client(body, 500)
    _ask(client, 1100)  # the ring of the last calls is full after a thousand
    gc.collect()
    errors = _errors_alive()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    _ask(client, 200)
    grown_then = tracemalloc.get_traced_memory()[0] - before
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    _ask(client, 3700)
    gc.collect()

    attempts = client.router.calls[-1].attempts
    assert [attempt.status for attempt in attempts] == [500, 200]
    assert grown_then < 4 * MEGABYTE
    assert peak < 8 * MEGABYTE
    assert _alive("Response", "Flight", "Served", "Reply") < 50
    assert _errors_alive() - errors < 50
    client.close()


def test_the_ring_of_calls_is_capped() -> None:
    client = _client(json.dumps(answers.error()).encode(), 500)
    _ask(client, 1300)
    assert len(client.router.calls) == 1000
    client.close()


def test_good_calls_do_not_grow_the_number_of_objects() -> None:
    client = _client(json.dumps(answers.chat()).encode(), 200)
    _ask(client, 1100)
    gc.collect()
    before = len(gc.get_objects())
    _ask(client, 2000)
    gc.collect()
    assert len(gc.get_objects()) - before < 200
    client.close()


def test_without_the_collector_good_calls_are_freed_at_once() -> None:
    """No cycle through a response keeps its body until the next full collection."""
    client = _client(json.dumps(answers.chat("y" * 50_000)).encode(), 200)
    _ask(client, 1100)
    gc.collect()
    gc.disable()
    try:
        _ask(client, 200)
        alive = _alive("Flight", "Served")
    finally:
        gc.enable()
    assert alive < 20
    client.close()
