"""Turns what a provider answered into a judgement: faults, statuses, error objects wherever they hide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never
from urllib.parse import urlsplit

import msgspec

from shim._core.envelope import LONGEST_MATCHED, Envelope, parse_json, read_envelope, rejected_parameter
from shim._core.outcome import Fault, Judgement, Outcome
from shim._core.retry_after import told_cooldown
from shim._core.taxonomy import find, status_of_code
from shim._core.wording import describe_body, is_html, mask_secrets, one_line
from shim.events import Scope, Verdict

__all__ = ["failure", "mask_secrets", "payload_failure"]

_PEEK = 4096
_REJECTING_REASONS = frozenset({"bad_request", "unsupported_parameter", "unsupported_feature"})
_NOTHING = frozenset({b"null", b"[]", b"{}", b'""', b"false"})
_NOT_TEXT = ("audio/", "image/", "video/")


class _Peek(msgspec.Struct):
    """The members that can tell an error, unparsed: the rest of the body is skipped, not built."""

    error: msgspec.Raw = msgspec.Raw(b"null")
    errors: msgspec.Raw = msgspec.Raw(b"null")
    object: msgspec.Raw = msgspec.Raw(b"null")
    type: msgspec.Raw = msgspec.Raw(b"null")


_PEEKER = msgspec.json.Decoder(_Peek)


@dataclass(frozen=True, slots=True)
class _Asking:
    """Who is judged and when, handed on unchanged."""

    preset: str
    now: float
    known: tuple[str, ...]


def failure(
    outcome: Outcome, *, preset: str, now: float, known: Iterable[str] = (), expects_json: bool = True
) -> Judgement | None:
    """The judgement on a failed attempt; None for a 2xx whose body is JSON and no error object.

    `preset` names the rows of the taxonomy to ask first; `now` is unix seconds; `known` are keys to mask in messages.
    What a success must hold beyond being no error is for the validation of its kind. `expects_json` is False where
    plain text or bytes are a proper answer (speech, transcription). Nothing is raised, whatever the body.
    """
    status = outcome.status
    if status is not None and 200 <= status < 300 and outcome.fault is None:
        if _is_plainly_fine(outcome.body, status):
            return None
        return _success(outcome, status, _Asking(preset, now, tuple(known)), expects_json)
    asking = _Asking(preset, now, tuple(known))
    if outcome.fault is not None and not _stands_without_body(status):
        return _fault(outcome.fault, outcome, asking)
    if status is None or status < 300:
        return _malformed("malformed", f"HTTP status {status} is no answer", status)
    if status < 400:
        return _redirect(outcome, status, asking)
    return _rule(status, _read_failed(outcome.body, status), outcome, asking)


def payload_failure(
    payload: bytes, *, event: str | None, preset: str, now: float, known: Iterable[str] = ()
) -> Judgement | None:
    """The judgement on one SSE event's data; None when it is no error.

    An error is an object with `error`, `type: "error"`, an event named `error`, or `response.failed`. It is judged as
    the status that its code stands for, 502 without one. The other arguments are those of `failure`.
    """
    named = event in ("error", "response.failed")
    if not named and b'"error' not in payload and b'"response.failed"' not in payload:
        return None
    value = parse_json(payload)
    named = named or (isinstance(value, dict) and value.get("type") == "response.failed")
    envelope = read_envelope(value, failed=named)
    if envelope is None and not named:
        return None
    return _inside_success(envelope or _unreadable(payload, 502), payload, _Asking(preset, now, tuple(known)))


def _is_plainly_fine(body: bytes, status: int) -> bool:
    """True for a JSON object without the word "error" at either end: the cheap way out that nearly every call takes."""
    if body[:1] != b"{" or b'"error' in body[:_PEEK] or status in (202, 204, 205):
        return False
    return len(body) <= _PEEK or b'"error' not in body[-_PEEK:]


def _success(outcome: Outcome, status: int, asking: _Asking, expects_json: bool) -> Judgement | None:
    body = outcome.body
    start = body[:_PEEK].lstrip()[:1] or body.lstrip()[:1]
    if status in (202, 204, 205) or not start:
        return _malformed("malformed", f"HTTP {status} {'instead of an answer' if start else 'without a body'}", status)
    if start not in (b"{", b"["):
        return _not_json(outcome, status, asking, expects_json)
    if not _may_tell_error(body, start):
        return None
    value = parse_json(body)
    if value is None:
        return _malformed("malformed", f"HTTP {status} with broken JSON", status) if expects_json else None
    envelope = read_envelope(value, failed=False)
    return None if envelope is None else _inside_success(envelope, body, asking)


def _may_tell_error(body: bytes, start: bytes) -> bool:
    """False when a look at the few members that matter shows no error, without building the body."""
    if b'"error' not in body[:_PEEK] and (start == b"[" or b'"error' not in body[-_PEEK:]):
        return b'"error' in body.lstrip()[:_PEEK]
    if start == b"[":
        return True
    try:
        peek = _PEEKER.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return True
    told = {bytes(peek.error), bytes(peek.errors)} - _NOTHING
    return bool(told) or b'"error"' in (bytes(peek.object), bytes(peek.type))


def _not_json(outcome: Outcome, status: int, asking: _Asking, expects_json: bool) -> Judgement | None:
    if is_html(outcome.body):
        message = one_line(describe_body(outcome.body, status), asking.known)
        return Judgement(Verdict.TRANSIENT, Scope.PROVIDER, "html", message, status, counts=True)
    if not expects_json or outcome.headers.get("content-type", "").lower().startswith(_NOT_TEXT):
        return None
    text = describe_body(outcome.body, status)
    return _malformed("malformed", one_line(f"not JSON: {text}", asking.known), status)


def _malformed(reason: str, message: str, status: int | None) -> Judgement:
    return Judgement(Verdict.TRANSIENT, Scope.MODEL, reason, message, status, counts=True)


def _redirect(outcome: Outcome, status: int, asking: _Asking) -> Judgement:
    """A redirect is not followed: it would carry the request, and perhaps the key, to another host."""
    target = outcome.headers.get("location", "")
    try:
        parts = urlsplit(target)
        where = f"{parts.scheme}://{parts.hostname}{parts.path}" if parts.hostname else parts.path
    except ValueError:
        where = "an unreadable address"
    message = one_line(
        f"HTTP {status} redirects to {where or 'nowhere'}; set base_url to the final address", asking.known
    )
    return Judgement(Verdict.TRANSIENT, Scope.PROVIDER, "redirect", message, status, counts=True)


def _stands_without_body(status: int | None) -> bool:
    """True where a status is judged whatever became of its body; a refusal of the request needs its body."""
    return status is not None and status >= 400 and status not in (400, 413, 422)


def _fault(fault: Fault, outcome: Outcome, asking: _Asking) -> Judgement:
    scope, reason = _fault_ruling(fault, answered=outcome.status is not None)
    message = f"{fault.value}: {outcome.detail}" if outcome.detail else fault.value
    return Judgement(Verdict.TRANSIENT, scope, reason, one_line(message, asking.known), outcome.status, counts=True)


def _fault_ruling(fault: Fault, *, answered: bool) -> tuple[Scope, str]:
    """Before any answer the connection is at fault, and with it the provider; after it, this model's answer."""
    match fault:
        case Fault.CONNECT:
            return Scope.PROVIDER, "connect"
        case Fault.CONNECT_TIMEOUT:
            return Scope.PROVIDER, "connect_timeout"
        case Fault.TLS:
            return Scope.PROVIDER, "tls"
        case Fault.RESET:
            return Scope.MODEL if answered else Scope.PROVIDER, "reset"
        case Fault.PROTOCOL:
            return Scope.MODEL if answered else Scope.PROVIDER, "protocol"
        case Fault.TIMEOUT:
            return Scope.MODEL, "timeout"
        case Fault.FIRST_CHUNK_TIMEOUT:
            return Scope.MODEL, "first_chunk_timeout"
        case Fault.STALL:
            return Scope.MODEL, "stall"
        case Fault.DECODING:
            return Scope.MODEL, "malformed"
        case Fault.TOO_LARGE:
            return Scope.MODEL, "answer_too_large"
        case _:
            assert_never(fault)


