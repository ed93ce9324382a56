"""Changes the body of a good answer as a fault asks: bytes in, steps out; a driver carries the steps out."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never

from shim._core.faults import BadRows, Cut, Drip, ErrorEvent, Rows
from shim._core.outcome import Fault
from shim._core.sse import SSEParser


@dataclass(frozen=True, slots=True)
class Rest:
    """Say nothing for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Break:
    """The body ends here: by a fault, or properly where that is None."""

    fault: Fault | None


Step = bytes | Rest | Break


class Tamper:
    """One body on its way. Feed it chunks cut anywhere, then `end`; after a `Break` there is nothing more to do."""

    def __init__(self, change: Cut | Drip | ErrorEvent | BadRows) -> None:
        self._change = change
        self._held = bytearray()
        self._passed = 0
        self._events = 0
        self._parser = SSEParser()

    def feed(self, chunk: bytes) -> Iterator[Step]:
        """The steps that a chunk brings."""
        match self._change:
            case Cut(after=after, fault=fault):
                yield from self._cut(chunk, after, fault)
            case Drip(every=every, size=size):
                for start in range(0, len(chunk), size):
                    yield Rest(every)
                    yield chunk[start : start + size]
            case ErrorEvent() as error:
                yield from self._interrupt(chunk, error)
            case BadRows():
                self._held += chunk
            case _:
                assert_never(self._change)

    def end(self) -> Iterator[Step]:
        """The steps that the end of the body brings."""
        match self._change:
            case BadRows() as rows:
                yield spoil(bytes(self._held), rows)
            case Cut(fault=fault):
                yield Break(fault)  # a body shorter than the cut breaks at its end: the fault was asked for
            case ErrorEvent() as error:
                yield _event_of(error)
            case Drip():
                pass
            case _:
                assert_never(self._change)

    def _cut(self, chunk: bytes, after: int, fault: Fault | None) -> Iterator[Step]:
        left = after - self._passed
        self._passed += len(chunk)
        if left > 0:
            yield chunk[:left]
        if len(chunk) >= left:
            yield Break(fault)

    def _interrupt(self, chunk: bytes, error: ErrorEvent) -> Iterator[Step]:
        """Whole events pass; an event that is cut between two chunks is held until it is whole."""
        self._held += chunk
        for event in self._parser.feed(chunk):
            if self._events == error.after:
                break
            self._events += 1
            size = event.end - self._passed
            yield bytes(self._held[:size])
            del self._held[:size]
            self._passed = event.end
        if self._events == error.after:
            yield _event_of(error)
            yield Break(None)


def _event_of(error: ErrorEvent) -> bytes:
    body = {"error": {"message": error.error, "type": "server_error", "param": None, "code": error.code}}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def spoil(body: bytes, rows: BadRows) -> bytes:
    """An embeddings answer with one thing wrong; what is no embeddings answer stays as it is."""
    try:
        document = json.loads(body)
        data: list[dict[str, Any]] = document["data"]
        spoilt = _spoilt(data, rows)
    except (ValueError, KeyError, TypeError, IndexError):
        return body
    return json.dumps({**document, "data": spoilt}).encode()  # writes NaN, as servers in Python do


def _spoilt(data: list[dict[str, Any]], rows: BadRows) -> list[dict[str, Any]]:
    match rows.wrong:
        case Rows.SHORT:
            return data[:-1]
        case Rows.REORDERED:
            return data[::-1]
        case Rows.MISLABELLED:
            labels = [one.get("index") for one in data][::-1]
            return [{**one, "index": label} for one, label in zip(data, labels, strict=True)]
        case Rows.LENGTH:
            return [{**one, "embedding": _written(one["embedding"], _read(one["embedding"])[:-1])} for one in data]
        case Rows.NAN | Rows.ZERO:
            place = rows.row % len(data) if data else 0
            bad = data[place]
            return [*data[:place], {**bad, "embedding": _bad(bad["embedding"], rows.wrong)}, *data[place + 1 :]]
        case _:
            assert_never(rows.wrong)


def _bad(embedding: str | list[float], wrong: Rows) -> str | list[float]:
    numbers = _read(embedding)
    return _written(embedding, [float("nan"), *numbers[1:]] if wrong is Rows.NAN else [0.0] * len(numbers))


def _read(embedding: str | list[float]) -> list[float]:
    if isinstance(embedding, list):
        return embedding
    raw = base64.b64decode(embedding)
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


def _written(like: str | list[float], numbers: list[float]) -> str | list[float]:
    """The numbers in the encoding that the provider used."""
    if isinstance(like, list):
        return numbers
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
