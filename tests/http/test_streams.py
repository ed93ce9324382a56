"""Streams over a real wire: unseen failover before the first content, never a silent half answer after it."""

from __future__ import annotations

import asyncio
import gc
import gzip
import threading
from collections.abc import Callable
from typing import Any

import openai
import pytest

import shim
from shim.events import BreakerState, Ending, Verdict
from shim.testing import FakeClock
from tests.support import answers
from tests.support.answers import DONE, chat_events, chunk, event
from tests.support.faces import HELLO, MODEL, Both, Face, all_of, configuration, each, out
from tests.support.fixtures import Serve
from tests.support.server import PATIENCE, Peer, Script, Seen

ROLE = event(chunk("", role="assistant"))
PING = b": ping\n\n"
ERROR = event({"error": {"message": "overloaded", "type": "server_error", "code": "overloaded"}})


async def open_stream(client: Any, **extra: Any) -> Any:
    return await out(client.chat.completions.create(model=MODEL, messages=HELLO, stream=True, **extra))


def text_of(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def breaker(client: Any, route: int = 0) -> Any:
    return client.router._board.families["fam"].routes[route].health.breaker


def in_flight(client: Any, route: int = 0) -> int:
    return int(client.router._board.families["fam"].routes[route].health.in_flight)


# -- before the first content


def _role_then(end: Callable[[Peer], None]) -> Script:
    def script(request: Seen, peer: Peer) -> None:
        peer.begin()
        peer.chunk(PING)
        peer.chunk(ROLE)
        end(peer)

    return script


def _pings_for_ever(request: Seen, peer: Peer) -> None:
    peer.begin()
    while not peer.is_gone(0.02):
        peer.chunk(PING)


BEFORE: dict[str, Script] = {
    "a refusal": answers.fails(500),
    "an error as the first event": answers.streams([ERROR, DONE]),
    "an error after role and pings": answers.streams([PING, ROLE, PING, ERROR]),
    "an end before content": answers.streams([PING, ROLE, DONE]),
    "an empty stream": answers.streams([]),
    "a reset before content": _role_then(lambda peer: peer.reset()),
    "a break before content": _role_then(lambda peer: peer.close()),
    "a stall before content": _role_then(lambda peer: peer.hang()),
    "pings for ever": _pings_for_ever,
    "content, and an end before its line end": answers.streams([event(chunk("Hel")).rstrip()]),
    "JSON instead of a stream": lambda request, peer: peer.answer(
        200, b' {"error": {"message": "overloaded"}}', [("content-type", "text/event-stream")]
    ),
    "a page instead of a stream": lambda request, peer: peer.answer(
        200, b"<html><title>Login</title></html>", [("content-type", "text/html")]
    ),
}


@pytest.mark.parametrize("script", BEFORE.values(), ids=BEFORE)
async def test_a_failure_before_content_is_not_seen(face: Face, serve: Serve, script: Script) -> None:
    first, second = serve(script), serve(answers.streams(chat_events(["Hel", "lo"])))
    client = face.client(configuration("chat", first, second, policy={"first_chunk_timeout": 1.5}))

    chunks = await all_of(await open_stream(client))

    assert text_of(chunks) == "Hello"
    call = client.router.calls[-1]
    assert [attempt.verdict for attempt in call.attempts] == [Verdict.TRANSIENT, Verdict.OK]
    assert (call.ending, call.winner) == (Ending.OK, 2)
    assert first.wait_for_closed(1)


async def test_role_and_comments_are_replayed_in_order(face: Face, serve: Serve) -> None:
    parts = [b": one\n\n", ROLE, b": two\n\n", event(chunk("x")), event(chunk(finish="stop")), DONE]
    client = face.client(configuration("chat", serve(answers.streams(parts))))
    asking = client.chat.completions.with_streaming_response.create(model=MODEL, messages=HELLO, stream=True)
    async with Both(asking) as raw:
        assert b"".join(await all_of(raw.iter_bytes())) == b"".join(parts)


BYTES: dict[str, list[bytes]] = {
    "plain": chat_events(),
    "CRLF": [part.replace(b"\n", b"\r\n") for part in chat_events()],
    "comments between": [b": OPENROUTER PROCESSING\n\n", *chat_events()[:2], b":\n\n", *chat_events()[2:]],
    "event and id fields": [b"id: 7\nevent: message\nretry: 10\n" + part for part in chat_events()],
    "data on several lines": [
        ROLE,
        b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m",\n'
        b'data: "choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
        event(chunk(finish="stop")),
        DONE,
    ],
    "no space after data": [part.replace(b"data: ", b"data:") for part in chat_events()],
    "a byte order mark": [b"\xef\xbb\xbf", *chat_events()],
    "every byte for itself": [bytes([byte]) for byte in b"".join(chat_events(["é…"]))],
    "all at once": [b"".join(chat_events())],
    "no blank line at the end": [*chat_events()[:-1], b"data: [DONE]\n"],
}


NUMBERED = [b"id: 7\n" + part for part in chat_events()]
ODD: dict[str, list[bytes]] = {
    "empty data": [b"data:\n\n", *chat_events()[:2], b"data: \n\n", *chat_events()[2:]],
    "a time to reconnect": [b"retry: 3000\n\n", *chat_events()],
    "a name without data": [*chat_events()[:2], b"event: ping\n\n", *chat_events()[2:]],
    "comments after an id": [NUMBERED[0], PING, *NUMBERED[1:3], PING, b"\n\n", *NUMBERED[3:]],
    "no line end after the last event": [*chat_events()[:-2], chat_events()[-2].rstrip()],
}


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "text/html", "text/plain"])
@pytest.mark.parametrize("parts", ODD.values(), ids=ODD)
async def test_odd_streams_are_read_to_their_end(face: Face, serve: Serve, parts: list[bytes], kind: str) -> None:
    """The official client alone fails on all of these, or overlooks their end."""
    server = serve(answers.streams(parts, [("content-type", kind)]))
    chunks = await all_of(await open_stream(face.client(configuration("chat", server))))
    assert (text_of(chunks), chunks[-1].choices[0].finish_reason) == ("Hello", "stop")


