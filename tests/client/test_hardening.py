"""Faults found by attacking the client against its contract: each with the other members of its kind."""

from __future__ import annotations

import contextlib
import gc
import inspect
import json
from typing import Any

import openai
import pytest

import shim
from shim.events import BreakerState, Verdict
from tests.support import answers
from tests.support.faces import HELLO, MODEL, Face, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Seen

OWN_KEY = "caller-key-not-real-4711"


async def ask(client: Any, **more: Any) -> Any:
    return await out(client.chat.completions.create(model=MODEL, messages=HELLO, **more))


async def embed(client: Any, **more: Any) -> Any:
    return await out(client.embeddings.create(model=MODEL, input="a", **more))


# -- what a provider says can neither crash nor leak


@pytest.mark.parametrize("value", ["café", "\u00ff\u00fe", "naïve; q=1"])
@pytest.mark.parametrize("status", [200, 400])
async def test_a_header_that_is_not_ascii_passes(face: Face, serve: Serve, status: int, value: str) -> None:
    def odd(request: Seen, peer: Peer) -> None:
        body = answers.chat() if status == 200 else answers.error()
        peer.answer(status, body, [("x-note", value.encode().decode("latin-1"))])

    client = face.client(configuration("chat", serve(odd)))
    if status == 200:
        assert (await ask(client)).choices[0].message.content == answers.PONG
    else:
        with pytest.raises(openai.BadRequestError):
            await ask(client)


async def test_a_key_of_the_callers_that_is_repeated_is_masked_everywhere(face: Face, serve: Serve) -> None:
    def repeats(request: Seen, peer: Peer) -> None:
        spelt = json.dumps(answers.error(f"bad key {OWN_KEY}")).replace("-", "\\u002d").encode()
        peer.answer(400, spelt, [("x-echo", f"Bearer {OWN_KEY}"), ("content-type", "application/json")])

    server = serve(repeats)
    client = face.client(
        {
            "providers": {"own": {"base_url": server.base_url}},
            "families": {MODEL: {"kind": "chat", "routes": ["own/m"]}},
        },
        api_key=OWN_KEY,
        base_url=server.base_url,
    )
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(client)
    shown = f"{caught.value} {caught.value.body} {caught.value.response.text} {caught.value.response.headers!r}"
    assert OWN_KEY not in shown + str(dict(caught.value.response.headers))
    assert OWN_KEY in str(server.seen[0].headers), "it was sent to its own provider"


async def test_a_key_of_one_letter_leaves_error_bodies_readable(face: Face, serve: Serve) -> None:
    config = configuration("chat", serve(answers.fails(400, answers.error("an error", code="odd"))))
    config["providers"]["a"]["api_key"] = "e"
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(face.client(config))
    assert caught.value.code == "odd"


async def test_a_byte_order_mark_before_json_is_no_fault(face: Face, serve: Serve) -> None:
    def marked(request: Seen, peer: Peer) -> None:
        body = b"\xef\xbb\xbf" + json.dumps(answers.chat()).encode()
        peer.answer(200, body, [("content-type", "application/json")])

    assert (await ask(face.client(configuration("chat", serve(marked))))).choices[0].message.content == answers.PONG


@pytest.mark.parametrize("content_type", ["Text/Event-Stream; charset=UTF-8", "text/plain", "application/octet-stream"])
async def test_events_are_events_under_any_name(face: Face, serve: Serve, content_type: str) -> None:
    def named(request: Seen, peer: Peer) -> None:
        peer.begin(200, [("content-type", content_type)])
        for part in answers.chat_events():
            peer.chunk(part)
        peer.end()

    client = face.client(configuration("chat", serve(named)))
    stream = await ask(client, stream=True)
    text = ""
    if face.is_async:
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
    else:
        for chunk in stream:
            text += chunk.choices[0].delta.content or ""
    assert text == "Hello"


# -- what belongs to the caller's HTTP client


async def test_an_event_hook_that_raises_for_a_status_does_not_skip_the_failover(face: Face, serve: Serve) -> None:
    client = face.client(configuration("chat", serve(answers.fails(503)), serve(answers.says())))
    if face.is_async:

        async def async_hook(response: Any) -> None:
            response.raise_for_status()

        client._client.event_hooks = {"response": [async_hook]}
    else:
        client._client.event_hooks = {"response": [lambda response: response.raise_for_status()]}
    answer = await ask(client)
    assert [attempt.status for attempt in shim.attempts(answer)] == [503, 200]


async def test_a_transport_that_copies_the_limits_sees_the_real_ones(face: Face, serve: Serve) -> None:
    seen: list[dict[str, float]] = []
    client = face.client(configuration("chat", serve(answers.says())), timeout=40)
    transport = client._client._transport
    method = "handle_async_request" if face.is_async else "handle_request"
    original = getattr(transport, method)

    def looks(request: Any) -> Any:
        seen.append(dict(request.extensions["timeout"]))
        return original(request)

    setattr(transport, method, looks)
    await ask(client)
    assert 35 < seen[0]["read"] <= 40
    assert seen[0]["connect"] <= 5.0


