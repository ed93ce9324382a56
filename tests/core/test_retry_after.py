"""How long providers tell us to wait: every spelling read, every garbage refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.outcome import Outcome
from shim._core.retry_after import LONGEST, parse_duration, told_cooldown

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC).timestamp()
SUMMER = datetime(2026, 7, 15, 12, 0, tzinfo=UTC).timestamp()

DURATIONS = [
    ("510ms", 0.51),
    ("46.72s", 46.72),
    ("1m2.3s", 62.3),
    ("2h0m5s", 7205.0),
    ("6m0s", 360.0),
    ("48s", 48.0),
    ("12", 12.0),
    ("0", 0.0),
    (" 1.5 ", 1.5),
    ("1d", 86_400.0),
    ("20 seconds", 20.0),
    ("5 minutes", 300.0),
    ("Please retry in 3.5s", 3.5),
    ("Please retry in 48.9s.", 48.9),
    ("try again in 7.66s", 7.66),
    ("Rate limit reached. Please try again in 1m2.3s. Visit us", 62.3),
    ("Please retry after 26 seconds.", 26.0),
    ("Please wait for 2 minutes", 120.0),
    ("try again later", None),
    ("in a few minutes", None),
    ("retry in 3months", None),
    ("gpt-1m served 10s ago", None),
    ("-1", None),
    ("", None),
    ("soon", None),
    ("nan", None),
    ("inf", None),
    ("1e309", None),
]


@pytest.mark.parametrize(("text", "seconds"), DURATIONS, ids=[repr(text) for text, _ in DURATIONS])
def test_a_duration_is_read_or_refused(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == (None if seconds is None else pytest.approx(seconds))


def _told(
    headers: dict[str, str] | None = None, body: object = None, status: int = 429, now: float = NOW
) -> float | None:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return told_cooldown(Outcome(status=status, headers=headers or {}, body=raw), now)


HEADERS = [
    ("integer", {"retry-after": "7"}, 7.0),
    ("float", {"retry-after": "1.5"}, 1.5),
    ("zero is told, not untold", {"retry-after": "0"}, 0.0),
    ("HTTP date", {"retry-after": "Thu, 15 Jan 2026 12:00:30 GMT"}, 30.0),
    ("past HTTP date", {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ("an epoch in place of seconds", {"retry-after": str(int(NOW) + 30)}, 30.0),
    ("an epoch in milliseconds", {"retry-after": str(int(NOW + 30) * 1000)}, 30.0),
    ("ISO date", {"retry-after": "2026-01-15T12:00:30Z"}, 30.0),
    ("milliseconds", {"retry-after-ms": "250"}, 0.25),
    ("Azure: the longer of both", {"retry-after": "1", "retry-after-ms": "0"}, 1.0),
    ("Azure: the longer is the milliseconds", {"retry-after": "1", "retry-after-ms": "2500"}, 2.5),
    ("capped at a day", {"retry-after": "999999"}, LONGEST),
    ("negative", {"retry-after": "-1"}, None),
    ("empty", {"retry-after": ""}, None),
    ("a word", {"retry-after": "soon"}, None),
    ("nan", {"retry-after": "nan"}, None),
    ("inf", {"retry-after": "inf"}, None),
    ("beyond a float", {"retry-after": "1e309"}, None),
    ("a date that is none", {"retry-after": "Thu, 99 Jan 2026 12:00:30 GMT"}, None),
    ("nothing", {}, None),
    ("exhausted requests", {
        "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20m9.6s",
        "x-ratelimit-remaining-tokens": "100", "x-ratelimit-reset-tokens": "26ms",
    }, 1209.6),
    ("exhausted tokens", {
        "x-ratelimit-remaining-requests": "9", "x-ratelimit-reset-requests": "6m0s",
        "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "26ms",
    }, 0.026),
    ("no bucket exhausted", {"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "12s"}, None),
    ("remaining untold: the soonest", {"x-ratelimit-reset-tokens": "12s", "x-ratelimit-reset-requests": "6m0s"}, 12.0),
    (
        "an exhausted bucket before an untold one",
        {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "30s", "ratelimit-reset": "2"},
        30.0,
    ),
    ("bare seconds", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "5"}, 5.0),
    ("epoch seconds", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 90)}, 90.0),
    ("epoch milliseconds", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW + 45) * 1000)}, 45.0),
    ("epoch in the past", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1500000000"}, 0.0),
    ("Anthropic's ISO date", {
        "anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "2026-01-15T12:01:00Z",
    }, 60.0),
    ("Mistral's bucket", {"ratelimitbysize-remaining": "0", "ratelimitbysize-reset": "33"}, 33.0),
    ("Mistral's month is spent", {"x-ratelimit-remaining-month": "0", "retry-after": "3"}, LONGEST),
    ("retry-after before a reset", {"retry-after": "4", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "9"}, 4.0),
    ("garbage retry-after, then a reset", {"retry-after": "soon", "x-ratelimit-reset": "9"}, 9.0),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "seconds"), [row[1:] for row in HEADERS], ids=[row[0] for row in HEADERS])
def test_headers_tell_the_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert _told(headers) == (None if seconds is None else pytest.approx(seconds))


def _gemini(quota: str, delay: str = "48s") -> dict[str, object]:
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    ]
    return {"error": {"code": 429, "message": "Quota. Please retry in 48.9s.", "details": details}}


OPENROUTER = {"error": {"code": 429, "message": "Rate limit exceeded", "metadata": {"headers": {
    "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW + 20) * 1000)}}}}  # fmt: skip
RELAYED = {"error": {"code": 429, "message": "Provider returned error", "metadata": {
    "raw": '{"error": {"details": [{"retryDelay": "17s"}]}}'}}}  # fmt: skip

BODIES = [
    ("Gemini delay and prose: the longer", _gemini("RequestsPerMinutePerProjectPerModel"), NOW, 48.9),
    ("Gemini as a list", [_gemini("PerModelPerMinute", "60s")], NOW, 60.0),
    ("Gemini per day, winter: midnight is 08:00 UTC", _gemini("RequestsPerDayPerProject-FreeTier"), NOW, 20 * 3600.0),
    ("Gemini per day, summer: midnight is 07:00 UTC", _gemini("GenerateRequestsPerDay"), SUMMER, 19 * 3600.0),
    ("Groq prose", {"error": {"message": "Please try again in 1m2.3s."}}, NOW, 62.3),
    ("Cloudflare's neurons until 00:00 UTC", {"errors": [{"code": 4006, "message": "x"}]}, NOW, 12 * 3600.0),
    ("OpenRouter's headers in the body", OPENROUTER, NOW, 20.0),
    ("a relayed body", RELAYED, NOW, 17.0),
    ("retry_after as a number", {"error": {"message": "x"}, "retry_after": 3}, NOW, 3.0),
    ("plain text", b"Slow down, retry in 9s", NOW, 9.0),
    ("no hint", {"error": {"message": "Resource exhausted. Please try again later."}}, NOW, None),
    ("a message that is a number", {"message": "12"}, NOW, None),
    ("broken JSON", b'{"error": {"retryDelay"', NOW, None),
]


@pytest.mark.parametrize(("body", "now", "seconds"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_bodies_tell_the_wait(body: object, now: float, seconds: float | None) -> None:
    assert _told(body=body, now=now) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("day", "hours"), [(7, 20), (8, 19)], ids=["the day before summer time", "summer time has begun"]
)
def test_pacific_midnight_follows_summer_time(day: int, hours: int) -> None:
    now = datetime(2026, 3, day, 12, tzinfo=UTC).timestamp()
    assert _told(body=_gemini("PerDay"), now=now) == hours * 3600.0


@pytest.mark.parametrize("status", [200, 400, 401, 408, 500, 502, 529, None])
def test_nothing_is_read_on_other_statuses(status: int | None) -> None:
    """Together sends retry-after on every 200 and on 500."""
    assert told_cooldown(Outcome(status=status, headers={"retry-after": "1"}), NOW) is None


def test_a_503_may_tell() -> None:
    assert _told({"retry-after": "3"}, status=503) == 3.0


_NAMES = st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-remaining",
                          "x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens", "rate-limit-reset"])  # fmt: skip
_VALUES = st.one_of(
    st.text(max_size=40), st.floats().map(str), st.integers().map(str), st.datetimes().map(str),
    st.from_regex(r"\A\d{1,20}(\.\d{1,20})?(ms|s|m|h|d)?\Z"),
    st.from_regex(r"\A[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{1,4} \d\d:\d\d"),
)  # fmt: skip
_KEYS = st.sampled_from(
    ["error", "details", "retryDelay", "retry_after", "message", "quotaId", "code", "raw", "headers"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _VALUES | st.just("PerDay"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(
    headers=st.dictionaries(_NAMES, _VALUES, max_size=5),
    body=st.binary(max_size=80) | _JSON.map(lambda value: json.dumps(value).encode()),
    status=st.sampled_from([429, 503, 500]),
    now=st.floats(min_value=0, max_value=4e9),
)
def test_no_answer_raises_or_leaves_the_range(headers: dict[str, str], body: bytes, status: int, now: float) -> None:
    told = told_cooldown(Outcome(status=status, headers=headers, body=body), now)
    assert told is None or 0.0 <= told <= LONGEST


@given(st.text(max_size=120))
def test_a_duration_is_never_negative(text: str) -> None:
    seconds = parse_duration(text)
    assert seconds is None or seconds >= 0.0
