"""A request that belongs to no family goes out exactly as the official client sends it, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import openai
import pytest

import shim
from tests.support import answers
from tests.support.faces import HELLO, Face, all_of, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Seen, Server

# Differs between two equal requests by nature: the port, and the random boundary of a form.
_PORT = re.compile(rb"127\.0\.0\.1:\d+")
_BOUNDARY = re.compile(rb"boundary=([0-9a-f]+)")

NO_ROUTER = "no configuration"
ROUTER = "a router of other models"


def _normal(raw: bytes) -> bytes:
    found = _BOUNDARY.search(raw)
    if found is not None:
        raw = raw.replace(found.group(1), b"boundary")
    return _PORT.sub(b"127.0.0.1:0", raw)


def _anything(request: Seen, peer: Peer) -> None:
    if request.path.startswith("/v1/chat") and b'"stream": true' in request.body.replace(b":true", b": true"):
        peer.stream(answers.chat_events())
    elif request.path.startswith("/v1/chat"):
        peer.answer(200, answers.chat())
    elif request.path.startswith("/v1/embeddings"):
        peer.answer(200, answers.embeddings(request))
    elif request.path.startswith("/v1/models"):
        model = {"id": "m", "object": "model", "created": 1, "owned_by": "o"}
        peer.answer(200, {"object": "list", "data": [model]})
    else:
        peer.answer(200, {"id": "x", "object": "x", "data": [], "text": "x", "created": 1})


async def _chat(client: Any) -> Any:
    return await out(client.chat.completions.create(model="unknown", messages=HELLO, temperature=0.5))


async def _stream(client: Any) -> Any:
    return await all_of(await out(client.chat.completions.create(model="unknown", messages=HELLO, stream=True)))


async def _embeddings(client: Any) -> Any:
    return await out(client.embeddings.create(model="unknown", input=["a", "b"], dimensions=8))


async def _models(client: Any) -> Any:
    return [model.id async for model in _pages(client.models.list())]


async def _pages(listed: Any) -> Any:
    page = await out(listed)
    for item in page.data:
        yield item


async def _upload(client: Any) -> Any:
    return await out(client.files.create(file=("a.jsonl", b'{"a": 1}\n'), purpose="batch"))


async def _batches(client: Any) -> Any:
    return await out(client.batches.create(input_file_id="f", endpoint="/v1/embeddings", completion_window="24h"))


async def _transcribe(client: Any) -> Any:
    return await out(client.audio.transcriptions.create(file=("a.wav", b"RIFFxx"), model="unknown"))


async def _responses(client: Any) -> Any:
    return await out(client.responses.create(model="unknown", input="hi", previous_response_id="resp_1"))


async def _raw(client: Any) -> Any:
    return (await out(client.chat.completions.with_raw_response.create(model="unknown", messages=HELLO))).content


async def _extras(client: Any) -> Any:
    return await out(
        client.chat.completions.create(
            model="unknown",
            messages=HELLO,
            extra_headers={"X-Mine": "1", "Authorization": "Bearer other"},
            extra_query={"a": "b c"},
            extra_body={"top_k": 1, "text": "é\u2028"},
            timeout=7,
        )
    )


CALLS: list[Callable[[Any], Any]] = [
    _chat,
    _stream,
    _embeddings,
    _models,
    _upload,
    _batches,
    _transcribe,
    _responses,
    _raw,
    _extras,
]


def _official(face: Face, server: Server, **settings: Any) -> Any:
    made = (openai.AsyncOpenAI if face.is_async else openai.OpenAI)(
        api_key="sk-mine", base_url=server.base_url, organization="org", project="proj", **settings
    )
    face.made.append(made)
    return made


def _ours(face: Face, server: Server, router: Any, **settings: Any) -> Any:
    made = face.shim(
        api_key="sk-mine", base_url=server.base_url, organization="org", project="proj", router=router, **settings
    )
    face.made.append(made)
    return made


@pytest.mark.parametrize("routed", [NO_ROUTER, ROUTER])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__.strip("_"))
async def test_the_bytes_are_the_official_clients(plain: Face, serve: Serve, call: Any, routed: str) -> None:
    server, other = serve(_anything), serve(answers.fails(500))
    router = None if routed == NO_ROUTER else configuration("chat", other)
    await call(_official(plain, server))
    ours = _ours(plain, server, router)

    await call(ours)

    theirs, mine = (_normal(request.raw) for request in server.seen)
    assert mine == theirs
    assert other.seen == []


@pytest.mark.parametrize("routed", [NO_ROUTER, ROUTER])
async def test_the_result_is_the_official_clients(plain: Face, serve: Serve, routed: str) -> None:
    server = serve(_anything)
    router = None if routed == NO_ROUTER else configuration("embedding", server)
    for call in (_chat, _stream, _embeddings, _models, _raw):
        theirs = await call(_official(plain, server))
        mine = await call(_ours(plain, server, router))
        assert mine == theirs
        assert type(mine) is type(theirs)


@pytest.mark.parametrize("routed", [NO_ROUTER, ROUTER])
@pytest.mark.parametrize(
    ("status", "times"), [(400, 1), (401, 1), (404, 1), (422, 1), (429, 3), (500, 3), (503, 3)], ids=str
)
async def test_errors_and_retries_are_the_official_clients(
    plain: Face, serve: Serve, routed: str, status: int, times: int
) -> None:
    script = answers.fails(status, answers.error("no", "some_code"), [("retry-after-ms", "1")])
    theirs_at, ours_at = serve(script), serve(script)
    router = None if routed == NO_ROUTER else configuration("embedding", ours_at)
    raised = []
    for client in (_official(plain, theirs_at), _ours(plain, ours_at, router)):
        with pytest.raises(openai.APIStatusError) as caught:
            await _chat(client)
        raised.append(caught.value)

    theirs, ours = raised
    assert type(ours) is type(theirs)
    assert (ours.message, ours.code, ours.body) == (theirs.message, theirs.code, theirs.body)
    assert len(ours_at.seen) == len(theirs_at.seen) == times


def test_without_a_configuration_the_http_client_is_the_official_one() -> None:
    theirs, ours = openai.OpenAI(api_key="k"), shim.OpenAI(api_key="k")
    assert ours.router is None
    assert type(ours._client) is type(theirs._client)
    assert (ours.max_retries, ours.timeout, ours.base_url) == (theirs.max_retries, theirs.timeout, theirs.base_url)
    for client in (theirs, ours):
        client.close()


def test_without_a_key_and_a_configuration_the_complaint_is_the_official_one() -> None:
    with pytest.raises(openai.OpenAIError) as theirs:
        openai.OpenAI()
    with pytest.raises(openai.OpenAIError) as ours:
        shim.OpenAI()
    assert str(ours.value) == str(theirs.value)


async def test_a_client_whose_key_is_all_in_the_configuration_says_what_it_lacks(plain: Face, serve: Serve) -> None:
    server = serve(answers.says())
    client = plain.client(configuration("chat", server), base_url=server.base_url)

    with pytest.raises(openai.OpenAIError, match=r"belongs to no family.*OPENAI_API_KEY"):
        await _chat(client)

    assert server.seen == []


@pytest.mark.parametrize("name", ["provider", "workload_identity", "data_residency"])
def test_a_client_that_promises_where_data_go_is_not_routed(
    name: str, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """A configuration that is found does not overrule the promise; only `router=` in so many words does."""
    import inspect

    if name not in inspect.signature(openai.OpenAI.__init__).parameters:
        pytest.skip(f"this openai has no {name}")
    from shim.client import _router_for

    path = tmp_path / "shim.toml"
    path.write_text('[providers.a]\nbase_url = "https://a.invalid/v1"\napi_key = "k"\n')
    monkeypatch.setenv("SHIM_CONFIG", str(path))
    assert _router_for(None, {}) is not None
    assert _router_for(None, {name: "something"}) is None
    assert _router_for({"providers": {}}, {name: "something"}) is not None


def test_a_client_that_names_its_endpoint_needs_its_key_unless_it_asks_for_a_router(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """A configuration that merely lies there does not hide that the key for the named endpoint is missing."""
    path = tmp_path / "shim.toml"
    path.write_text('[providers.a]\nbase_url = "https://a.invalid/v1"\napi_key = "k"\n')
    monkeypatch.setenv("SHIM_CONFIG", str(path))
    with pytest.raises(openai.OpenAIError, match=r"(?i)credentials|api_key"):
        shim.OpenAI(base_url="https://named.invalid/v1")
    for client in (shim.OpenAI(), shim.OpenAI(base_url="https://named.invalid/v1", router=str(path))):
        assert client.router is not None
        client.copy(timeout=3).close()
        client.close()
