"""Fault profiles: whom they meet and when, what they bring, and how they change a good answer."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import pytest

from shim._core.fault_steps import Break, Rest, Step, Tamper, spoil
from shim._core.faults import (
    BadRows,
    Cut,
    Drip,
    ErrorEvent,
    FaultProfile,
    Hang,
    Injection,
    Instead,
    Rows,
    When,
    answer,
    broken,
    page,
)
from shim._core.judge import failure
from shim._core.outcome import Fault, Outcome
from shim.events import Verdict

BUSY = Instead(answer(429))


def met(when: When, attempts: int = 8, *, step: float = 1.0) -> str:
    """Which of so many attempts, `step` seconds apart, meet the fault: x for one that does, else a dot."""
    injection = Injection([FaultProfile(BUSY, when=when)], started_at=100.0)
    return "".join(".x"[injection.meet("a", "m", 100.0 + n * step) is not None] for n in range(attempts))


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        pytest.param(When(), "xxxxxxxx", id="always"),
        pytest.param(When(times=2), "xx......", id="twice, then well"),
        pytest.param(When(after=3), "...xxxxx", id="after three good ones"),
        pytest.param(When(after=2, times=1), "..x.....", id="the third alone"),
        pytest.param(When(flap=2), "..xx..xx", id="flaps every two"),
        pytest.param(When(flap=1, times=2), ".x.x....", id="flaps twice"),
        pytest.param(When(seconds=3), "xxx.....", id="for three seconds"),
        pytest.param(When(share=0.0), "........", id="never by chance"),
        pytest.param(When(share=0.5, seed=1), met(When(share=0.5, seed=1)), id="the same draw for the same seed"),
        pytest.param(When(times=0), "........", id="no times at all"),
    ],
)
def test_when(when: When, expected: str) -> None:
    assert met(when) == expected


def test_a_share_is_that_share_of_many_and_differs_by_seed() -> None:
    many = met(When(share=0.3, seed=7), 2000)
    assert 0.25 < many.count("x") / 2000 < 0.35
    assert many != met(When(share=0.3, seed=8), 2000)


@pytest.mark.parametrize(
    ("subject", "expected"),
    [("", [True, True, True]), ("a", [True, True, False]), ("a/m", [True, False, False]), ("m", [False] * 3)],
    ids=["everybody", "a provider", "a route", "a model alone is nobody"],
)
def test_whom(subject: str, expected: list[bool]) -> None:
    profile = FaultProfile(BUSY, subject)
    routes = [("a", "m"), ("a", "n"), ("b", "m")]
    assert [profile.is_about(*route) for route in routes] == expected


def test_attempts_on_others_are_not_counted() -> None:
    injection = Injection([FaultProfile(BUSY, "a", When(times=1))])
    assert injection.meet("b", "m", 0.0) is None
    assert injection.meet("a", "m", 0.0) is not None
    assert injection.meet("a", "m", 0.0) is None
    assert injection.met == (1,)


def test_the_first_profile_that_is_due_is_met() -> None:
    first, second = FaultProfile(BUSY, when=When(times=1), name="1"), FaultProfile(Hang(3), name="2")
    injection = Injection([first, second])
    assert [injection.meet("a", "m", 0.0) for _ in range(3)] == [first, second, second]


@pytest.mark.parametrize(
    ("when", "asked", "now", "expected"),
    [
        pytest.param(When(times=2), 1, 0.0, False, id="one is left"),
        pytest.param(When(times=2), 2, 0.0, True, id="all met"),
        pytest.param(When(seconds=5), 0, 4.9, False, id="time is left"),
        pytest.param(When(seconds=5), 0, 5.0, True, id="time is up"),
        pytest.param(When(), 99, 1e9, False, id="never over"),
    ],
)
def test_an_injection_ends(when: When, asked: int, now: float, expected: bool) -> None:
    injection = Injection([FaultProfile(BUSY, when=when)])
    for _ in range(asked):
        injection.meet("a", "m", 0.0)
    assert injection.is_over(now) is expected


@pytest.mark.parametrize(
    ("outcome", "verdict", "reason"),
    [
        pytest.param(answer(429, retry_after=30), Verdict.TRANSIENT, "rate_limit", id="429"),
        pytest.param(answer(500), Verdict.TRANSIENT, "server_error", id="500"),
        pytest.param(answer(503, retry_after=5), Verdict.TRANSIENT, "overloaded", id="503"),
        pytest.param(answer(401), Verdict.BROKEN, "bad_key", id="401"),
        pytest.param(answer(404), Verdict.BROKEN, "model_not_found", id="404"),
        pytest.param(answer(400), Verdict.FATAL, "bad_request", id="400"),
        pytest.param(page(502), Verdict.TRANSIENT, "server_error", id="a page"),
        pytest.param(page(200, "Sign in"), Verdict.TRANSIENT, "html", id="a page that says 200"),
        pytest.param(broken(Fault.CONNECT), Verdict.TRANSIENT, "connect", id="no connection"),
        pytest.param(broken(Fault.RESET), Verdict.TRANSIENT, "reset", id="reset"),
        pytest.param(broken(Fault.TIMEOUT), Verdict.TRANSIENT, "timeout", id="timeout"),
    ],
)
def test_what_comes_is_judged_as_the_real_thing(outcome: Outcome, verdict: Verdict, reason: str) -> None:
    judged = failure(outcome, preset="", now=0.0, known=(), expects_json=True)
    assert judged is not None
    assert (judged.verdict, judged.reason) == (verdict, reason)


def test_retry_after_is_told_and_taken() -> None:
    judged = failure(answer(429, retry_after=30), preset="", now=0.0, known=(), expects_json=True)
    assert judged is not None
    assert (judged.cooldown, judged.told) == (30.0, True)


@pytest.mark.parametrize("status", [0, 99, 1000, -1])
def test_what_is_no_status_is_refused(status: int) -> None:
    with pytest.raises(ValueError, match="three digits"):
        answer(status)


# -- changes to a good answer

EVENTS = [b'data: {"n":%d}\n\n' % n for n in range(4)]


def steps(tamper: Tamper, *chunks: bytes) -> list[Step]:
    """All steps, up to a break."""
    done: list[Step] = []
    for produce in [*(lambda chunk=chunk: tamper.feed(chunk) for chunk in chunks), tamper.end]:
        for step in produce():
            done.append(step)
            if isinstance(step, Break):
                return done
    return done


def body(done: list[Step]) -> bytes:
    return b"".join(step for step in done if isinstance(step, bytes))


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param([b"0123456789"], b"0123", id="within a chunk"),
        pytest.param([b"01", b"23", b"45"], b"0123", id="at the edge of a chunk"),
        pytest.param([b"0", b"1"], b"01", id="a body that is shorter breaks at its end"),
    ],
)
@pytest.mark.parametrize("fault", [Fault.RESET, None], ids=["reset", "clean end"])
def test_a_cut_passes_so_many_bytes_and_breaks(chunks: list[bytes], expected: bytes, fault: Fault | None) -> None:
    done = steps(Tamper(Cut(4, fault)), *chunks)
    assert body(done) == expected
    assert done[-1] == Break(fault)


def test_a_cut_at_nothing_passes_no_byte() -> None:
    assert steps(Tamper(Cut(0)), b"abc") == [Break(Fault.RESET)]


def test_a_drip_says_every_byte_after_a_rest() -> None:
    assert steps(Tamper(Drip(0.5, size=2)), b"abc") == [Rest(0.5), b"ab", Rest(0.5), b"c"]


@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize("size", [1, 7, 1000], ids=["byte by byte", "by sevens", "at once"])
def test_an_error_event_comes_after_so_many_events(after: int, size: int) -> None:
    whole = b"".join(EVENTS)
    chunks = [whole[at : at + size] for at in range(0, len(whole), size)]
    done = steps(Tamper(ErrorEvent(after)), *chunks)
    passed, _, told = body(done).rpartition(b"data: ")
    assert passed == b"".join(EVENTS[:after])
    assert json.loads(told)["error"]["code"] == "server_error"
    assert done[-1] == Break(None)


def test_a_stream_with_fewer_events_ends_in_the_error_all_the_same() -> None:
    done = body(steps(Tamper(ErrorEvent(9)), *EVENTS))
    assert done.startswith(b"".join(EVENTS))
    assert b'"server_error"' in done


def _answer(as_base64: bool) -> bytes:
    rows: list[Any] = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    if as_base64:
        rows = [base64.b64encode(struct.pack("<2f", *row)).decode() for row in rows]
    return json.dumps({"data": [{"index": n, "embedding": row} for n, row in enumerate(rows)]}).encode()


def _vectors(spoilt: bytes) -> list[tuple[int, list[float]]]:
    found = []
    for one in json.loads(spoilt)["data"]:
        row = one["embedding"]
        if isinstance(row, str):
            raw = base64.b64decode(row)
            row = list(struct.unpack(f"<{len(raw) // 4}f", raw))
        found.append((one["index"], row))
    return found


@pytest.mark.parametrize("as_base64", [False, True], ids=["floats", "base64"])
@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (Rows.SHORT, [(0, [1.0, 2.0]), (1, [3.0, 4.0])]),
        (Rows.REORDERED, [(2, [5.0, 6.0]), (1, [3.0, 4.0]), (0, [1.0, 2.0])]),
        (Rows.MISLABELLED, [(2, [1.0, 2.0]), (1, [3.0, 4.0]), (0, [5.0, 6.0])]),
        (Rows.ZERO, [(0, [1.0, 2.0]), (1, [3.0, 4.0]), (2, [0.0, 0.0])]),
        (Rows.LENGTH, [(0, [1.0]), (1, [3.0]), (2, [5.0])]),
    ],
    ids=lambda value: value.value if isinstance(value, Rows) else "",
)
def test_rows_go_wrong(wrong: Rows, expected: list[tuple[int, list[float]]], as_base64: bool) -> None:
    assert _vectors(spoil(_answer(as_base64), BadRows(wrong))) == expected


@pytest.mark.parametrize("as_base64", [False, True], ids=["floats", "base64"])
def test_a_number_that_is_none(as_base64: bool) -> None:
    found = _vectors(spoil(_answer(as_base64), BadRows(Rows.NAN, row=1)))
    assert math.isnan(found[1][1][0])
    assert found[0] == (0, [1.0, 2.0])


@pytest.mark.parametrize("other", [b"", b"nothing", b"{}", b'{"data": 3}', b'{"data": [{}]}'])
def test_what_has_no_rows_stays_as_it_is(other: bytes) -> None:
    assert spoil(other, BadRows(Rows.ZERO)) == other
