"""Cassettes on both libraries, sync and async: recorded from a server on loopback, replayed when it is gone."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

import shim
from shim.testing import CassetteError, FakeProvider, UnrecordedRequest, UnusedRecordings, answers, use_cassette
from shim.testing.cassette import Cassette
from shim.testing.deck import DECK
from shim.testing.pieces import pieces
from shim.testing.use import path_for, set_default_mode
from tests.support.answers import chat, chat_events, embeddings, embeds, fails, hangs, says, streams
from tests.support.faces import MODEL, Face, all_of, configuration, out
from tests.support.server import Peer, Seen, Server

Serve = Callable[[Any], Server]


async def chat_with(client: Any, text: str = "hi", **more: Any) -> Any:
    messages: Any = [{"role": "user", "content": text}]
    return await out(client.chat.completions.create(model=MODEL, messages=messages, **more))


async def embed(client: Any, *texts: str, **more: Any) -> Any:
    return await out(client.embeddings.create(model=MODEL, input=list(texts), **more))


def gone(servers: list[Server]) -> None:
    for server in servers:
        server.close()


def numbered() -> Any:
    """A script that counts its answers."""
    numbers = iter(range(1, 1000))
    lock = threading.Lock()

    def script(request: Seen, peer: Peer) -> None:
        with lock:
            number = next(numbers)
        peer.answer(200, chat(f"answer {number}"))

    return script


async def test_what_was_recorded_replays_without_the_server(face: Face, serve: Serve, tmp_path: Path) -> None:
    server = serve(says("hello"))
    config = configuration("chat", server)
    with use_cassette(tmp_path / "a.yaml", record="once") as cassette:
        live = await chat_with(face.client(config))
    assert len(cassette.new) == 1
    gone([server])
    with use_cassette(tmp_path / "a.yaml") as cassette:
        replayed = await chat_with(face.client(config))
    assert replayed == live
    assert (len(cassette.played), len(cassette.unused), len(cassette.new)) == (1, 0, 0)


async def test_a_failed_attempt_is_an_exchange_of_its_own(face: Face, serve: Serve, tmp_path: Path) -> None:
    servers = [serve(fails(429, headers=[("retry-after", "7")])), serve(says("b"))]
    config = configuration("chat", *servers)
    with use_cassette(tmp_path / "a.yaml", record="once"):
        live = await chat_with(face.client(config))
    gone(servers)
    with use_cassette(tmp_path / "a.yaml", all_used=True) as cassette:
        replayed = await chat_with(face.client(shim.Router(config)))
    assert [one.said.status for one in cassette.played] == [429, 200]
    assert ("retry-after", "7") in cassette.played[0].said.headers
    trails = [[(one.provider, one.reason) for one in shim.attempts(answer)] for answer in (live, replayed)]
    assert trails == [[("a", "rate_limit"), ("b", "ok")]] * 2


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"], ids=["lf", "crlf"])
async def test_a_stream_is_kept_byte_for_byte(face: Face, serve: Serve, tmp_path: Path, end: bytes) -> None:
    parts = [b": ping" + end, *(one.replace(b"\n\n", end) for one in chat_events(["Hé", "llo "]))]
    server = serve(streams(parts))
    config = configuration("chat", server)
    texts = []
    for mode in ("once", "none"):
        with use_cassette(tmp_path / "a.yaml", record=mode) as cassette:
            chunks = await all_of(await chat_with(face.client(config), stream=True))
        texts.append("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
        gone([server])
    assert texts == ["Héllo "] * 2
    assert cassette.played[0].said.body == b"".join(parts)


async def test_a_stream_that_broke_after_its_first_words_breaks_there_again(
    face: Face, serve: Serve, tmp_path: Path
) -> None:
    parts = [*chat_events(["one ", "two "])[:3], b'data: {"error": {"message": "overloaded"}}\n\n']
    config = configuration("chat", serve(streams(parts)), serve(says("another")))
    for mode in ("once", "none"):
        with use_cassette(tmp_path / "a.yaml", record=mode), pytest.raises(shim.StreamInterruptedError) as raised:
            await all_of(await chat_with(face.client(shim.Router(config)), stream=True))
        assert raised.value.partial == "one two "


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", []),
        (b"data: 1\n\ndata: 2\n\n", [b"data: 1\n\n", b"data: 2\n\n"]),
        (b": ping\n\ndata: 1\r\n\r\n", [b": ping\n\ndata: 1\r\n\r\n"]),
        (b"data: 1\n\ndata: ha", [b"data: 1\n\n", b"data: ha"]),
        (b"no event at all", [b"no event at all"]),
    ],
    ids=["nothing", "two", "a comment goes with what follows", "half an event", "no event"],
)
def test_pieces_of_a_stream(body: bytes, expected: list[bytes]) -> None:
    assert pieces(body) == expected


@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_vectors_replay_exactly(face: Face, serve: Serve, tmp_path: Path, encoding: Any) -> None:
    server = serve(embeds(64))
    config = configuration("embedding", server)
    answers = []
    for mode in ("once", "none"):
        with use_cassette(tmp_path / "a.yaml", record=mode):
            answers.append(await embed(face.client(config), "one", "two", encoding_format=encoding))
        gone([server])
    assert answers[0].data == answers[1].data
    text = (tmp_path / "a.yaml").read_text()
    assert ('"packed": "f64", "length": 64, "norm": 1.0' in text) == (encoding == "float")
    assert len(text) < 3000


async def test_gzip_is_decoded_when_it_is_written(face: Face, serve: Serve, tmp_path: Path) -> None:
    """Case V04: the replay equals the live answer, and the headers fit the stored body."""

    def zipped(request: Seen, peer: Peer) -> None:
        body = gzip.compress(json.dumps(embeddings(request)).encode())
        headers = [("content-encoding", "gzip"), ("content-type", "application/json")]
        peer.answer(200, body, headers)

    server = serve(zipped)
    config = configuration("embedding", server)
    answers = []
    for mode in ("once", "none"):
        with use_cassette(tmp_path / "a.yaml", record=mode) as cassette:
            answers.append(await embed(face.client(config), "one"))
        gone([server])
    assert answers[0].data == answers[1].data
    said = cassette.played[0].said
    assert json.loads(said.body)["object"] == "list"
    assert not {"content-encoding", "content-length"} & {name for name, _ in said.headers}


async def test_the_official_client_replays_too(face: Face, serve: Serve, tmp_path: Path) -> None:
    server = serve(says("plain"))
    kind = openai.AsyncOpenAI if face.is_async else openai.OpenAI
    said = []
    for mode in ("once", "none"):
        client = kind(api_key="made-up-key-1", base_url=server.base_url, http_client=face.http_client())
        face.made.append(client)
        with use_cassette(tmp_path / "a.yaml", record=mode):
            said.append((await chat_with(client)).choices[0].message.content)
        gone([server])
    assert said == ["plain"] * 2


async def test_an_unrecorded_request_names_the_nearest_and_what_differs(
    face: Face, serve: Serve, tmp_path: Path
) -> None:
    server = serve(says())
    config = configuration("chat", server)
    with use_cassette(tmp_path / "a.yaml", record="once"):
        await chat_with(face.client(config), "first", temperature=0.2)
        await chat_with(face.client(config), "second")
    seen = len(server.seen)
    with pytest.raises(UnrecordedRequest) as raised, use_cassette(tmp_path / "a.yaml"):
        await chat_with(face.client(config), "secnd")
    assert len(server.seen) == seen
    url = f"{server.base_url}/chat/completions"
    assert str(raised.value).splitlines() == [
        f"{tmp_path / 'a.yaml'}: no recording answers POST {url}",
        "",
        "Nearest of its 2 recordings:",
        f"  2. POST {url} (200)",
        '       body.messages[0].content: "secnd" now, "second" recorded',
        f"  1. POST {url} (200)",
        '       body.messages[0].content: "secnd" now, "first" recorded',
        "       body.temperature: absent now, 0.2 recorded",
        "",
        "The record mode is 'none', so nothing is sent. To record it: pytest --shim-record=new, or "
        "use_cassette(..., record='new').",
    ]


async def test_a_request_made_once_too_often_says_so(plain: Face, serve: Serve, tmp_path: Path) -> None:
    config = configuration("chat", serve(says()))
    with use_cassette(tmp_path / "a.yaml", record="once"):
        await chat_with(plain.client(config))
    with use_cassette(tmp_path / "a.yaml"):
        await chat_with(plain.client(config))
        with pytest.raises(UnrecordedRequest, match=r"(?s)recorded 1 times.*repeats=True"):
            await chat_with(plain.client(config))
    with use_cassette(tmp_path / "a.yaml", repeats=True):
        for _ in range(3):
            await chat_with(plain.client(config))


async def test_equal_requests_are_answered_in_their_order(plain: Face, serve: Serve, tmp_path: Path) -> None:
    config = configuration("chat", serve(numbered()))
    for mode in ("once", "none"):
        with use_cassette(tmp_path / "a.yaml", record=mode):
            said = [(await chat_with(plain.client(config))).choices[0].message.content for _ in range(3)]
        assert said == ["answer 1", "answer 2", "answer 3"]


@pytest.mark.parametrize("size", [1, 8], ids=["one at a time", "eight at once"])
async def test_calls_at_once_get_their_own_answers(face: Face, serve: Serve, tmp_path: Path, size: int) -> None:
    """Threads or tasks: which call is first does not matter to which answer it gets."""

    def echo(request: Seen, peer: Peer) -> None:
        peer.answer(200, chat(request.json["messages"][0]["content"]))

    config = configuration("chat", serve(echo))
    client = face.client(config)
    texts = [f"text {number}" for number in range(24)]
    for mode in ("once", "none"):
        with use_cassette(tmp_path / "a.yaml", record=mode) as cassette:
            if face.is_async:
                limit = asyncio.Semaphore(size)

                async def one(text: str, limit: asyncio.Semaphore = limit) -> Any:
                    async with limit:
                        return await chat_with(client, text)

                answers = await asyncio.gather(*(one(text) for text in texts))
            else:
                with ThreadPoolExecutor(size) as threads:
                    answers = list(threads.map(lambda text: asyncio.run(chat_with(client, text)), texts))
        assert [answer.choices[0].message.content for answer in answers] == texts
    assert not cassette.unused


async def test_the_right_host_answers_in_hedged_mode(face: Face, serve: Serve, tmp_path: Path) -> None:
    """Case V05: the same path and body at two hosts; ten replays in a row give each host's own answer."""
    config = configuration("chat", serve(fails(500)), serve(says("b")))
    config["families"]["fam"]["routes"] = ["a/m", "b/m"]
    with use_cassette(tmp_path / "a.yaml", record="once") as cassette:
        await chat_with(face.client(shim.Router(config)))
    assert [one.said.status for one in cassette.new] == [500, 200]
    config["policy"] |= {"mode": "hedged", "hedge_delay": 0.0, "hedge_budget": 1.0}
    for _ in range(10):
        with use_cassette(tmp_path / "a.yaml"):
            answer = await chat_with(face.client(shim.Router(config)))
        assert answer.choices[0].message.content == "b"
        statuses = {one.provider: one.status for one in shim.attempts(answer) if one.verdict}
        assert statuses in ({"a": 500, "b": 200}, {"b": 200})  # who loses a race may be cancelled before it is read


