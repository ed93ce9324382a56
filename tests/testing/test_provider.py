"""One script, without a network and behind a real socket: the same calls come out of both."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

import shim
from shim.testing import FakeClock, FakeProvider, faults, router_over, serve
from shim.testing.answers import (
    Answer,
    Word,
    chat_events,
    embeds,
    fails,
    handled,
    hangs,
    rate_limited,
    replies,
    resets,
    says,
    streams,
)
from shim.testing.faults import inject
from shim.testing.recording import Asked
from tests.support.faces import Face, all_of, out

Make = Callable[..., FakeProvider]
HELLO: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture(params=["fake", "served"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes providers of one kind, and ends them."""
    made: list[FakeProvider] = []

    def start(*words: Word, name: str = "a", **settings: Any) -> FakeProvider:
        kind = FakeProvider if request.param == "fake" else serve
        provider = kind(*words, name=name, **settings)
        made.append(provider)
        return provider.__enter__()

    yield start
    for provider in made:
        provider.close()
        assert provider.server is None or provider.server.faults == []


async def ask(client: Any, **more: Any) -> Any:
    return await out(client.chat.completions.create(model="test", messages=HELLO, **more))


async def text_of(client: Any, **more: Any) -> str:
    return str((await ask(client, **more)).choices[0].message.content)


async def test_it_says_its_words_in_their_order_and_the_last_again(make: Make, face: Face) -> None:
    client = face.client(router_over(make(says("one"), says("two"))))
    assert [await text_of(client) for _ in range(4)] == ["one", "two", "two", "two"]


async def test_a_stream_comes_where_one_is_asked_for(make: Make, face: Face) -> None:
    client = face.client(router_over(make(says("it rains in the north"))))
    chunks = await all_of(await ask(client, stream=True))
    assert [chunk.choices[0].delta.content for chunk in chunks][1:-1] == ["it", " rains", " in", " the", " north"]


async def test_responses_are_said_too(make: Make, face: Face) -> None:
    client = face.client(router_over(make(says("it rains"))))
    assert (await out(client.responses.create(model="test", input="hi"))).output_text == "it rains"
    events = await all_of(await out(client.responses.create(model="test", input="hi", stream=True)))
    assert "".join(one.delta for one in events if one.type == "response.output_text.delta") == "it rains"


async def test_embeddings_have_the_length_that_is_asked_for(make: Make, face: Face) -> None:
    client = face.client(router_over(make(embeds(16)), kind="embedding"))
    plain = await out(client.embeddings.create(model="test", input=["a", "b", "a"]))
    assert [len(row.embedding) for row in plain.data] == [16, 16, 16]
    assert plain.data[0].embedding == plain.data[2].embedding != plain.data[1].embedding
    cut = await out(client.embeddings.create(model="test", input="a", dimensions=4))
    assert len(cut.data[0].embedding) == 4


async def test_without_words_it_answers_anything(make: Make, face: Face) -> None:
    provider = make()
    assert await text_of(face.client(router_over(provider))) == "pong"
    client = face.client(router_over(provider, kind="embedding"))
    assert len((await out(client.embeddings.create(model="test", input="a"))).data) == 1


@pytest.mark.parametrize(
    ("word", "reason", "status"),
    [
        pytest.param(rate_limited(30), "rate_limit", 429, id="429"),
        pytest.param(fails(503), "overloaded", 503, id="503"),
        pytest.param(fails(401), "bad_key", 401, id="401"),
        pytest.param(fails(200, body=b"<html>"), "html", 200, id="a page"),
        pytest.param(replies({"error": {"message": "no", "code": 500}}), "server_error", 500, id="error in a 200"),
        pytest.param(resets(), "reset", None, id="reset"),
        pytest.param(hangs(), "timeout", None, id="hangs"),
        pytest.param(streams(chat_events(["a"])[:1]), "malformed", 200, id="events instead of an answer"),
    ],
)
async def test_a_router_moves_on(word: Word, reason: str, status: int | None, make: Make, face: Face) -> None:
    first, second = make(word, name="a"), make(says("b"), name="b")
    answer = await ask(face.client(router_over(first, second, attempt_timeout=2.0)))
    assert answer.choices[0].message.content == "b"
    assert [(one.provider, one.reason) for one in shim.attempts(answer)][1] == ("b", "ok")
    assert (shim.attempts(answer)[0].reason, shim.attempts(answer)[0].status) == (reason, status)
    assert len(first.seen) == len(second.seen) == 1


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        pytest.param(faults.rate_limit("a"), "rate_limit", id="429"),
        pytest.param(faults.reset("a", at=20), "reset", id="reset in the body"),
        pytest.param(faults.truncated("a", at=20), "malformed answer", id="short body"),
        pytest.param(faults.connection_failed("a"), None, id="no connection"),
        pytest.param(faults.hang("a", waits=99), "timeout", id="hang"),
        pytest.param(faults.drip("a", every=0.05), "timeout", id="drip"),
    ],
)
async def test_faults_act_on_a_script(profile: faults.FaultProfile, reason: str | None, make: Make, face: Face) -> None:
    first, second = make(says("a"), name="a"), make(says("b"), name="b")
    with inject(first, profile) as injection:
        answer = await ask(face.client(router_over(first, second, attempt_timeout=2.0)))
    assert answer.choices[0].message.content == "b"
    assert reason in (None, shim.attempts(answer)[0].reason)
    assert injection.met == (1,)


