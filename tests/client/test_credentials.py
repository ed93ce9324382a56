"""A provider sees its own key and nothing of another's; no key is ever shown."""

from __future__ import annotations

import io
import logging
import traceback
from typing import Any

import openai
import pytest
import rich.console
import rich.traceback

import shim
from shim import Router
from tests.support import answers
from tests.support.faces import HELLO, MODEL, Face, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Seen

KEY_A, KEY_B = "key-of-a-0123456789", "key-of-b-0123456789"
CALLERS = "sk-callers-own-0123456789"


async def ask(client: Any, **extra: Any) -> Any:
    return await out(client.chat.completions.create(model=MODEL, messages=HELLO, **extra))


async def test_each_provider_gets_its_own_key_alone(face: Face, serve: Serve) -> None:
    first, second = serve(answers.fails(500)), serve(answers.says())
    client = face.client(configuration("chat", first, second), api_key=CALLERS)
    await ask(client)
    for server, own, others in ((first, KEY_A, (KEY_B, CALLERS)), (second, KEY_B, (KEY_A, CALLERS))):
        raw = server.seen[0].raw
        assert raw.count(own.encode()) == 1
        assert not any(other.encode() in raw for other in others)


async def test_nothing_personal_of_the_caller_goes_to_a_provider(face: Face, serve: Serve) -> None:
    server = serve(answers.says())
    client = face.client(
        configuration("chat", server),
        api_key=CALLERS,
        organization="org-mine",
        project="proj-mine",
        default_headers={"X-Team": "secret-team", "Cookie": "session=secret", "api-key": "secret-azure"},
        default_query={"api_key": "secret-in-query", "trace": "secret-trace"},
    )
    await ask(client, extra_headers={"X-Trace": "secret-trace", "Authorization": "Bearer secret-bearer"})
    raw = server.seen[0].raw.lower()
    for word in (b"secret", b"org-mine", b"proj-mine", b"cookie", b"x-team", CALLERS.encode()):
        assert word not in raw


async def test_only_headers_on_the_list_are_forwarded(plain: Face, serve: Serve) -> None:
    server, other = serve(answers.says()), serve(answers.says())
    config = configuration("chat", server, other)
    config["providers"]["a"]["forward_headers"] = ["X-Team", "Authorization"]
    client = plain.client(config, api_key=CALLERS, default_headers={"X-Team": "nlp", "X-Other": "no"})
    await ask(client)
    await ask(client, extra_headers={"x-shim-route": "b"})
    assert server.seen[0].headers["x-team"] == "nlp"
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY_A}"
    assert "x-other" not in server.seen[0].headers
    assert "x-team" not in other.seen[0].headers


async def test_cookies_of_one_provider_do_not_reach_another(face: Face, serve: Serve) -> None:
    cookie = [("set-cookie", "session=of-a; Path=/")]
    first, second = serve(answers.fails(500, None, cookie)), serve(answers.says())
    client = face.client(configuration("chat", first, second))
    await ask(client)
    await ask(client)
    assert all("cookie" not in request.headers for request in (*first.seen, *second.seen))


async def test_an_answers_cookies_do_not_reach_the_caller(plain: Face, serve: Serve) -> None:
    def script(request: Seen, peer: Peer) -> None:
        peer.answer(200, answers.chat(), [("set-cookie", "session=of-a")])

    client = plain.client(configuration("chat", serve(script)))
    raw = await out(client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO))
    assert "set-cookie" not in raw.headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_with_a_key(face: Face, serve: Serve, status: int) -> None:
    elsewhere = serve(answers.says("from elsewhere"))
    first = serve(answers.fails(status, b"", [("location", f"{elsewhere.base_url}/chat/completions")]))
    second = serve(answers.says("from b"))
    client = face.client(configuration("chat", first, second))
    assert (await ask(client)).choices[0].message.content == "from b"
    assert elsewhere.seen == []


async def test_a_callers_auth_does_not_reach_a_provider(plain: Face, serve: Serve) -> None:
    """An HTTP client with `auth=` signs what it sends itself; our attempts carry the provider's key alone."""
    server = serve(answers.says())
    http_client = plain.http_client(auth=("user", "secret-password"), headers={"X-Client": "1"})
    await ask(plain.client(configuration("chat", server), http_client=http_client))
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY_A}"


# -- never shown