@pytest.mark.parametrize("parts", BYTES.values(), ids=BYTES)
async def test_the_bytes_are_passed_on_untouched(face: Face, serve: Serve, parts: list[bytes]) -> None:
    client = face.client(configuration("chat", serve(answers.streams(parts))))
    asking = client.chat.completions.with_streaming_response.create(model=MODEL, messages=HELLO, stream=True)
    async with Both(asking) as raw:
        assert b"".join(await all_of(raw.iter_bytes())) == b"".join(parts)
    assert client.router.calls[-1].ending is Ending.OK


async def test_a_compressed_stream_is_understood(face: Face, serve: Serve) -> None:
    packed = gzip.compress(b"".join(chat_events()))
    parts = [packed[:20], packed[20:31], packed[31:]]
    headers = [("content-type", "text/event-stream"), ("content-encoding", "gzip")]
    client = face.client(configuration("chat", serve(answers.streams(parts, headers))))
    assert text_of(await all_of(await open_stream(client))) == "Hello"


async def test_no_compression_is_asked_of_a_stream(plain: Face, serve: Serve) -> None:
    server = serve(answers.says())
    await all_of(await open_stream(plain.client(configuration("chat", server))))
    assert server.seen[0].headers["accept-encoding"] == "identity"


async def test_a_finished_streams_connection_is_used_again(face: Face, serve: Serve) -> None:
    server = serve(answers.says())
    client = face.client(configuration("chat", server))
    for _ in range(3):
        await all_of(await open_stream(client))
    assert server.opened == 1


def _transcript(*words: str, first: bytes = b"") -> list[bytes]:
    deltas = [{"type": "transcript.text.delta", "delta": word} for word in words]
    done = {"type": "transcript.text.done", "text": "".join(words)}
    return [*([first] if first else []), *(event(one) for one in (*deltas, done))]