def _read_failed(body: bytes, status: int) -> Envelope:
    envelope = read_envelope(parse_json(body), failed=True)
    return envelope if envelope is not None and (envelope.message or envelope.words) else _unreadable(body, status)


def _unreadable(body: bytes, status: int) -> Envelope:
    words = frozenset({"html"}) if is_html(body) else frozenset[str]()
    return Envelope(words, None, describe_body(body, status))


def _inside_success(envelope: Envelope, body: bytes, asking: _Asking) -> Judgement:
    """An error object under a 200. Its headers are a success's, so only the body may name a cooldown."""
    status = envelope.status or status_of_code(envelope.words) or 502
    return _rule(status, envelope, Outcome(status=status, body=body), asking)


def _rule(status: int, envelope: Envelope, outcome: Outcome, asking: _Asking) -> Judgement:
    said = envelope.message[:LONGEST_MATCHED]
    ruling = find(asking.preset, status, envelope.words, said)
    rejects = (
        rejected_parameter(envelope)
        if ruling.verdict is Verdict.CANNOT and ruling.reason in _REJECTING_REASONS
        else None
    )
    told = told_cooldown(outcome, asking.now) if ruling.verdict is Verdict.TRANSIENT else None
    return Judgement(
        verdict=ruling.verdict,
        scope=ruling.scope,
        reason=ruling.reason,
        message=one_line(said or f"HTTP {status}", asking.known),
        status=status,
        cooldown=ruling.cooldown if told is None else told,
        told=told is not None,
        # A rate limit cools its key; it does not open the breaker, or one busy key would bench the route.
        counts=ruling.counts and status != 429,
        rejects=rejects,
    )
