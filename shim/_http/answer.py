"""Turns the end of a call into the response that the caller's library expects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from shim._core import exhausted
from shim._core.request import text_of
from shim._core.vectors import Embedded
from shim._core.wording import SHORTEST_SECRET
from shim._http.flavour import Flavour
from shim._http.live import AsyncChunks, Live, chunks_of, stream_classes
from shim._run.flight import Flight
from shim._run.ledger import Won
from shim.events import Call, Verdict

EXTENSION = "shim"
Pairs = list[tuple[bytes, bytes]]
_DROPPED = frozenset({b"set-cookie", b"content-length", b"content-encoding", b"transfer-encoding", b"connection"})
_LONGEST_REFUSAL = 1500
"""Bytes of an error body that are passed on as they came: some providers repeat the whole input in it."""


@dataclass(slots=True)
class Served:
    """What a routed response carries in its extensions: the record of the call, and vectors that are read already."""

    flight: Flight
    embedded: Embedded | None = None

    @property
    def call(self) -> Call:
        return self.flight.call

    def __reduce__(self) -> tuple[Any, ...]:
        return (Kept, (self.call,))  # a copied or pickled answer keeps the record, not the locks behind it


@dataclass(frozen=True, slots=True)
class Kept:
    """What a copy of an answer carries in place of `Served`."""

    call: Call
    embedded: None = None


def answer_of(flight: Flight, flavour: Flavour, request: Any, *, is_async: bool) -> Any:
    """The response for the caller: a valid answer, an open stream, the provider's own refusal, or the 503."""
    won = flight.winner
    if won is None:
        answer = _nobody(flight, flavour, request)
    elif isinstance(won.reply.live, Live):
        answer = _stream(flight, won, won.reply.live, flavour, request, is_async=is_async)
    elif won.judgement.verdict is not Verdict.OK:
        answer = _refusal(flight, won, flavour, request)
    else:
        answer = _whole(flight, won, flavour, request)
    flight.let_go()
    return answer


def _shown(flight: Flight, won: Won) -> Pairs:
    record = won.record
    attempts = flight.attempts
    return [
        (b"x-shim-provider", _plain(won.running.slot.route.provider.name)),
        (b"x-shim-model", _plain(won.running.slot.route.config.model)),
        (b"x-shim-family", _plain(record.family if record is not None else flight.family.name)),
        (b"x-shim-attempts", b"%d" % len(attempts)),
        (b"x-shim-trail", exhausted.trail(attempts).encode()),
    ]


def _plain(text: str) -> bytes:
    return text.encode("ascii", "replace")


def _whole(flight: Flight, won: Won, flavour: Flavour, request: Any) -> Any:
    response, embedded = won.reply.response, won.embedded
    served = Served(flight, embedded)
    is_native = won.running.slot.route.provider.wire in ("openai", "azure")
    if response is not None and is_native and (embedded is None or embedded.intact):
        response.request = request
        if flight.request.headers.are_seen:
            raw = [pair for pair in response.headers.raw if pair[0].lower() != b"set-cookie"]
            response.headers = flavour.module.Headers(raw + _shown(flight, won))
        response.extensions[EXTENSION] = served
        return response
    body = won.reply.outcome.body
    if embedded is not None and not (is_native and embedded.intact):
        wants_base64 = text_of(flight.request.fields.get("encoding_format")) == "base64"
        body = embedded.body(model=embedded.model or won.running.slot.route.config.model, base64=wants_base64)
    headers = _kept(flight, won) + _shown(flight, won)
    return _made(flavour, request, won.reply.outcome.status or 200, headers, body, served, flight)


def _kept(flight: Flight, won: Won) -> Pairs:
    """The provider's headers as they came, byte for byte, but for what speaks of the connection, and without keys."""
    response = won.reply.response
    if response is None:
        pairs = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in won.reply.outcome.headers.items()]
    else:
        pairs = response.headers.raw
    secrets = [secret.encode() for secret in flight.secrets if len(secret) >= SHORTEST_SECRET]
    kept: Pairs = []
    for name, value in pairs:
        if name.lower() in _DROPPED:
            continue
        for secret in secrets:
            value = value.replace(secret, b"***")
        kept.append((name, value))
    return kept


