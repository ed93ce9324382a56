"""The switches of a router: off and on, pin, reset, forced open; what they do to calls and what observers hear."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from shim import AllProvidersFailedError, OpenAI, Router, attempts
from shim.events import BreakerChanged, Event, Switched
from shim.roster import routers, unwatch_routers, watch_routers
from tests.support import answers
from tests.support.faces import FAMILY, HELLO, MODEL, Face, configuration, out
from tests.support.fixtures import Serve


async def served_by(client: Any, model: str = MODEL) -> str:
    return attempts(await out(client.chat.completions.create(model=model, messages=HELLO)))[-1].provider


@pytest.fixture
def router(serve: Serve) -> Router:
    return Router(configuration("chat", serve(answers.says()), serve(answers.says())))


@pytest.mark.parametrize("name", ["a", "a/m-a"], ids=["a provider", "a route"])
async def test_what_is_off_is_left_out_until_it_is_on(face: Face, router: Router, name: str) -> None:
    client = face.client(router)
    assert await served_by(client) == "a"  # and the plan is kept from here on

    router.disable(name)
    assert await served_by(client) == "b"
    router.reset()
    assert await served_by(client) == "b", "a reset is no switch"
    assert [route.is_off for route in router.status().routes] == [True, False]
    assert "switched off by hand, until router.enable('a/m-a')" in str(router.explain(MODEL))

    router.enable(name)
    assert await served_by(client) == "a"


async def test_all_off_says_how_to_go_on(plain: Face, router: Router) -> None:
    router.disable("a")
    router.disable("b")

    with pytest.raises(AllProvidersFailedError, match=r"No enabled providers.*router\.enable\('a/m-a'\)"):
        await served_by(plain.client(router))


@pytest.mark.parametrize("name", ["b", "b/m-b"], ids=["a provider", "a route"])
async def test_a_pin_sends_all_calls_to_one_route(face: Face, router: Router, name: str) -> None:
    client = face.client(router)
    await served_by(client)

    router.pin(FAMILY, name)
    assert await served_by(client) == "b"
    assert [route.is_pinned for route in router.status().routes] == [False, True]
    assert await served_by(client, f"{FAMILY}/a") == "a", "a call that names its route goes there"

    router.unpin(FAMILY)
    assert await served_by(client) == "a"


async def test_a_pinned_route_that_fails_takes_nobody_along(plain: Face, serve: Serve) -> None:
    router = Router(configuration("chat", serve(answers.fails(500)), serve(answers.says())))
    router.pin(FAMILY, "a")

    with pytest.raises(AllProvidersFailedError) as caught:
        await served_by(plain.client(router))

    assert [one.provider for one in caught.value.attempts] == ["a"]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda router: router.disable("c"), "no route or provider 'c'; known: a/m-a, b/m-b, a, b"),
        (lambda router: router.enable(""), "no route or provider ''; known"),
        (lambda router: router.pin("fam", "c"), "family 'fam' has no route or provider 'c'; its routes: a/m-a, b/m-b"),
        (lambda router: router.pin("afm", "a"), "no family 'afm'; known: fam"),
        (lambda router: router.unpin("afm"), "no family 'afm'; known: fam"),
    ],
    ids=["off: no such name", "on: no name", "pin: no such route", "pin: no such family", "unpin: no such family"],
)
def test_an_unknown_name_is_named_with_what_is_known(router: Router, act: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("/", "/")):
        act(router)


def test_observers_hear_of_every_switch(router: Router) -> None:
    heard: list[Event] = []
    router.subscribe(heard.append)

    router.force_open("a/m-a")
    router.reset("a/m-a")
    router.disable("b")
    router.enable("b")
    router.pin(FAMILY, "a")
    router.unpin(FAMILY)

    moved = [(one.subject, one.before.value, one.after.value) for one in heard if isinstance(one, BreakerChanged)]
    assert moved == [("a/m-a", "closed", "forced open"), ("a/m-a", "forced open", "closed")]
    assert [(one.subject, one.switch.value) for one in heard if isinstance(one, Switched)] == [
        ("a/m-a", "forced open"),
        ("a/m-a", "reset"),
        ("b", "off"),
        ("b", "on"),
        ("fam to a", "pinned"),
        ("fam", "unpinned"),
    ]


def test_the_routers_of_the_process_are_known_while_they_are_used() -> None:
    before = set(map(id, routers()))
    one = Router({})
    two = OpenAI(router={}, api_key="made-up").router

    assert [known for known in routers() if id(known) not in before] == [one, two]
    del one
    gc.collect()
    assert [known for known in routers() if id(known) not in before] == [two]


def test_who_watches_hears_of_new_routers(caplog: pytest.LogCaptureFixture) -> None:
    made: list[Router] = []

    def broken(router: Router) -> None:
        raise RuntimeError("a broken watcher")

    watch_routers(broken)
    watch_routers(made.append)
    one = Router({})
    unwatch_routers(made.append)
    unwatch_routers(broken)
    Router({})

    assert made == [one]
    assert caplog.text.count("RuntimeError: a broken watcher") == 1
