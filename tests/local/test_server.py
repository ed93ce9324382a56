"""The loopback server and the handlers that are ill on purpose, over real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import openai
import pytest

from shim.local.provider import LocalProvider
from shim.local.server import Answer, Handler, LocalServer, Sick, failing, hanging, rate_limited, serve


def echo(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """A healthy handler that tells what it was given."""
    return 200, [("x-seen", headers.get("x-test", ""))], f"{method} {path} ".encode() + body


def connect(server: LocalServer) -> http.client.HTTPConnection:
    """A keep-alive connection to a server."""
    return http.client.HTTPConnection(urlsplit(server.base_url).netloc, timeout=20)


def ask(line: http.client.HTTPConnection, body: bytes = b"hi") -> tuple[int, bytes]:
    """Status and body of one POST."""
    line.request("POST", "/v1/x?y=1", body, {"X-Test": "t"})
    response = line.getresponse()
    return response.status, response.read()


def test_the_official_client_embeds_through_the_server() -> None:
    """The whole way: base64 is asked for, the vector arrives, a bad request raises the official class."""
    with (
        serve(LocalProvider().handle_http) as server,
        openai.OpenAI(base_url=server.base_url, api_key="unused", max_retries=0) as client,
    ):
        answer = client.embeddings.create(model="wordllama-256", input=["a cat", "a dog"], dimensions=64)
        assert [len(row.embedding) for row in answer.data] == [64, 64]
        assert answer.usage.prompt_tokens == 4
        assert "wordllama-256" in [model.id for model in client.models.list()]
        with pytest.raises(openai.NotFoundError, match="Local models: wordllama-256"):
            client.embeddings.create(model="nope", input="x")
        with pytest.raises(openai.BadRequestError, match=r"input\[1\]"):
            client.embeddings.create(model="wordllama-256", input=["x", ""])


def test_a_connection_is_kept_for_many_requests() -> None:
    """HTTP/1.1: the same socket serves again, and headers, path and body reach the handler."""
    with serve(echo) as server:
        line = connect(server)
        assert ask(line) == (200, b"POST /v1/x?y=1 hi")
        first = line.sock
        assert ask(line, b"") == (200, b"POST /v1/x?y=1 ")
        assert line.sock is first
        line.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Content-Length": "-1"}, 411),
        ({"Content-Length": "x"}, 411),
        ({"Content-Length": str(2**40)}, 413),
    ],
    ids=["chunked", "negative", "no number", "too large"],
)
def test_a_body_of_unknown_or_absurd_length_is_refused(headers: dict[str, str], status: int) -> None:
    """The connection ends, since where the next request begins is unknown."""
    with serve(echo) as server:
        line = connect(server)
        line.putrequest("POST", "/v1/x")
        for name, value in headers.items():
            line.putheader(name, value)
        line.endheaders()
        response = line.getresponse()
        assert (response.status, response.getheader("connection")) == (status, "close")
        line.close()


@pytest.mark.parametrize(
    ("make", "status", "kind"),
    [
        (lambda handler: rate_limited(handler, 2, 1.5), 429, "requests"),
        (lambda handler: failing(handler, 2, 503), 503, "server_error"),
    ],
    ids=["rate limited", "failing"],
)
def test_an_illness_passes(make: Callable[[Handler], Sick], status: int, kind: str) -> None:
    """Two bad answers, then healthy; ill again for as long as the flag is set."""
    sick = make(echo)
    with serve(sick) as server:
        line = connect(server)
        answers = [ask(line) for _ in range(3)]
        assert [got for got, _ in answers] == [status, status, 200]
        assert json.loads(answers[0][1])["error"]["type"] == kind
        sick.ill.set()
        assert ask(line)[0] == status
        sick.ill.clear()
        assert ask(line)[0] == 200
        assert sick.refused == 3
        line.close()


def test_a_rate_limit_names_its_wait() -> None:
    """Retry-After in seconds, fractions kept."""
    assert ("retry-after", "1.5") in rate_limited(echo, 1, 1.5)("GET", "/", {}, b"")[1]


def test_a_hang_ends_in_a_healthy_answer_when_its_time_is_over() -> None:
    """A slow provider, not a dead one."""
    assert hanging(echo, 1, 0.0)("GET", "/", {}, b"")[0] == 200


def test_closing_frees_a_request_that_hangs() -> None:
    """An hour's hang, also one beneath another illness, ends at once with a 503 and leaves no thread behind."""
    entered, hang = threading.Event(), hanging(echo, 1, 3600.0)
    illness = hang._illness

    def watched(released: threading.Event) -> Answer | None:
        entered.set()
        return illness(released)

    hang._illness = watched
    got: list[tuple[int, bytes]] = []
    server = serve(failing(hang, 0, 500))
    line = connect(server)
    caller = threading.Thread(target=lambda: got.append(ask(line)))
    caller.start()
    assert entered.wait(20)
    server.close()
    caller.join(20)
    assert [status for status, _ in got] == [503]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("shim-local")]
    line.close()


def test_closing_ends_idle_connections_and_frees_the_port() -> None:
    """A client that keeps its connection open does not hold the server; closing twice is allowed."""
    server = serve(echo)
    line = connect(server)
    assert ask(line)[0] == 200
    server.close()
    server.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("shim-local")]
    address = urlsplit(server.base_url)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=5)
    line.close()


def test_the_counts_hold_under_threads() -> None:
    """Exactly as many bad answers as were asked for, however many threads ask."""
    sick, gate = failing(echo, 10, 500), threading.Barrier(8)
    statuses: list[int] = []

    def work() -> None:
        gate.wait(10)
        statuses.extend(sick("GET", "/", {}, b"")[0] for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (statuses.count(500), statuses.count(200), sick.refused) == (10, 30, 10)
