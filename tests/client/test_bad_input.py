"""What users get wrong: an error that names the thing, the value and the way out, never a raw one of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

import shim
from shim import ConfigError, Router
from tests.support import answers
from tests.support.faces import FAMILY, HELLO, MODEL, Face, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Script, Seen

GOOD: dict[str, Any] = {"base_url": "https://a.invalid/v1", "api_key": "key-0123456789"}


def config(provider: Any = None, **family: Any) -> dict[str, Any]:
    """A configuration of one provider and one family, with something replaced."""
    made = {"kind": "chat", "routes": ["a/m"], **family}
    return {"providers": {"a": GOOD if provider is None else provider}, "families": {"fam": made}}


WRONG: dict[str, tuple[Any, list[str]]] = {
    "an unknown provider": (config(routes=["opnai/m"]), ["families.fam.routes[0]", "opnai"]),
    "an unknown key": (config(rotues=[]), ["families.fam.rotues", "routes"]),
    "an unknown kind": (config(kind="embeding"), ["families.fam.kind", "embeding", "embedding"]),
    "no routes": (config(routes=[]), ["families.fam.routes"]),
    "routes of another type": (config(routes=7), ["families.fam.routes"]),
    "a family of another type": ({"families": {"fam": 3}}, ["families.fam"]),
    "providers of another type": ({"providers": []}, ["providers"]),
    "an empty key": (config({**GOOD, "api_key": ""}), ["providers.a.api_key"]),
    "a key with a line break": (config({**GOOD, "api_key": "key-012\n3456789"}), ["providers.a.api_key"]),
    "a key with a control character": (config({**GOOD, "api_key": "key\x07-0123456789"}), ["providers.a.api_key"]),
    "a key of another type": (config({**GOOD, "api_key": 12}), ["providers.a.api_key"]),
    "a URL without scheme": (
        config({**GOOD, "base_url": "a.invalid/v1"}),
        ["providers.a.base_url", "scheme", "https://"],
    ),
    "a URL without TLS": (config({**GOOD, "base_url": "http://a.invalid/v1"}), ["providers.a.base_url", "https"]),
    "a URL of an endpoint": (
        config({**GOOD, "base_url": "https://a.invalid/v1/chat/completions/"}),
        ["providers.a.base_url", "/chat/completions", "leave that out"],
    ),
    "a parameter that JSON cannot hold": (
        config(routes=[{"provider": "a", "model": "m", "params": {"top_k": object()}}]),
        ["families.fam.routes[0].params", "top_k", "object"],
    ),
    "a negative timeout": (config(policy={"attempt_timeout": -1}), ["families.fam.policy.attempt_timeout", "-1"]),
    "an unknown mode": (config(policy={"mode": "fast"}), ["families.fam.policy.mode", "fast", "race"]),
    "an embedding family with fallback": (
        config(kind="embedding", fallback=["fam"]),
        ["families.fam.fallback"],
    ),
}


@pytest.mark.parametrize(("wrong", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_configuration_is_refused_when_it_is_built(wrong: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        Router(wrong)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "0123456789" not in str(caught.value)
    with pytest.raises(ConfigError):
        shim.OpenAI(router=wrong)


@pytest.mark.parametrize("router", [7, object(), ["a"]], ids=["number", "object", "list"])
def test_a_router_of_another_type_is_refused(router: Any) -> None:
    with pytest.raises(ConfigError, match="must be a Router, a mapping, a path or False"):
        shim.OpenAI(router=router)


def test_a_file_that_is_not_there_is_named(tmp_path: Any) -> None:
    with pytest.raises((ConfigError, FileNotFoundError), match=r"nowhere\.toml"):
        shim.OpenAI(router=str(tmp_path / "nowhere.toml"))


# -- texts


@pytest.mark.parametrize("text", ["half \ud83d pair", ["fine", "half \ud83d pair"]], ids=["a text", "one of a list"])
async def test_half_a_surrogate_pair_is_named_and_sent_to_nobody(face: Face, serve: Serve, text: Any) -> None:
    server = serve(answers.embeds())
    client = face.client(configuration("embedding", server))
    place = "input" if isinstance(text, str) else r"input\[1\]"
    with pytest.raises(UnicodeEncodeError, match=rf"{place} holds the lone surrogate U\+D83D at character 5"):
        await out(client.embeddings.create(model=MODEL, input=text))
    chat = face.client(configuration("chat", server))
    with pytest.raises(UnicodeEncodeError, match=r"messages\[0\]\.content holds the lone surrogate"):
        await out(chat.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "\ud83d"}]))
    assert server.seen == []


# -- models


@pytest.mark.parametrize("model", [7, None, ["a"], {"a": 1}], ids=["number", "null", "list", "object"])
async def test_a_model_of_another_type_is_a_400_that_says_so(face: Face, serve: Serve, model: Any) -> None:
    server = serve(answers.says())
    client = face.client(configuration("chat", server), api_key="k", base_url=server.base_url)
    if model is None:
        await out(client.chat.completions.create(model=model, messages=HELLO))
        assert b'"model"' in server.seen[0].body
        return
    with pytest.raises(openai.BadRequestError, match=f"model must be a text.*{FAMILY}"):
        await out(client.chat.completions.create(model=model, messages=HELLO))
    assert server.seen == []


async def test_embeddings_of_a_model_of_another_type(face: Face, serve: Serve) -> None:
    client = face.client(configuration("embedding", serve(answers.embeds())))
    with pytest.raises(openai.BadRequestError, match="model must be a text"):
        await out(client.embeddings.create(model=7, input="a"))


async def test_an_unknown_route_in_a_hint_names_the_known_ones(face: Face, serve: Serve) -> None:
    client = face.client(configuration("chat", serve(answers.says())))
    with pytest.raises(openai.BadRequestError, match=r"no route 'nobody'.*a/m-a"):
        await out(client.chat.completions.create(model=MODEL, messages=HELLO, extra_headers={"x-shim-route": "nobody"}))


# -- hosts and bodies


def _speaks_another_protocol(request: Seen, peer: Peer) -> None:
    peer.raw(b"SSH-2.0-x\r\n")
    peer.close()


ODD: dict[str, Script] = {
    "not JSON": lambda request, peer: peer.answer(200, b"hello", [("content-type", "application/json")]),
    "a page": lambda request, peer: peer.answer(200, b"<html><body>x</body></html>", [("content-type", "text/html")]),
    "an empty body": lambda request, peer: peer.answer(200, b""),
    "a JSON text": lambda request, peer: peer.answer(200, b'"hello"', [("content-type", "application/json")]),
    "a JSON null": lambda request, peer: peer.answer(200, b"null", [("content-type", "application/json")]),
    "a JSON list": lambda request, peer: peer.answer(200, b"[]", [("content-type", "application/json")]),
    "an empty object": lambda request, peer: peer.answer(200, {}),
    "half a body": lambda request, peer: peer.answer(200, b'{"id": ', [("content-type", "application/json")]),
    "choices of another type": lambda request, peer: peer.answer(200, {**answers.chat(), "choices": 7}),
    "no choices": lambda request, peer: peer.answer(200, {**answers.chat(), "choices": []}),
    "an error in a 200": lambda request, peer: peer.answer(200, answers.error("in a 200")),
    "rubbish that claims to be gzip": lambda request, peer: peer.answer(
        200, b"rubbish", [("content-encoding", "gzip")]
    ),
    "no HTTP at all": _speaks_another_protocol,
    "no content": lambda request, peer: peer.raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "deep nesting": lambda request, peer: peer.answer(200, b"[" * 100_000, [("content-type", "application/json")]),
    "bytes that are no text": lambda request, peer: peer.answer(500, b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("kind", ["chat", "embedding"])
@pytest.mark.parametrize("script", ODD.values(), ids=ODD)
async def test_an_odd_answer_is_a_failed_attempt_and_the_next_route_serves(
    face: Face, serve: Serve, script: Script, kind: str
) -> None:
    good = answers.says() if kind == "chat" else answers.embeds()
    client = face.client(configuration(kind, serve(script), serve(good)))
    if kind == "chat":
        await out(client.chat.completions.create(model=MODEL, messages=HELLO))
    else:
        await out(client.embeddings.create(model=MODEL, input="a"))
    first, second = client.router.calls[-1].attempts
    assert first.verdict is not second.verdict
    assert second.provider == "b"
    assert first.message


async def test_a_name_that_does_not_resolve_is_a_connection_error(face: Face) -> None:
    client = face.client(configuration("chat", "https://no-such-host.invalid/v1"))
    with pytest.raises(openai.APIConnectionError, match="a/m-a"):
        await out(client.chat.completions.create(model=MODEL, messages=HELLO))


async def test_a_wrong_path_in_the_url_is_told(face: Face, serve: Serve) -> None:
    server = serve(answers.fails(404, b"404 page not found", [("content-type", "text/plain")]))
    client = face.client(configuration("chat", server))
    with pytest.raises(openai.NotFoundError, match=r"404 page not found \(asked http://127.*/v1/chat/completions\)"):
        await out(client.chat.completions.create(model=MODEL, messages=HELLO))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"detail": "Not Found"}),
        (404, b""),
        (404, b"<html>404</html>"),
        (200, b"<!doctype html><title>Hi</title>"),
    ],
    ids=["FastAPI", "nothing", "a page", "a page as an answer"],
)
async def test_a_base_url_without_its_version_is_asked_about(plain: Face, serve: Serve, status: int, body: Any) -> None:
    written = {"base_url": f"http://127.0.0.1:{serve(answers.fails(status, body)).port}/api", "query": {"team": "nlp"}}
    client = plain.client(config(written))
    with pytest.raises(openai.APIError) as caught:
        await out(client.chat.completions.create(model="fam", messages=HELLO))
    (one,) = caught.value.attempts[:1]  # type: ignore[attr-defined]
    assert one.message.endswith(f"(asked {written['base_url']}/chat/completions; does base_url lack /v1?)")
    assert one.reason == ("wrong_endpoint" if status == 404 else "html")


# -- bodies through the HTTP clients of a router


def _pieces() -> Iterator[bytes]:
    yield b'{"model": "%s", ' % MODEL.encode()
    yield b'"messages": [{"role": "user", "content": "hi"}]}'


def test_a_body_from_an_iterator_is_routed_and_can_be_sent_twice(serve: Serve) -> None:
    first, second = serve(answers.fails(500)), serve(answers.says())
    with Router(configuration("chat", first, second)).http_client() as client:
        response = client.post("/chat/completions", content=_pieces(), headers={"content-type": "application/json"})
    assert response.json()["choices"][0]["message"]["content"] == answers.PONG
    assert first.seen[0].json["messages"] == second.seen[0].json["messages"] == HELLO


@pytest.mark.parametrize("content", [b"", b"not json", b"[1]", b'{"messages": []}'], ids=repr)
def test_a_body_that_names_no_model_goes_where_it_was_sent(serve: Serve, content: bytes) -> None:
    server = serve(lambda request, peer: peer.answer(200, {"own": True}))
    with Router(configuration("chat", serve(answers.says()))).http_client(base_url=server.base_url) as client:
        assert client.post("/chat/completions", content=content).json() == {"own": True}
    assert server.seen[0].body == content


def test_a_file_is_uploaded_to_the_next_route_as_well(serve: Serve, tmp_path: Any) -> None:
    first, second = serve(answers.fails(500)), serve(lambda request, peer: peer.answer(200, {"text": "hello"}))
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFF" + bytes(5000))
    client = shim.OpenAI(router=configuration("transcription", first, second))
    with path.open("rb") as file:
        answer = client.audio.transcriptions.create(model=MODEL, file=file)
    assert answer.text == "hello"
    assert bytes(5000) in second.seen[0].body
    assert b"m-b" in second.seen[0].body
    client.close()