async def test_faults_of_a_stream_act_after_its_content(make: Make, face: Face) -> None:
    provider = make(says("one two three"))
    client = face.client(router_over(provider))
    for profile in (faults.error_event("a", events=3), faults.reset("a", at=500), faults.truncated("a", at=500)):
        with inject(provider, profile):
            stream = await ask(client, stream=True)
            with pytest.raises(openai.APIError) as raised:
                await all_of(stream)
        assert raised.value.partial == "one two"[: len(raised.value.partial)] != ""  # type: ignore[attr-defined]


async def test_the_official_client_comes_here_too(make: Make, face: Face) -> None:
    provider = make(fails(500), says("hello"))
    kind = openai.AsyncOpenAI if face.is_async else openai.OpenAI
    client = kind(api_key="any", base_url=provider.base_url, http_client=face.http_client(), max_retries=0)
    face.made.append(client)
    with pytest.raises(openai.InternalServerError, match="The server answered 500"):
        await text_of(client)
    assert await text_of(client) == "hello"
    assert [one.parts.path for one in provider.seen] == ["/v1/chat/completions"] * 2
    assert provider.seen[0].json == {"messages": HELLO, "model": "test"}
    assert provider.seen[0].headers["authorization"] == "Bearer any"


async def test_a_real_model_behind_a_script(make: Make, face: Face) -> None:
    pytest.importorskip("wordllama")
    from shim.local import LocalProvider

    client = face.client(
        router_over(make(handled(LocalProvider().handle_http), model="wordllama-256"), kind="embedding")
    )
    assert len((await out(client.embeddings.create(model="test", input="a"))).data[0].embedding) == 256


async def test_time_is_the_clocks(face: Face) -> None:
    clock = FakeClock()
    with FakeProvider(hangs(), name="a", clock=clock) as first, FakeProvider(says("b"), name="b") as second:
        answer = await ask(face.client(router_over(first, second, clock=clock, attempt_timeout=30)))
    assert [one.reason for one in shim.attempts(answer)] == ["timeout", "ok"]
    assert shim.attempts(answer)[0].duration == pytest.approx(30, abs=0.1)


async def test_nothing_goes_to_the_network(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Any:
        raise AssertionError("a socket was to be connected")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with FakeProvider(says("hello"), name="a") as provider:
        assert await text_of(face.client(router_over(provider))) == "hello"


def test_afterwards_the_libraries_are_as_they_were() -> None:
    import httpx
    import httpx2

    before = [one._transport_for_url for one in (httpx.Client, httpx.AsyncClient, httpx2.Client, httpx2.AsyncClient)]
    with FakeProvider(name="a"), FakeProvider(name="b"):
        assert httpx2.Client._transport_for_url is not before[2]
    after = [one._transport_for_url for one in (httpx.Client, httpx.AsyncClient, httpx2.Client, httpx2.AsyncClient)]
    assert after == before


def test_two_of_one_name_are_refused() -> None:
    with FakeProvider(name="a") as first:
        with pytest.raises(ValueError, match="another one is named 'a'"), FakeProvider(name="a"):
            pass
        with pytest.raises(ValueError, match="several providers are named 'a'"):
            router_over(first, first)
        with first:  # the same one again is no other
            pass


@pytest.mark.parametrize("word", [says(), embeds(), resets()], ids=["says", "embeds", "resets"])
def test_a_word_is_a_function_of_the_request(word: Word) -> None:
    answer = word(Asked("POST", "https://a.invalid/v1/embeddings", {}, b'{"input": "a", "model": "m"}'))
    assert isinstance(answer, Answer)
    assert "FakeProvider 'a' at https://a.invalid/v1: 0 requests seen" in repr(FakeProvider(name="a"))


@pytest.mark.parametrize("word", ["hello", 429, {"choices": []}, None], ids=repr)
def test_what_is_no_word_is_refused(word: Any) -> None:
    with pytest.raises(TypeError, match=r"takes words such as says\('hello'\) or rate_limited\(30\), got"):
        FakeProvider(says(), word)


def test_a_maker_of_words_is_no_word() -> None:
    asked = Asked("POST", "https://a.invalid/v1/embeddings", {}, b'{"input": "a", "model": "m"}')
    with pytest.raises(TypeError, match=r"says made no answer but function; is it says\(\.\.\.\)\?"):
        FakeProvider(says)(asked)  # type: ignore[arg-type]