async def test_a_loser_that_never_answered_is_kept_as_that(face: Face, serve: Serve, tmp_path: Path) -> None:
    config = configuration("chat", serve(hangs()), serve(says("b")), policy={"mode": "race"})
    with use_cassette(tmp_path / "a.yaml", record="once") as cassette:
        await chat_with(face.client(shim.Router(config)))
    assert sorted(one.said.status for one in cassette.new) == [0, 200], "who of a race is first at the wire is open"
    for _ in range(3):
        with use_cassette(tmp_path / "a.yaml"):
            answer = await chat_with(face.client(shim.Router(config)))
        assert answer.choices[0].message.content == "b"


async def test_a_connection_that_failed_replays_as_a_timeout(face: Face, serve: Serve, tmp_path: Path) -> None:
    server = serve(says())
    gone([server])
    config = configuration("chat", server, serve(says("b")))
    trails = []
    for mode in ("once", "none"):
        with use_cassette(tmp_path / "a.yaml", record=mode):
            answer = await chat_with(face.client(shim.Router(config)))
        trails.append([(one.provider, one.reason) for one in shim.attempts(answer)])
    assert trails == [[("a", "connect"), ("b", "ok")], [("a", "timeout"), ("b", "ok")]]


def test_recordings_stand_in_the_order_of_the_requests(serve: Serve, tmp_path: Path) -> None:
    """The slower answer was asked for first."""
    second_is_in = threading.Event()

    def script(request: Seen, peer: Peer) -> None:
        text = request.json["messages"][0]["content"]
        if text == "first":
            second_is_in.wait(4)
        peer.answer(200, chat(text))

    server = serve(script)
    client = shim.OpenAI(router=configuration("chat", server))
    with use_cassette(tmp_path / "a.yaml", record="once") as cassette, ThreadPoolExecutor(1) as threads:
        slow = threads.submit(asyncio.run, chat_with(client, "first"))
        assert server.wait_until(lambda: len(server.seen) == 1)
        asyncio.run(chat_with(client, "second"))
        second_is_in.set()
        slow.result()
    texts = [json.loads(one.asked.body)["messages"][0]["content"] for one in cassette.new]
    assert texts == ["first", "second"]