async def test_a_transcript_moves_before_its_first_event_and_is_not_held_back(face: Face, serve: Serve) -> None:
    gate = threading.Event()

    def script(request: Seen, peer: Peer) -> None:
        peer.begin()
        parts = _transcript("Hel", "lo")
        peer.chunk(parts[0])
        assert gate.wait(PATIENCE)
        for part in parts[1:]:
            peer.chunk(part)
        peer.end()

    first = serve(answers.streams(_transcript("no", first=ERROR)))
    client = face.client(configuration("transcription", first, serve(script)))
    asking = client.audio.transcriptions.create(model=MODEL, file=("a.wav", b"RIFF"), stream=True)
    kinds = []
    async for item in each(await out(asking)):
        gate.set()
        kinds.append(item.type)
    assert kinds == ["transcript.text.delta", "transcript.text.delta", "transcript.text.done"]
    assert [attempt.verdict for attempt in client.router.calls[-1].attempts] == [Verdict.TRANSIENT, Verdict.OK]


# -- after the first content


def _content_then(end: Callable[[Peer], None], gate: threading.Event) -> Script:
    """Two pieces of content; then, once the reader has them, the end."""

    def script(request: Seen, peer: Peer) -> None:
        peer.begin()
        peer.chunk(ROLE)
        peer.chunk(event(chunk("Hel")))
        peer.chunk(event(chunk("lo")))
        assert gate.wait(PATIENCE)
        peer.stays = False
        end(peer)

    return script


def _ends_early(peer: Peer) -> None:
    peer.end()


def _says_error(peer: Peer) -> None:
    peer.chunk(ERROR)
    peer.end()


def _half_event(peer: Peer) -> None:
    peer.chunk(b'data: {"id": "x", "cho')
    peer.end()


def _pings(peer: Peer) -> None:
    while not peer.is_gone(0.05):
        peer.chunk(PING)


def _pings_with_data(peer: Peer) -> None:
    while not peer.is_gone(0.05):
        peer.chunk(b'event: ping\ndata: {"type": "ping"}\n\n')


AFTER: dict[str, tuple[Callable[[Peer], None], type[shim.StreamInterruptedError]]] = {
    "an error event": (_says_error, shim.StreamInterruptedError),
    "an end without finish": (_ends_early, shim.StreamInterruptedError),
    "half an event": (_half_event, shim.StreamInterruptedError),
    "a reset": (Peer.reset, shim.StreamConnectionError),
    "a break": (Peer.close, shim.StreamConnectionError),
    "a stall": (Peer.hang, shim.StreamTimeoutError),
    "pings alone": (_pings, shim.StreamTimeoutError),
    "pings with data": (_pings_with_data, shim.StreamTimeoutError),
}


@pytest.mark.parametrize(("end", "cls"), AFTER.values(), ids=AFTER)
async def test_a_failure_after_content_is_raised_with_the_text_so_far(
    face: Face, serve: Serve, end: Callable[[Peer], None], cls: type[shim.StreamInterruptedError]
) -> None:
    gate = threading.Event()
    first, second = serve(_content_then(end, gate)), serve(answers.says())
    client = face.client(configuration("chat", first, second, policy={"idle_timeout": 1.5}))
    seen: list[Any] = []
    stream = await open_stream(client)

    with pytest.raises(openai.APIError) as caught:  # noqa: PT012  the loop is what raises
        async for item in each(stream):
            seen.append(item)
            if text_of(seen) == "Hello":
                gate.set()

    error = caught.value
    assert type(error) is cls
    assert isinstance(error, shim.StreamInterruptedError)
    assert error.partial == text_of(seen) == "Hello"
    assert "a/m-a" in error.message
    assert second.seen == []
    call = client.router.calls[-1]
    assert (call.ending, call.winner) == (Ending.INTERRUPTED, None)
    assert call.attempts[-1].verdict is Verdict.TRANSIENT
    assert shim.attempts(error) == call.attempts
    assert in_flight(client) == 0
    assert first.wait_for_closed()


def test_the_stream_errors_are_the_official_classes_too() -> None:
    assert issubclass(shim.StreamTimeoutError, openai.APITimeoutError)
    assert issubclass(shim.StreamConnectionError, openai.APIConnectionError)
    assert issubclass(shim.StreamInterruptedError, openai.APIError)