def _stream(flight: Flight, won: Won, live: Live, flavour: Flavour, request: Any, *, is_async: bool) -> Any:
    hx = flavour.module
    live.attach(flight, won.running.number, request)
    sync_stream, async_stream = stream_classes(flavour)
    inner = live.response
    response = hx.Response(
        inner.status_code,
        headers=_kept(flight, won) + _shown(flight, won),
        stream=async_stream(AsyncChunks(live)) if is_async else sync_stream(chunks_of(live), live.stop),
        request=request,
        extensions={**inner.extensions, EXTENSION: Served(flight)},
    )
    return response


def _refusal(flight: Flight, won: Won, flavour: Flavour, request: Any) -> Any:
    """The provider's own error. Shapes that the official client cannot read are put into OpenAI's."""
    outcome, judgement = won.reply.outcome, won.judgement
    status = judgement.status or outcome.status or 400
    if status < 400:
        status = 400
    body = outcome.body
    if len(body) > _LONGEST_REFUSAL or not _is_readable(body):
        error = {"message": judgement.message, "type": "invalid_request_error", "code": judgement.reason, "param": None}
        body = msgspec.json.encode({"error": error})
    body = _masked(body, flight)
    headers = [pair for pair in _kept(flight, won) if pair[0].lower() not in (b"retry-after", b"x-should-retry")]
    headers += [(b"x-should-retry", b"false"), *_shown(flight, won)]
    return _made(flavour, request, status, headers, body, Served(flight), flight)


def _masked(body: bytes, flight: Flight) -> bytes:
    """An error body without keys, however its JSON spells them; the same bytes where there is none in it."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return flight.masked(body.decode("utf-8", "replace")).encode()
    masked = _masked_value(value, flight)
    return body if masked == value else msgspec.json.encode(masked)


def _masked_value(value: object, flight: Flight) -> object:
    if isinstance(value, str):
        return flight.masked(value)
    if isinstance(value, dict):
        return {name: _masked_value(one, flight) for name, one in value.items()}
    if isinstance(value, list):
        return [_masked_value(one, flight) for one in value]
    return value


def _is_readable(body: bytes) -> bool:
    """Whether the official client finds `error.message` in the body."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return False
    error = value.get("error") if isinstance(value, dict) else None
    return isinstance(error, dict) and isinstance(error.get("message"), str)


def _nobody(flight: Flight, flavour: Flavour, request: Any) -> Any:
    _, body, pairs = flight.exhausted()
    attempts = flight.attempts
    headers = [
        *((name.encode(), value.encode()) for name, value in pairs),
        (b"x-shim-family", _plain(flight.family.name)),
        (b"x-shim-attempts", b"%d" % len(attempts)),
        (b"x-shim-trail", exhausted.trail(attempts).encode()),
    ]
    return _made(flavour, request, exhausted.STATUS, headers, body, Served(flight), flight)


def _made(
    flavour: Flavour,
    request: Any,
    status: int,
    headers: Pairs,
    body: bytes,
    served: Served,
    flight: Flight,
) -> Any:
    response = flavour.module.Response(
        status, headers=headers, content=body, request=request, extensions={EXTENSION: served}
    )
    response.elapsed = timedelta(seconds=flight.elapsed)
    return response


def local_refusal(flavour: Flavour, request: Any, message: str, param: str) -> Any:
    """A 400 of our own, in OpenAI's shape, for a request that no provider could make sense of."""
    error = {"message": message, "type": "invalid_request_error", "code": "invalid_value", "param": param}
    return flavour.module.Response(
        400,
        headers=[("content-type", "application/json"), ("x-should-retry", "false")],
        content=msgspec.json.encode({"error": error}),
        request=request,
    )