# -- record modes


def write(path: Path, *texts: str) -> None:
    """A cassette for the official client at a server that never was."""
    script = iter(texts)
    with Server(lambda request, peer: peer.answer(200, chat(next(script)))) as server:
        hosts = {server.base_url: "http://lab.invalid"}
        with use_cassette(path, record="once", hosts=hosts, about={"server": "a test"}):
            for text in texts:
                ask(text, server.base_url)


def ask(text: str, base_url: str = "http://lab.invalid/v1") -> str:
    with openai.OpenAI(api_key="made-up-key-1", base_url=base_url, max_retries=0) as client:
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content or ""


@pytest.mark.parametrize(
    ("mode", "recorded", "asked", "expected"),
    [
        pytest.param("none", ["a"], ["a"], "played", id="none plays"),
        pytest.param("none", ["a"], ["b"], "unrecorded", id="none sends nothing"),
        pytest.param("none", [], ["a"], "unrecorded", id="none needs a cassette"),
        pytest.param("once", ["a"], ["a"], "played", id="once plays what there is"),
        pytest.param("once", ["a"], ["b"], "unrecorded", id="once adds nothing"),
        pytest.param("once", [], ["a", "b"], "a b", id="once records a first cassette"),
        pytest.param("new", ["a"], ["a", "b"], "a b", id="new adds"),
        pytest.param("new", ["a", "b"], ["c"], "a b c", id="new keeps the rest"),
        pytest.param("all", ["a", "b"], ["b"], "b", id="all replaces"),
        pytest.param("all", ["a"], [], "a", id="all without a request keeps what there is"),
    ],
)
def test_record_modes(mode: str, recorded: list[str], asked: list[str], expected: str, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.yaml"
    if recorded:
        write(path, *recorded)
    before = path.read_bytes() if recorded else None
    with Server(says("live")) as server:
        hosts = {server.base_url: "http://lab.invalid"}

        def run() -> None:
            with use_cassette(path, record=mode, hosts=hosts):
                for text in asked:
                    ask(text, server.base_url)

        if expected == "unrecorded":
            with pytest.raises(UnrecordedRequest):
                run()
        else:
            run()
        sent = len(server.seen)
    if expected in ("played", "unrecorded"):
        assert sent == 0
        assert (path.read_bytes() if path.exists() else None) == before
    else:
        kept = [json.loads(one.asked.body)["messages"][0]["content"] for one in reading(path).recordings]
        assert kept == expected.split()


def reading(path: Path) -> Cassette:
    with use_cassette(path) as cassette:
        return cassette


def test_a_cassette_that_is_replaced_forgets_what_it_said_of_itself(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "a")
    with Server(says()) as server, use_cassette(tmp_path / "a.yaml", record="all", about={"note": "new"}):
        ask("a", server.base_url)
    assert set(reading(tmp_path / "a.yaml").metadata) == {"source", "recorded_at", "note"}


def test_a_scripted_provider_comes_before_a_cassette(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "a")
    with use_cassette(tmp_path / "a.yaml") as cassette, FakeProvider(answers.says("scripted"), name="other") as other:
        assert ask("a", other.base_url) == "scripted"
        assert ask("a") == "a"
    assert len(cassette.played) == 1


def test_a_block_that_fails_saves_nothing(tmp_path: Path) -> None:
    with Server(says()) as server, use_cassette(tmp_path / "a.yaml", record="all") as cassette:
        ask("a", server.base_url)
    assert len(cassette.new) == 1
    (tmp_path / "a.yaml").unlink()
    opened = use_cassette(tmp_path / "a.yaml", record="all")
    with Server(says()) as server:
        opened.__enter__()
        ask("a", server.base_url)
        opened.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert list(tmp_path.iterdir()) == []


def test_unused_recordings_fail_where_that_is_asked(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "a", "b")
    message = r"1 of 2 recordings were not asked for:\n  2\. POST http://lab.invalid"
    with pytest.raises(UnusedRecordings, match=message), use_cassette(tmp_path / "a.yaml", all_used=True):
        ask("a")
    with use_cassette(tmp_path / "a.yaml") as cassette:
        ask("a")
    assert len(cassette.unused) == 1


def test_the_mode_comes_from_the_environment_and_from_the_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(says("live")) as server:
        monkeypatch.setenv("SHIM_RECORD", "once")
        with use_cassette(tmp_path / "a.yaml"):
            assert ask("a", server.base_url) == "live"
        set_default_mode("none")
        try:
            with pytest.raises(UnrecordedRequest), use_cassette(tmp_path / "b.yaml"):
                ask("a", server.base_url)
        finally:
            set_default_mode(None)


@pytest.mark.parametrize("word", ["episodes", "", "NONE", None], ids=repr)
def test_an_unknown_mode_is_refused(word: Any, tmp_path: Path) -> None:
    if word is None:
        use_cassette(tmp_path / "a.yaml", record=word)
    else:
        with pytest.raises(CassetteError, match="there are: none, once, new, all"):
            use_cassette(tmp_path / "a.yaml", record=word)


# -- around functions, and several at once


def test_a_function_has_a_cassette_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "a")

    @use_cassette(tmp_path / "a.yaml")
    def twice(text: str) -> str:
        return ask(text)

    assert [twice("a"), twice("a")] == ["a", "a"]  # each call opens it anew
    assert twice.__name__ == "twice"