async def test_the_stream_helper_raises_as_well(plain: Face, serve: Serve) -> None:
    gate = threading.Event()
    gate.set()
    client = plain.client(configuration("chat", serve(_content_then(_ends_early, gate))))
    with pytest.raises(shim.StreamInterruptedError) as caught:
        async with Both(client.chat.completions.stream(model=MODEL, messages=HELLO)) as stream:
            await all_of(stream)
    assert caught.value.partial == "Hello"


async def test_a_stream_that_answers_is_a_probe_that_succeeded(face: Face, serve: Serve) -> None:
    """While it lasts, or is held by somebody who does not read on, the others need not wait."""
    turn: list[Script] = [answers.fails(500), _content_and_hang([]), answers.says()]

    def script(request: Seen, peer: Peer) -> None:
        turn.pop(0)(request, peer)

    clock, policy = FakeClock(), {"breaker": {"failures": 1}}
    router = shim.Router(configuration("chat", serve(script), serve(answers.says()), policy=policy), clock=clock)
    client = face.client(router)
    await out(client.chat.completions.create(model=MODEL, messages=HELLO))
    assert breaker(client).state is BreakerState.OPEN
    clock.advance(10.0)
    held = await open_stream(client)
    answer = await out(client.chat.completions.create(model=MODEL, messages=HELLO))
    assert [call.attempts[0].provider for call in client.router.calls] == ["a", "a"]
    assert shim.attempts(answer)[0].provider == "a"
    assert in_flight(client) == 1
    await out(held.close())
    assert in_flight(client) == 0


# -- the reader goes away


def _content_and_hang(gone: list[bool]) -> Script:
    def script(request: Seen, peer: Peer) -> None:
        peer.begin()
        peer.chunk(ROLE)
        peer.chunk(event(chunk("Hel")))
        peer.hang()
        gone.append(peer.gone.is_set())

    return script


async def test_a_dropped_reader_closes_its_stream_without_complaints(flavour: str, serve: Serve) -> None:
    """Who breaks out of `async for` and forgets the stream leaves its generators to the collector."""
    server = serve(_content_and_hang([]))
    made = Face(True, flavour)
    client = made.client(configuration("chat", server))
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))

    async def look_in() -> None:
        async for item in await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True):
            if item.choices[0].delta.content:
                break

    for _ in range(3):
        await look_in()
    for _ in range(20):
        gc.collect()
        await asyncio.sleep(0)
    await made.close()
    assert server.wait_for_closed()
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
    assert in_flight(client) == 0


def test_another_thread_may_close_a_stream_that_is_read(serve: Serve) -> None:
    """A stop button does: the reader, which waits for the next event, is let go and nobody is blamed."""
    gone: list[bool] = []
    server = serve(_content_and_hang(gone))
    made = Face(False)
    client = made.client(configuration("chat", server))
    stream = client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    seen: list[Any] = []
    begun = threading.Event()

    def read() -> None:
        for item in stream:
            seen.append(item)
            if text_of(seen):
                begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert begun.wait(PATIENCE)
    stream.close()
    reader.join(PATIENCE)
    assert not reader.is_alive()
    assert server.wait_for_closed()
    assert client.router.calls[-1].ending is Ending.OK
    assert in_flight(client) == 0
    client.close()


async def test_an_exception_of_the_reader_is_nobodys_failure(face: Face, serve: Serve) -> None:
    server = serve(_content_and_hang([]))
    client = face.client(configuration("chat", server))
    stream = await open_stream(client)

    with pytest.raises(ValueError, match="mine"):  # noqa: PT012  the reader raises in the middle
        async with Both(stream):
            async for _ in each(stream):
                raise ValueError("mine")

    assert server.wait_for_closed()
    assert breaker(client).state is BreakerState.CLOSED
    assert client.router.calls[-1].attempts[-1].verdict is not Verdict.TRANSIENT
    assert in_flight(client) == 0


async def test_a_stream_that_is_closed_early_closes_its_connection(face: Face, serve: Serve) -> None:
    server = serve(_content_and_hang([]))
    client = face.client(configuration("chat", server))
    stream = await open_stream(client)
    iterator = each(stream)
    await anext(iterator)
    await iterator.aclose()

    await out(stream.close())

    assert server.wait_for_closed()
    assert client.router.calls[-1].ending is Ending.OK
    assert in_flight(client) == 0