async def test_cookies_of_providers_do_not_gather_in_the_callers_client(face: Face, serve: Serve) -> None:
    def sets(request: Seen, peer: Peer) -> None:
        peer.answer(200, answers.chat(), [("set-cookie", "session=abc; Path=/"), ("content-type", "application/json")])

    client = face.client(configuration("chat", serve(sets)))
    client._client.cookies.set("mine", "1")
    await ask(client)
    assert dict(client._client.cookies) == {"mine": "1"}


async def test_a_host_name_that_cannot_be_encoded_is_a_failed_attempt(face: Face, serve: Serve) -> None:
    config = configuration("chat", serve(answers.says()), serve(answers.says()))
    config["providers"]["a"]["base_url"] = f"https://{'x' * 70}.invalid/v1"
    answer = await ask(face.client(config))
    assert [attempt.verdict for attempt in shim.attempts(answer)] == [Verdict.TRANSIENT, Verdict.OK]


# -- health


async def test_a_route_that_ignores_dimensions_still_serves_calls_without_them(face: Face, serve: Serve) -> None:
    client = face.client(configuration("embedding", serve(answers.embeds(8))))
    await embed(client)
    with contextlib.suppress(openai.APIStatusError):
        await embed(client, dimensions=4)
    assert len((await embed(client)).data[0].embedding) == 8


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (429, [("retry-after", "60")], openai.RateLimitError),
        (401, [], openai.AuthenticationError),
        (403, [], openai.PermissionDeniedError),
    ],
)
async def test_the_official_class_lasts_while_the_cooldown_does(
    face: Face, serve: Serve, status: int, headers: list[tuple[str, str]], expected: type[openai.APIError]
) -> None:
    server = serve(answers.fails(status, headers=headers))
    client = face.client(configuration("chat", server), timeout=5)
    for _ in range(3):
        with pytest.raises(expected):
            await ask(client)
    assert len(server.seen) == 1


async def test_a_deadline_shorter_than_the_route_needs_is_not_its_failure(face: Face, serve: Serve) -> None:
    def slow(request: Seen, peer: Peer) -> None:
        if not peer.is_gone(0.2):
            peer.answer(200, answers.chat(), [("content-type", "application/json")])

    client = face.client(configuration("chat", serve(slow)), max_retries=0)
    await ask(client)
    for _ in range(4):
        with pytest.raises(openai.APITimeoutError):
            await ask(client.with_options(timeout=0.05))
    assert client.router.status().routes[0].breaker is BreakerState.CLOSED


async def test_a_rate_limit_without_a_time_is_retried_after_a_backoff(face: Face, serve: Serve) -> None:
    """And not after the ten seconds for which others leave the key alone."""

    asked: list[Seen] = []

    def once(request: Seen, peer: Peer) -> None:
        asked.append(request)
        if len(asked) == 1:
            peer.answer(429, answers.error("slow down", code="rate_limit_exceeded"))
        else:
            peer.answer(200, answers.chat(), [("content-type", "application/json")])

    client = face.client(configuration("chat", serve(once)), timeout=5, max_retries=2)
    assert [attempt.verdict for attempt in shim.attempts(await ask(client))] == [Verdict.TRANSIENT, Verdict.OK]


async def test_an_async_stream_that_is_dropped_gives_its_permit_back(serve: Serve) -> None:
    def talks(request: Seen, peer: Peer) -> None:
        peer.begin(200, [("content-type", "text/event-stream")])
        peer.chunk(answers.chat_events()[1])
        peer.hang()

    client = Face(True, "httpx2").client(configuration("chat", serve(talks)))
    stream = await ask(client, stream=True)
    assert client.router.status().routes[0].in_flight == 1
    del stream
    gc.collect()
    assert client.router.status().routes[0].in_flight == 0
    await client.close()


def test_a_copy_that_promises_where_its_data_go_is_not_routed(serve: Serve) -> None:
    client = Face(False, "httpx2").client(configuration("chat", serve(answers.says())), api_key="made-up")
    if "data_residency" not in inspect.signature(openai.OpenAI.copy).parameters:
        pytest.skip("this openai knows no data_residency")
    assert client.with_options(timeout=3).router is client.router
    assert client.with_options(data_residency="eu").router is None
    assert client.with_options(data_residency="eu", router=client.router).router is client.router
    client.close()


# -- messages


async def test_a_client_without_a_key_names_the_model_and_the_nearest_family(face: Face, serve: Serve) -> None:
    client = face.client(configuration("chat", serve(answers.says())), api_key=None)
    with pytest.raises(openai.OpenAIError, match=r"model 'fan'.*did you mean 'fam'"):
        await out(client.chat.completions.create(model="fan", messages=HELLO))
    with pytest.raises(openai.OpenAIError, match="no default_chat"):
        await out(client.chat.completions.create(model="auto", messages=HELLO))


def test_explain_finds_the_kind_by_itself(serve: Serve) -> None:
    client = Face(False, "httpx2").client(configuration("chat", serve(answers.says())))
    assert client.router.explain(MODEL).kind is shim.Kind.CHAT
    client.close()


def test_explain_knows_the_nearest_name_of_any_kind(serve: Serve) -> None:
    router = shim.Router(configuration("chat", serve(answers.chat())))
    assert str(router.explain("fum")).endswith("belongs to no chat family: it passes through; nearest: fam")
    with pytest.raises(ValueError, match=r"unknown kind 'embeddings'; did you mean 'embedding'\? \(known: embedding, "):
        router.explain("fam", kind="embeddings")