async def test_an_async_function_too(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "a")

    @use_cassette(tmp_path / "a.yaml")
    async def asked() -> str:
        async with openai.AsyncOpenAI(api_key="made-up-key-1", base_url="http://lab.invalid/v1") as client:
            answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
            return answer.choices[0].message.content or ""

    assert await asyncio.gather(asked(), asked()) == ["a", "a"]
    async with use_cassette(tmp_path / "a.yaml") as cassette:
        assert len(cassette.recordings) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test_a", "cassettes/test_x/test_a.yaml"),
        ("TestA.test_b", "cassettes/test_x/TestA.test_b.yaml"),
        ("test_c[one/two: 3]", "cassettes/test_x/test_c-one-two--3.yaml"),
        ("f.<locals>.g", "cassettes/test_x/f.g.yaml"),
    ],
)
def test_where_the_cassette_of_a_test_lies(name: str, expected: str) -> None:
    assert path_for(Path("tests/test_x.py"), name) == Path("tests") / expected


def test_a_block_needs_a_path_and_a_class_is_no_function() -> None:
    with pytest.raises(TypeError, match="a block needs the path"), use_cassette():
        pass
    with pytest.raises(TypeError, match="decorates functions, Path is a class"):
        use_cassette("a.yaml")(Path)

    def several() -> Any:
        yield 1

    async def several_later() -> Any:
        yield 1

    for function in (several, several_later):
        with pytest.raises(TypeError, match="is a generator; use a block there"):
            use_cassette("a.yaml")(function)