async def test_a_stream_that_is_closed_unread_closes_its_connection(face: Face, serve: Serve) -> None:
    server = serve(_content_and_hang([]))
    client = face.client(configuration("chat", server))

    await out((await open_stream(client)).close())

    assert server.wait_for_closed()
    assert in_flight(client) == 0
    assert client.router.calls[-1].ending is Ending.OK


async def test_a_stream_that_is_dropped_gives_its_permit_back(plain: Face, serve: Serve) -> None:
    """Nobody closes it: collecting it must do (the libraries' responses are cycles, so it takes the collector)."""
    if plain.is_async:
        pytest.skip("of an async one the permit comes back (test_hardening), and the connection with the collector")
    server = serve(_content_and_hang([]))
    client = plain.client(configuration("chat", server))
    stream = await open_stream(client)
    next(iter(stream))
    del stream
    gc.collect()
    assert server.wait_for_closed()
    assert in_flight(client) == 0


# -- cancellation


def _async_face(flavour: str) -> Face:
    return Face(True, flavour)


async def test_cancellation_in_mid_stream_is_nobodys_failure(flavour: str, serve: Serve) -> None:
    server = serve(_content_and_hang([]))
    face = _async_face(flavour)
    client = face.client(configuration("chat", server))
    started = asyncio.Event()

    async def read() -> None:
        async for _ in await open_stream(client):
            started.set()

    task = asyncio.create_task(read())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await asyncio.to_thread(server.wait_for_closed)
    assert breaker(client).state is BreakerState.CLOSED
    assert in_flight(client) == 0
    call = client.router.calls[-1]
    assert call.ending is Ending.CANCELLED
    assert call.attempts[-1].verdict is None
    await face.close()


@pytest.mark.parametrize("when", ["before an answer", "in mid-stream"])
async def test_cancelling_twice_leaks_no_connection(flavour: str, serve: Serve, when: str) -> None:
    """Eight calls through a pool of four: were one connection lost for each, the ninth call would wait for ever."""
    in_mid_stream = when == "in mid-stream"
    is_sick = True

    def script(request: Seen, peer: Peer) -> None:
        if not is_sick:
            peer.answer(200, answers.chat())
        elif in_mid_stream:
            _content_and_hang([])(request, peer)
        else:
            peer.hang()

    server = serve(script)
    face = _async_face(flavour)
    http_client = face.http_client(limits=face.module.Limits(max_connections=4))
    client = face.client(configuration("chat", server), http_client=http_client, timeout=3)
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in await open_stream(client):
            begun.set()

    for number in range(8):
        begun.clear()
        task = asyncio.create_task(read())
        if in_mid_stream:
            await begun.wait()
        else:
            assert await asyncio.to_thread(server.wait_for_requests, number + 1)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert await asyncio.to_thread(server.wait_for_closed)
    assert in_flight(client) == 0
    is_sick = False
    await out(client.chat.completions.create(model=MODEL, messages=HELLO, timeout=5))
    await face.close()


async def test_cancelling_a_whole_answer_frees_the_permit(flavour: str, serve: Serve) -> None:
    server, other = serve(answers.hangs()), serve(answers.says())
    face = _async_face(flavour)
    client = face.client(configuration("chat", server, other))
    task = asyncio.create_task(out(client.chat.completions.create(model=MODEL, messages=HELLO)))
    assert await asyncio.to_thread(server.wait_for_requests, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert other.seen == []
    assert await asyncio.to_thread(server.wait_for_closed)
    assert in_flight(client) == 0
    assert client.router.calls[-1].ending is Ending.CANCELLED
    await face.close()


async def test_a_timeout_around_the_call_is_a_cancellation(plain: Face, serve: Serve) -> None:
    if not plain.is_async:
        pytest.skip("asyncio.timeout is for async calls")
    server = serve(answers.hangs())
    client = plain.client(configuration("chat", server))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await out(client.chat.completions.create(model=MODEL, messages=HELLO))
    assert await asyncio.to_thread(server.wait_for_closed)
    assert breaker(client).state is BreakerState.CLOSED
    assert client.router.calls[-1].ending is Ending.CANCELLED
