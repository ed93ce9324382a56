"""What belongs to an account never reaches a cassette; what only looks a little like it does."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

import shim
from shim.testing import use_cassette
from shim.testing.recording import Asked, Recording, Said
from shim.testing.scrubbing import MASK, Scrubber, secrets_in
from tests.support.answers import chat
from tests.support.faces import HELLO, MODEL, Face, configuration, out
from tests.support.server import Peer, Seen, Server

KEY = "made-up-key-0123456789"
URL = "https://a.invalid/v1/chat/completions"


def scrubbed(
    *,
    url: str = URL,
    asked: dict[str, str] | None = None,
    said: tuple[tuple[str, str], ...] = (),
    request: bytes = b"{}",
    answer: bytes = b"{}",
    **settings: Any,
) -> tuple[Recording, list[str]]:
    recording = Recording(Asked("POST", url, asked or {}, request), Said(200, said, answer))
    found, findings = Scrubber(**settings).scrub(recording)
    again, none = Scrubber(**settings).scrub(found)
    assert (again, none) == (found, []), "scrubbing what is scrubbed changes nothing"
    return found, [str(one) for one in findings]


@pytest.mark.parametrize(
    "name", ["authorization", "api-key", "x-api-key", "x-goog-api-key", "ocp-apim-subscription-key", "cookie"]
)
def test_a_credential_of_the_request_is_dropped_and_named(name: str) -> None:
    found, findings = scrubbed(asked={name: f"Bearer {KEY}", "content-type": "application/json", "user-agent": "x"})
    assert found.asked.headers == {"content-type": "application/json"}
    assert findings == [f"request header {name}: a credential"]


@pytest.mark.parametrize(
    "name",
    ["set-cookie", "openai-organization", "openai-project", "x-request-id", "request-id", "x-account-id", "cf-ray"],
)
def test_a_header_of_the_answer_that_tells_who_asked_is_dropped(name: str) -> None:
    found, _ = scrubbed(said=((name, "org-abc12345678"), ("content-type", "application/json")))
    assert found.said.headers == (("content-type", "application/json"),)


@pytest.mark.parametrize(
    "name",
    ["retry-after", "retry-after-ms", "x-ratelimit-remaining-tokens", "ratelimit-reset", "x-should-retry", "server"],
)
def test_a_header_that_a_verdict_depends_on_stays(name: str) -> None:
    found, findings = scrubbed(said=((name, "17"),))
    assert found.said.headers == ((name, "17"),)
    assert findings == []


def test_more_headers_stay_where_that_is_asked() -> None:
    found, _ = scrubbed(said=(("X-Mine".lower(), "1"), ("x-other", "2")), keep_headers=["X-Mine"])
    assert found.said.headers == (("x-mine", "1"),)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"{URL}?key={KEY}&alt=sse", f"{URL}?key=***&alt=sse"),
        (f"{URL}?api-version=2024-10-21", f"{URL}?api-version=2024-10-21"),
        (f"{URL}?access_token=a%2Fb%2Fc", f"{URL}?access_token=***"),
        ("https://me:secret-word@a.invalid/v1/x", "https://***@a.invalid/v1/x"),
        ("https://a.invalid/accounts/0123456789abcdef/ai/v1/x", "https://a.invalid/accounts/***/ai/v1/x"),
        ("https://a.invalid/v1/projects/my-project-7/locations", "https://a.invalid/v1/projects/***/locations"),
        (f"{URL}?code=a1b2c3", f"{URL}?code=***"),
        (URL, URL),
    ],
    ids=["a key", "a version", "a token", "a password", "an account", "a project", "a function's key", "nothing"],
)
def test_urls(url: str, expected: str) -> None:
    found, findings = scrubbed(url=url)
    assert found.asked.url == expected
    assert bool(findings) == (url != expected)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f'{{"m":"Incorrect API key: {KEY}."}}', '{"m":"Incorrect API key: ***."}'),
        ('{"m":"key sk-made-up0123456789 is wrong"}', '{"m":"key *** is wrong"}'),
        ('{"m":"AIzaMadeUp0123456789 is wrong"}', '{"m":"*** is wrong"}'),
        ('{"m":"Bearer abcdef0123456789"}', '{"m":"Bearer ***"}'),
        ('{"m":"for org-A1b2C3d4E5f6 on"}', '{"m":"for *** on"}'),
        ('{"m":"ask about req_0123456789abcdef"}', '{"m":"ask about ***"}'),
        ('{"user_id": "org_2abc"}', '{"user_id": "***"}'),
        ('{"account_id":"someone"}', '{"account_id":"***"}'),
        ('{"m":"eyJhbGciOiJIUzI1NiJ9.' + "eyJ" + "a1" * 150 + "." + "b2" * 20 + '"}', '{"m":"***"}'),
        ('{"m":"ya29.made-up_0123456789-0123456789"}', '{"m":"***"}'),
        ('{"m":"AKIAMADEUP0123456789"}', '{"m":"***"}'),
        ('{"m":"see https://me:word@a.invalid/"}', '{"m":"see https://***@a.invalid/"}'),
        ('{"m":"GET https://a.invalid/?x=1&key=a1b2 failed"}', '{"m":"GET https://a.invalid/?x=1&key=*** failed"}'),
        ('{"refresh_token":"a1\\"b2"}', '{"refresh_token":"***"}'),
        ('{"apiKey": "a1b2"}', '{"apiKey": "***"}'),
        ('{"client_secret":{"value":"ek_68af296e8e40"}}', '{"client_secret":{"value":"***"}}'),
    ],
    ids=[
        "the request's own",
        "by prefix",
        "google's",
        "bearer",
        "organisation",
        "request",
        "user",
        "account",
        "signed",
        "google token",
        "aws",
        "URL",
        "query of a URL",
        "refresh token",
        "key of another spelling",
        "short-lived key",
    ],
)
def test_bodies(body: str, expected: str) -> None:
    found, findings = scrubbed(asked={"authorization": f"Bearer {KEY}"}, answer=body.encode())
    assert found.said.body == expected.encode()
    assert len(findings) == 2
    assert KEY not in " ".join(findings)


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"chatcmpl-0123456789abcdef","m":"a user-friendly project-based task-list"}',
        b'{"token":"hello123world","logprob":-0.1}',
        b'{"completion_tokens":402,"organization":""}',
        b'{"m":"sk-learn and pk-fire are words"}',
        b'{"embedding":"' + base64.b64encode(bytes(range(256)) * 8) + b'"}',
        b'{"b64":"' + b"A" * 100 + b"/AIza" + b"b" * 100 + b'"}',
        b"data: {}\r\n\r\n: ping\n\ndata: [DONE]\n\n",
        b"\xff\xfe\x00",
    ],
    ids=["words", "logprobs", "numbers", "prefixes of words", "a vector", "noise in audio", "events", "bytes"],
)
def test_what_is_no_secret_stays_byte_for_byte(body: bytes) -> None:
    found, findings = scrubbed(answer=body, request=body)
    assert (found.said.body, found.asked.body, findings) == (body, body, [])


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ({"x-my-key": "made-up-word"}, b'{"m":"made-up-word"}'),
        ({"cookie": "a=1; sid=made-up-word"}, b'{"m":"sid=made-up-word"}'),
        ({"authorization": "Basic " + base64.b64encode(b"me:made-up-word").decode()}, b'{"m":"made-up-word"}'),
        ({"api-key": "made/up/word"}, b'{"m":"made\\/up\\/word"}'),
    ],
    ids=["a header of one's own", "a cookie", "a password", "slashes escaped"],
)
def test_what_a_request_carries_is_masked_where_the_answer_repeats_it(headers: dict[str, str], answer: bytes) -> None:
    found, findings = scrubbed(asked=headers, answer=answer)
    assert found.said.body.endswith(b'***"}')
    assert "answer body: repeats a key" in findings


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (
            "application/x-www-form-urlencoded",
            b"grant_type=x&client_secret=a1b2&max_tokens=7&password=c3",
            b"grant_type=x&client_secret=***&max_tokens=7&password=***",
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="token"\r\n\r\na1b2\r\n--b--\r\n',
            b'--b\r\nContent-Disposition: form-data; name="token"\r\n\r\n***\r\n--b--\r\n',
        ),
        ("text/plain", b"token=a1b2", b"token=a1b2"),
    ],
    ids=["a form", "a form in parts", "no form"],
)
def test_forms(kind: str, body: bytes, expected: bytes) -> None:
    found, _ = scrubbed(asked={"content-type": kind}, request=body)
    assert found.asked.body == expected


def test_where_an_answer_sends_one_to_is_masked_as_a_url_is() -> None:
    found, findings = scrubbed(said=(("location", "/f?X-Amz-Signature=a1b2&x=1"),))
    assert found.said.headers == (("location", "/f?X-Amz-Signature=***&x=1"),)
    assert findings == ["query field X-Amz-Signature: a credential"]


def test_known_secrets_go_wherever_they_stand() -> None:
    found, _ = scrubbed(
        url=f"{URL}?team=blue-team", request=b'{"user":"blue-team"}', answer=b"blue-team", known=["blue-team", "abc"]
    )
    assert (found.asked.url, found.asked.body, found.said.body) == (f"{URL}?team=***", b'{"user":"***"}', b"***")


def test_a_short_secret_is_no_reason_to_mask_every_word() -> None:
    found, _ = scrubbed(asked={"authorization": "Bearer k"}, answer=b'{"kind":"ok"}')
    assert found.said.body == b'{"kind":"ok"}'


def test_the_environment_gives_its_secrets() -> None:
    environ = {
        "OPENAI_API_KEY": KEY,
        "HF_TOKEN": "made-up-token-1",
        "KEYBOARD": "de-latin1-nodeadkeys",
        "MY_KEY": "short1",
        "KEY_STORE": "an-ordinary-name",
    }
    assert secrets_in(environ) == {KEY, "made-up-token-1"}


async def test_a_cassette_of_a_leaky_server_holds_nothing(face: Face, tmp_path: Path) -> None:
    """Case V03, at the source: the answer repeats the key in its headers and its body, in two spellings."""

    def leaky(request: Seen, peer: Peer) -> None:
        key = request.headers["authorization"].removeprefix("Bearer ")
        body = {**chat(f"your key is {key}"), "organization": "org-A1b2C3d4E5f6"}
        headers = [
            ("set-cookie", f"session={key}; Path=/"),
            ("x-request-id", "req_0123456789abcdef"),
            ("openai-organization", "org-A1b2C3d4E5f6"),
            ("content-type", "application/json"),
            ("x-ratelimit-limit-requests", "60"),
        ]
        peer.answer(200, body, headers)

    config_key = "sk-made-up/leaky+0123456789="
    with Server(leaky) as server:
        config = configuration("chat", server)
        config["providers"]["a"] |= {"api_key": config_key, "query": {"subscription-key": config_key}}
        with use_cassette(tmp_path / "a.yaml", record="once"):
            await out(face.client(shim.Router(config)).chat.completions.create(model=MODEL, messages=HELLO))
    text = (tmp_path / "a.yaml").read_text()
    for secret in (config_key, "leaky", "session", "A1b2C3d4E5f6", "0123456789", "authorization"):
        assert secret not in text, secret
    assert MASK in text
    with use_cassette(tmp_path / "a.yaml", all_used=True):
        answer = await out(face.client(shim.Router(config)).chat.completions.create(model=MODEL, messages=HELLO))
    assert answer.choices[0].message.content == "your key is ***"
    assert os.environ.get("OPENAI_API_KEY") is None