def test_a_request_that_comes_when_all_are_closed_goes_its_way(tmp_path: Path) -> None:
    """Another thread may close the last cassette while a request is on its way to it."""
    write(tmp_path / "a.yaml", "a")
    with Server(says("live")) as server, openai.OpenAI(api_key="made-up-key-1", base_url=server.base_url) as client:
        opened = use_cassette(tmp_path / "a.yaml")
        with opened as cassette:
            DECK._open = []
            try:
                answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
            finally:
                DECK._open = [cassette]
    assert answer.choices[0].message.content == "live"
    assert len(cassette.recordings) == 1


def test_cassettes_may_be_closed_in_any_order(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "a")
    write(tmp_path / "b.yaml", "b")
    first, second = use_cassette(tmp_path / "a.yaml"), use_cassette(tmp_path / "b.yaml")
    first.__enter__()
    second.__enter__()
    assert ask("b") == "b"  # the one that was opened last
    first.__exit__(None, None, None)
    with pytest.raises(UnrecordedRequest):
        ask("a")
    second.__exit__(None, None, None)
    with Server(says("live")) as server:
        assert ask("a", server.base_url) == "live"  # nothing stands between any more


@pytest.mark.parametrize(("missing", "module"), [("yaml", "storage"), ("vcr.patch", "deck")], ids=["yaml", "vcrpy"])
def test_without_the_extra_the_message_says_what_to_install(
    missing: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, f"shim.testing.{module}", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'openai-shim\[testing\]'"):
        importlib.import_module(f"shim.testing.{module}")


def test_threads_keep_their_own_cassettes(tmp_path: Path) -> None:
    both_open = threading.Barrier(2)

    def run(text: str) -> list[str]:
        with use_cassette(tmp_path / f"{text}.yaml"):
            both_open.wait(4)
            said = [ask(text) for _ in range(5)]
            both_open.wait(4)
        return said

    for text in ("a", "b"):
        write(tmp_path / f"{text}.yaml", *[text] * 5)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(run, ["a", "b"])) == [["a"] * 5, ["b"] * 5]


async def test_a_cassette_holds_the_space_check_whatever_this_machine_has_seen(
    face: Face, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded where the routes are known, replayed where nobody is: and nothing of a replay is kept for real calls."""
    servers = [serve(embeds()), serve(embeds())]
    config = configuration("embedding", *servers, policy={"space_check": True})
    monkeypatch.setenv("SHIM_CACHE_DIR", str(tmp_path / "warm"))
    await embed(face.client(shim.Router(config)), "before")
    client = face.client(shim.Router(config))
    with use_cassette(tmp_path / "a.yaml", record="once") as cassette:
        recorded = await embed(client, "one")
    assert len(cassette.new) == 19
    await embed(client, "after")
    assert [len(call.attempts) for call in client.router.calls] == [19, 1]

    gone(servers)
    monkeypatch.setenv("SHIM_CACHE_DIR", str(tmp_path / "cold"))
    with use_cassette(tmp_path / "a.yaml", all_used=True):
        replayed = await embed(face.client(shim.Router(config)), "one")
    assert replayed.data[0].embedding == recorded.data[0].embedding
    assert not (tmp_path / "cold").exists()
