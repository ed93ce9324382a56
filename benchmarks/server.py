"""A loopback server in a process of its own that answers with prebuilt bytes, and counts who was asked.

The first part of the path says how: `/good/v1`, `/floats/v1` (embeddings as JSON numbers whatever was asked),
`/five/v1` (a 500 at once), `/hang/v1` (reads, never answers). `GET /counts` tells how often each was asked, and the
seconds between each 500 and the next request elsewhere.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import random
import re
import struct
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

CHUNKS = 500
_DISTINCT = 16  # different vectors in an answer; the rows repeat them
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_WORDS = "The transport knows several providers, tries them in order, judges every answer and remembers who is sick. "


def chat_body() -> bytes:
    """A chat answer of about 0.6 KB."""
    message: dict[str, object] = {"role": "assistant", "content": _WORDS * 3, "refusal": None, "annotations": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 63, "total_tokens": 72}
    about = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "m"}
    return json.dumps({**about, "choices": [choice], "usage": usage}).encode()


def stream_events(count: int = CHUNKS) -> list[bytes]:
    """The events of a chat stream with `count` pieces of text."""
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}

    def event(delta: dict[str, str], finish: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return b"data: " + json.dumps({**about, "choices": [choice]}).encode() + b"\n\n"

    pieces = [event({"content": f" word{number}"}, None) for number in range(count)]
    opening = event({"role": "assistant", "content": ""}, None)
    return [opening, *pieces, event({}, "stop"), b"data: [DONE]\n\n"]


def embeddings_body(rows: int, dimensions: int, *, as_base64: bool) -> bytes:
    """An embeddings answer of unit vectors: base64, or numbers of nine digits as providers write them."""
    source = random.Random(7)
    texts = []
    for _ in range(_DISTINCT):
        vector = [source.gauss(0, dimensions**-0.5) for _ in range(dimensions)]
        packed = base64.b64encode(struct.pack(f"<{dimensions}f", *vector)).decode()
        texts.append(f'"{packed}"' if as_base64 else "[" + ",".join(f"{number:.9g}" for number in vector) + "]")
    data = ",".join(
        f'{{"object":"embedding","index":{index},"embedding":{texts[index % _DISTINCT]}}}' for index in range(rows)
    )
    usage = f'{{"prompt_tokens":{rows},"total_tokens":{rows}}}'
    return f'{{"object":"list","data":[{data}],"model":"m","usage":{usage}}}'.encode()


def _answer(status: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nx-request-id: req_1\r\n\r\n"
    return head.encode() + body


def _stream() -> bytes:
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + b"".join(b"%x\r\n%s\r\n" % (len(e), e) for e in stream_events()) + b"0\r\n\r\n"


class Answers:
    """What is sent, made before the first request, and what was asked."""

    def __init__(self, rows: int, dimensions: int) -> None:
        self.chat = _answer("200 OK", chat_body())
        self.stream = _stream()
        self.base64 = _answer("200 OK", embeddings_body(rows, dimensions, as_base64=True))
        self.floats = _answer("200 OK", embeddings_body(rows, dimensions, as_base64=False))
        error = {"error": {"message": "out of order", "type": "server_error", "param": None, "code": None}}
        self.five = _answer("500 Internal Server Error", json.dumps(error).encode())
        self.counts: Counter[str] = Counter()
        self.gaps: list[float] = []
        self.failed_at = 0.0

    def to(self, head: bytes, body: bytes) -> bytes:
        """The answer to a request; empty for none."""
        path = head.split(b" ", 2)[1]
        first = path.split(b"/", 2)[1]
        if first == b"counts":
            return _answer("200 OK", json.dumps({"counts": self.counts, "gaps": self.gaps}).encode())
        self.counts[first.decode()] += 1
        if first == b"five":
            return self.five
        if self.failed_at:
            self.gaps.append(time.perf_counter() - self.failed_at)
            self.failed_at = 0.0
        if first == b"hang":
            return b""
        if path.endswith(b"/embeddings"):
            return self.floats if first == b"floats" else self.base64
        return self.stream if b'"stream":true' in body else self.chat


class Connection(asyncio.Protocol):
    """One kept-alive connection."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._read = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._read[:end])
            found = _LENGTH.search(head)
            whole = end + 4 + (int(found.group(1)) if found else 0)
            if len(self._read) < whole:
                return
            body = bytes(self._read[end + 4 : whole])
            del self._read[:whole]
            answer = self._answers.to(head, body)
            if answer is self._answers.five:  # before the write: after it, we may be stopped for long
                self._answers.failed_at = time.perf_counter()
            self._transport.write(answer)


async def _serve(rows: int, dimensions: int) -> None:
    answers = Answers(rows, dimensions)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(answers), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until the benchmark lets go of us


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs: `http://127.0.0.1:<port>`."""

    root: str

    def base(self, how: str) -> str:
        """The base URL of a provider that answers in this way."""
        return f"{self.root}/{how}/v1"

    def asked(self) -> dict[str, int]:
        """How often each provider was asked so far."""
        counts: dict[str, int] = self._tell()["counts"]
        return counts

    def gaps(self) -> list[float]:
        """Seconds from each 500 until the next request to another provider had come, so far."""
        gaps: list[float] = self._tell()["gaps"]
        return gaps

    def asked_during(self, how: str, work: Callable[[], object]) -> int:
        """How often a provider was asked while `work` ran."""
        before = self.asked().get(how, 0)
        work()
        return self.asked().get(how, 0) - before

    def _tell(self) -> dict[str, Any]:
        with urllib.request.urlopen(self.root + "/counts") as answer:
            told: dict[str, Any] = json.load(answer)
            return told


@contextlib.contextmanager
def serving(rows: int = 10, dimensions: int = 64) -> Iterator[Server]:
    """A server for the length of a `with`. Embeddings answers hold `rows` vectors, whatever is asked."""
    command = [sys.executable, "-m", "benchmarks.server", "--rows", str(rows), "--dimensions", str(dimensions)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.stdin.close()
            process.terminate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--dimensions", type=int, default=64)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.rows, options.dimensions))