MARKER = "unmistak" + "able"  # in two pieces: a traceback shows the lines of this file as well
SECRET = f"sk-{MARKER}-SECRET-0123456789"


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2", "shim"):
        caplog.set_level(logging.DEBUG, logger=name)
    return caplog


def _shown(error: BaseException) -> str:
    """An exception as the terminals of users show it, with all local variables."""
    sink = io.StringIO()
    console = rich.console.Console(file=sink, width=500)
    made = rich.traceback.Traceback.from_exception(type(error), error, error.__traceback__, show_locals=True)
    console.print(made)
    return sink.getvalue() + "".join(traceback.format_exception(error)) + repr(error) + str(error)


def _secret_configuration(*servers: Any) -> dict[str, Any]:
    config = configuration("chat", *servers)
    for provider in config["providers"].values():
        provider["api_key"] = SECRET
        provider["headers"] = {"X-Api-Token": SECRET + "-header"}
        provider["query"] = {"key": SECRET + "-query"}
    return config


@pytest.mark.parametrize("status", [401, 500, 400])
async def test_a_key_that_the_provider_repeats_is_masked_everywhere(
    face: Face, serve: Serve, status: int, everything_logged: pytest.LogCaptureFixture
) -> None:
    """In the exception, its text, its body, its trace with locals, the records, the log of every library."""
    body = answers.error(f"Incorrect API key provided: {SECRET}. And {SECRET}-header", "invalid_api_key")
    client = face.client(_secret_configuration(serve(answers.fails(status, body))))

    with pytest.raises(openai.APIStatusError) as caught:
        await ask(client)

    error = caught.value
    for shown in (
        str(error),
        repr(error),
        str(error.body),
        error.response.text,
        repr(shim.attempts(error)),
        repr(client.router.calls),
        repr(error.response.headers),
        everything_logged.text,
    ):
        assert MARKER not in shown


async def test_a_traceback_with_locals_shows_no_key(plain: Face, serve: Serve) -> None:
    client = plain.client(_secret_configuration(serve(answers.fails(500))))
    with pytest.raises(openai.APIStatusError) as caught:
        await ask(client)
    assert MARKER not in _shown(caught.value)


async def test_a_broken_connections_traceback_shows_no_key(plain: Face, serve: Serve) -> None:
    client = plain.client(_secret_configuration(serve(answers.resets())))
    with pytest.raises(openai.APIConnectionError) as caught:
        await ask(client)
    assert MARKER not in _shown(caught.value)


async def test_a_good_call_logs_no_key(face: Face, serve: Serve, everything_logged: pytest.LogCaptureFixture) -> None:
    client = face.client(_secret_configuration(serve(answers.says())))
    await ask(client)
    assert everything_logged.text
    assert MARKER not in everything_logged.text


async def test_no_repr_shows_a_key(plain: Face, serve: Serve) -> None:
    client = plain.client(_secret_configuration(serve(answers.says())))
    answer = await ask(client)
    router: Router = client.router
    for shown in (repr(client), repr(router), repr(router.config), str(router.config), repr(answer)):
        assert MARKER not in shown
    assert MARKER not in repr(router.status())
    assert MARKER not in repr(router.explain(MODEL, kind="chat"))


def _breaking() -> list[bytes]:
    return [*answers.chat_events()[:2], answers.event(answers.error(f"bad key {SECRET}"))]


async def test_a_stream_that_breaks_shows_no_key(plain: Face, serve: Serve) -> None:
    client = plain.client(_secret_configuration(serve(answers.streams(_breaking()))))
    stream = await ask(client, stream=True)
    with pytest.raises(shim.StreamInterruptedError) as caught:  # noqa: PT012  reading is what raises
        if plain.is_async:
            async for _ in stream:
                pass
        else:
            for _ in stream:
                pass
    assert MARKER not in str(caught.value) + repr(caught.value.body) + repr(caught.value.call)
    assert MARKER not in _shown(caught.value)


async def test_the_503s_body_shows_no_key(plain: Face, serve: Serve) -> None:
    body = answers.error(f"no credit on {SECRET}", "insufficient_quota")
    client = plain.client(_secret_configuration(serve(answers.fails(402, body))))
    with pytest.raises(shim.AllProvidersFailedError) as caught:
        await ask(client)
    assert MARKER not in caught.value.response.text
    assert "***" in caught.value.response.text
