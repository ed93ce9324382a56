"""Clients and routers across event loops, threads, forks, pickles and the collector."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import httpx2
import openai
import pytest

import shim
from shim import Router
from tests.support import answers
from tests.support.faces import HELLO, MODEL, Face, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Seen, Server


def ask(client: Any) -> Any:
    return client.chat.completions.create(model=MODEL, messages=HELLO)


# -- event loops


@pytest.fixture
def collected() -> Iterator[None]:
    """What a test leaves behind is collected while its complaints are still ignored."""
    yield
    gc.collect()


@pytest.mark.usefixtures("collected")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_async_client_serves_several_event_loops(serve: Serve) -> None:
    server = serve(answers.says())
    client = shim.AsyncOpenAI(router=configuration("chat", server))

    async def several() -> None:
        for answer in await asyncio.gather(*(ask(client) for _ in range(5))):
            assert answer.choices[0].message.content == answers.PONG

    for _ in range(4):
        asyncio.run(several())
    assert len(client.router.calls) == 20  # type: ignore[union-attr]
    assert all(len(call.attempts) == 1 for call in client.router.calls)  # type: ignore[union-attr]


def test_the_sockets_of_a_closed_loop_are_closed(serve: Serve) -> None:
    """A dictionary by loop does not let go of them: each connection holds its loop."""
    server = serve(answers.says())
    client = shim.AsyncOpenAI(router=configuration("chat", server))

    async def several() -> None:
        await asyncio.gather(*(ask(client) for _ in range(30)))

    for _ in range(4):
        asyncio.run(several())
        assert server.wait_for_closed(30)
    asyncio.run(client.close())  # in a loop that knows none of them
    assert server.wait_for_closed()


def test_a_loop_that_runs_keeps_its_sockets_while_others_end(serve: Serve) -> None:
    server = serve(answers.says())
    client = shim.AsyncOpenAI(router=configuration("chat", server))
    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(ask(client))
        second.run(ask(client))
        asyncio.run(ask(client))
        first.run(ask(client))
        second.run(ask(client))
        assert server.opened == 3
        second.run(client.close())
    gc.collect()
    assert server.wait_for_closed()


@pytest.mark.usefixtures("collected")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_pass_through_client_serves_several_event_loops(serve: Serve) -> None:
    server = serve(answers.says())
    client = shim.AsyncOpenAI(
        api_key="k", base_url=server.base_url, max_retries=0, router=configuration("embedding", server)
    )

    async def once() -> None:
        assert (await client.chat.completions.create(model="other", messages=HELLO)).choices  # type: ignore[arg-type]

    for _ in range(4):
        asyncio.run(once())


@pytest.mark.usefixtures("collected")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_two_loops_at_once_do_not_share_connections(serve: Serve) -> None:
    server = serve(answers.says())
    client = shim.AsyncOpenAI(router=configuration("chat", server))

    async def several() -> None:
        for _ in range(10):
            await asyncio.gather(*(ask(client) for _ in range(3)))

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(asyncio.run, several()) for _ in range(4)]:
            done.result(30)
    assert len(server.seen) == 120


# -- threads


def test_sixteen_threads_share_a_client(serve: Serve) -> None:
    server = serve(answers.says())
    bad = serve(answers.fails(500))
    client = shim.OpenAI(router=configuration("chat", bad, server))

    def work() -> int:
        return sum(ask(client).choices[0].message.content == answers.PONG for _ in range(50))

    with ThreadPoolExecutor(16) as threads:
        done = [threads.submit(work) for _ in range(16)]
        assert sum(future.result(60) for future in done) == 800
    routes = client.router._board.families["fam"].routes  # type: ignore[union-attr]
    assert [route.health.in_flight for route in routes] == [0, 0]
    assert len(server.seen) == 800
    client.close()


# -- forks


def _in_child(client: Any, results: Any) -> None:
    try:
        results.put([ask(client).choices[0].message.content for _ in range(3)])
    except BaseException as error:
        results.put(repr(error))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mode", ["sequential", "race"])
def test_a_forked_child_opens_its_own_connections(serve: Serve, mode: str) -> None:
    first, second = serve(answers.says()), serve(answers.says())
    client = shim.OpenAI(router=configuration("chat", first, second, policy={"mode": mode}))
    ask(client)
    before = {request.connection for request in (*first.seen,)}
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    child = context.Process(target=_in_child, args=(client, results))
    child.start()
    told = results.get()
    child.join(10)

    assert told == [answers.PONG] * 3
    assert child.exitcode == 0
    if mode == "sequential":
        assert len(first.seen) == 4
        assert not before & {request.connection for request in first.seen[1:]}
    assert ask(client).choices[0].message.content == answers.PONG
    client.close()


def _async_in_child(client: Any, results: Any) -> None:
    try:
        results.put(asyncio.run(ask(client)).choices[0].message.content)
    except BaseException as error:
        results.put(repr(error))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("collected")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_forked_child_may_use_the_async_client(serve: Serve) -> None:
    server = serve(answers.says())
    client = shim.AsyncOpenAI(router=configuration("chat", server))
    asyncio.run(ask(client))
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=_async_in_child, args=(client, results))
    child.start()
    assert results.get() == answers.PONG
    child.join(10)


# -- pickles


def test_a_router_travels_as_its_configuration(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIM_TEST_KEY", "sk-very-secret-key-1234")
    server = serve(answers.says())
    config = configuration("chat", server)
    config["providers"]["a"]["api_key"] = "${SHIM_TEST_KEY}"
    router = Router(config)
    router.force_open("a/m-a")

    packed = pickle.dumps(router)

    assert b"very-secret" not in packed
    again = pickle.loads(packed)
    client = shim.OpenAI(router=again)
    assert ask(client).choices[0].message.content == answers.PONG
    assert server.seen[0].headers["authorization"] == "Bearer sk-very-secret-key-1234"
    client.close()


async def test_a_client_travels_as_its_configuration(
    plain: Face, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIM_TEST_KEY", "sk-very-secret-key-1234")
    config = configuration("chat", serve(answers.says()))
    config["providers"]["a"]["api_key"] = "${SHIM_TEST_KEY}"
    client = plain.client(config, timeout=7, max_retries=4)

    packed = pickle.dumps(client)

    assert b"very-secret" not in packed
    again = pickle.loads(packed)
    plain.made.append(again)
    assert type(again) is type(client)
    assert (again.timeout, again.max_retries) == (7, 4)
    assert (await out(ask(again))).choices[0].message.content == answers.PONG


async def test_a_key_of_the_environment_stays_out_of_a_pickle(plain: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    client = plain.client(None)
    packed = pickle.dumps(client)
    assert b"of-the-environment" not in packed
    again = pickle.loads(packed)
    plain.made.append(again)
    assert again.api_key == "sk-of-the-environment"


async def test_a_client_with_its_own_http_client_refuses_in_one_line(plain: Face, serve: Serve) -> None:
    client = plain.client(configuration("chat", serve(answers.says())), http_client=plain.http_client())
    with pytest.raises(TypeError, match="http_client cannot be pickled: pickle client") as caught:
        pickle.dumps(client)
    assert "\n" not in str(caught.value)


# -- the collector


@pytest.mark.usefixtures("collected")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_dropped_client_closes_its_sockets(serve: Serve) -> None:
    server = serve(answers.says())
    client = shim.OpenAI(router=configuration("chat", server))
    ask(client)
    assert server.open == 1
    del client
    gc.collect()
    assert server.wait_for_closed()


def test_closing_ends_the_connections_of_every_pool(serve: Serve) -> None:
    """Under load a client has more pools than one."""
    everyone = threading.Barrier(40)

    def script(request: Seen, peer: Peer) -> None:
        everyone.wait(10)
        peer.answer(200, answers.chat())

    server = serve(script)
    client = shim.OpenAI(router=configuration("chat", server))
    with ThreadPoolExecutor(40) as threads:
        for done in [threads.submit(ask, client) for _ in range(40)]:
            done.result(20)
    assert server.open == 40
    client.close()
    assert server.wait_for_closed()


# -- clients dropped in a long-lived loop (openai-python issue 2440)

CELLS = 12
PATIENCE = 5.0


async def _cell(client: Any, model: str, calls: int) -> list[str]:
    asked = [client.chat.completions.create(model=model, messages=HELLO) for _ in range(calls)]
    done = await asyncio.gather(*asked, return_exceptions=True)
    return [repr(result) for result in done if isinstance(result, BaseException)]


async def _cells(make: Any, model: str) -> list[str]:
    """Each cell makes a client, calls, and drops it unclosed, as cells of a notebook do."""
    stuck: list[str] = []
    for number in range(CELLS):
        stuck += await _cell(make(), model, (32, 64)[number % 2])
    return stuck


@pytest.mark.usefixtures("collected")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", ["routed", "passed through"])
def test_clients_dropped_in_a_long_lived_loop_do_not_make_others_hang(serve: Serve, way: str) -> None:
    server = serve(answers.says())
    kind = "chat" if way == "routed" else "embedding"

    def make() -> Any:
        return shim.AsyncOpenAI(
            api_key="k",
            base_url=server.base_url,
            router=configuration(kind, server),
            timeout=PATIENCE,
            max_retries=0,
        )

    stuck = asyncio.run(_cells(make, MODEL if way == "routed" else "other"))

    assert stuck == []
    assert len(server.seen) == CELLS * 48


def test_servers_of_these_tests_count_connections(serve: Serve) -> None:
    """The measure of the tests above: an open connection is seen as one."""
    server: Server = serve(answers.says())
    client = openai.OpenAI(api_key="k", base_url=server.base_url)
    ask(client)
    assert server.open == 1
    client.close()
    assert server.wait_for_closed()


@pytest.mark.parametrize("library", [httpx2, httpx], ids=["httpx2", "httpx"])
def test_a_client_that_is_closed_during_a_call_leaves_no_connection(serve: Serve, library: Any) -> None:
    """As with a loser of a race, which ends after the call that it belonged to."""
    asked, closed = threading.Event(), threading.Event()

    def script(request: Seen, peer: Peer) -> None:
        asked.set()
        assert closed.wait(PATIENCE)
        peer.answer(200, answers.chat())

    server = serve(script)
    http = library.Client()
    client = shim.OpenAI(router=configuration("chat", server), http_client=http)
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(ask, client)
        assert asked.wait(PATIENCE)
        http._state = type(http._state).CLOSED  # the moment between the pool's closing and the answer's coming
        closed.set()
        answer.result()
    assert server.wait_for_closed()
