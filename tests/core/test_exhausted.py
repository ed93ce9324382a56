"""What the caller gets when no route could serve the call."""

from __future__ import annotations

import json

import pytest

from shim._core.exhausted import (
    body_for,
    common_way,
    headers_for,
    last_words,
    message_for,
    nobody_message,
    trail,
)
from shim._core.judge import failure
from shim._core.outcome import Fault, Outcome
from shim._core.plan import Skipped
from shim.events import Attempt, Kind, Purpose, Scope, Verdict


def attempt(
    reason: str = "rate_limit",
    status: int | None = 429,
    verdict: Verdict | None = Verdict.TRANSIENT,
    message: str = "slow down",
    provider: str = "alpha",
) -> Attempt:
    return Attempt(
        number=1,
        family="space",
        provider=provider,
        model="org/m",
        key="k",
        purpose=Purpose.FIRST,
        verdict=verdict,
        scope=Scope.KEY,
        reason=reason,
        message=message,
        status=status,
        started_at=0.0,
        duration=1.23456,
    )


@pytest.mark.parametrize("kind", [Kind.EMBEDDING, Kind.CHAT])
def test_the_message_to_the_letter(kind: Kind) -> None:
    assert message_for(kind, "space", "gone") == f"All providers for {kind.value} family 'space' failed (last: gone)"


LAST = [
    ("the last one with its status", [attempt(message="a"), attempt(message="b")], "alpha/org/m: HTTP 429: b"),
    ("no status beneath HTTP", [attempt(status=None, message="refused")], "alpha/org/m: refused"),
    ("cancelled attempts said nothing", [attempt(message="a"), attempt(verdict=None)], "alpha/org/m: HTTP 429: a"),
    ("nobody said anything", [attempt(verdict=None)], "no attempt was made"),
    ("nobody was asked", [], "no attempt was made"),
]


@pytest.mark.parametrize(("attempts", "words"), [row[1:] for row in LAST], ids=[row[0] for row in LAST])
def test_last_words(attempts: list[Attempt], words: str) -> None:
    assert last_words(attempts) == words


def test_nobody_names_what_is_missing() -> None:
    skipped = [Skipped("alpha/m", "no key: set ALPHA_KEY"), Skipped("beta/m", "switched off")]
    assert nobody_message(Kind.EMBEDDING, "space", skipped) == (
        "No enabled providers for embedding family 'space' (alpha/m: no key: set ALPHA_KEY; beta/m: switched off)"
    )
    assert nobody_message(Kind.CHAT, "f", []) == "No enabled providers for chat family 'f' (the family has no routes)"


def fault(kind: Fault, status: int | None = None) -> Attempt:
    """An attempt with the reason that the judge gives to a fault."""
    judged = failure(Outcome(status=status, fault=kind, detail="x"), preset="*", now=0.0)
    assert judged is not None
    return attempt(judged.reason, status, judged.verdict, judged.message)


WAYS = [
    ("one rate limit", [attempt()], "429"),
    ("the same status twice", [attempt(), attempt("quota", 429)], "429"),
    ("two statuses", [attempt(), attempt(status=500)], None),
    ("a cancelled attempt has no say", [attempt(), attempt("", None, None)], "429"),
    ("timeouts", [fault(Fault.TIMEOUT), fault(Fault.TIMEOUT, 200)], "timeout"),
    ("no content in time", [fault(Fault.FIRST_CHUNK_TIMEOUT, 200)], "timeout"),
    ("a stream that stalled", [fault(Fault.STALL, 200)], "timeout"),
    ("timeouts of all sorts", [fault(Fault.TIMEOUT), fault(Fault.FIRST_CHUNK_TIMEOUT), fault(Fault.STALL)], "timeout"),
    ("connect timeouts, which openai raises as timeouts", [fault(Fault.CONNECT_TIMEOUT)], "timeout"),
    ("connections", [fault(Fault.CONNECT), fault(Fault.RESET), fault(Fault.TLS), fault(Fault.PROTOCOL)], "connection"),
    ("a timeout and a connection", [fault(Fault.TIMEOUT), fault(Fault.CONNECT)], None),
    ("a timeout and a rate limit", [fault(Fault.TIMEOUT), attempt()], None),
    ("bad answers", [attempt("malformed", 200)], None),
    ("a bad answer and a rate limit", [attempt("malformed", 200), attempt()], None),
    ("nothing", [], None),
]


@pytest.mark.parametrize(("attempts", "way"), [row[1:] for row in WAYS], ids=[row[0] for row in WAYS])
def test_common_way(attempts: list[Attempt], way: str | None) -> None:
    assert common_way(attempts) == way


def test_the_body_is_an_error_of_openai_with_the_attempts_beside_it() -> None:
    body = json.loads(body_for("m", Kind.CHAT, "fast", [attempt(), attempt("x", None, None)], 2.5))
    error = body["error"]
    assert {name: error[name] for name in ("message", "type", "code", "param", "family", "kind", "retry_after")} == {
        "message": "m",
        "type": "server_error",
        "code": "all_providers_failed",
        "param": None,
        "family": "fast",
        "kind": "chat",
        "retry_after": 2.5,
    }
    assert error["attempts"][0] == {
        "route": "alpha/org/m",
        "verdict": "transient",
        "reason": "rate_limit",
        "status": 429,
        "message": "slow down",
        "seconds": 1.235,
    }
    assert error["attempts"][1]["verdict"] is None


@pytest.mark.parametrize(("seconds", "header"), [(0.0, "0"), (0.2, "1"), (5.0, "5"), (5.01, "6"), (-3.0, "0")])
def test_retry_after_is_whole_seconds_rounded_up(seconds: float, header: str) -> None:
    assert ("retry-after", header) in headers_for(seconds)


@pytest.mark.parametrize("seconds", [None, 5.0])
def test_the_client_is_told_not_to_run_the_chain_again(seconds: float | None) -> None:
    headers = dict(headers_for(seconds))
    assert headers["x-should-retry"] == "false"
    assert ("retry-after" in headers) is (seconds is not None)


def test_the_trail_names_the_last_ten_attempts_in_one_ascii_line() -> None:
    attempts = [attempt(f"r{i}") for i in range(11)] + [attempt("", None, None, provider="żółw")]
    line = trail(attempts)
    assert line.startswith("alpha/org/m=r2; alpha/org/m=r3; ")
    assert line.endswith("; ???w/org/m=cancelled")
    assert line.count("; ") == 9
