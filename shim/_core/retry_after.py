"""How long a provider told us to wait: every spelling of Retry-After, in headers and in bodies."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from shim._core.envelope import parse_json
from shim._core.outcome import Outcome

LONGEST = 86_400.0
"""Seconds: no provider benches us longer than a day on its own word."""

_READ_ON = (429, 503)
_MAX_BODY = 262_144
_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_WORD = r"milliseconds?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|ms|us|µs|ns|[smhd]"
_PART = rf"\d{{1,15}}(?:\.\d{{1,15}})?\s?(?:{_WORD})(?![A-Za-z])"
_BARE = re.compile(r"\d{1,15}(?:\.\d{0,15})?")
_WHOLE = re.compile(rf"(?:{_PART}\s?)+", re.IGNORECASE)
_ONE = re.compile(rf"(\d{{1,15}}(?:\.\d{{1,15}})?)\s?({_WORD})(?![A-Za-z])", re.IGNORECASE)
_PROSE = re.compile(
    rf"\b(?:retry|again|wait|available|resets?)\b[^\d.;]{{0,30}}?\b(?:in|after|for)\s+((?:{_PART}\s?)+)", re.IGNORECASE
)
_HTTP_DATE = re.compile(r"[A-Za-z]{3,9},? ?\d{1,2}[ -][A-Za-z]{3}[ -]\d{2,4} \d|[A-Za-z]{3} [A-Za-z]{3} +\d")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_PER_DAY = re.compile(r"PerDay(?![a-z])")
_CLOUDFLARE_DAILY = 4006
_SAYING = ("message", "error", "detail", "msg", "reason")


def parse_duration(text: str) -> float | None:
    """Seconds named by `text`: a Go-like duration ("510ms", "1m2.3s", "2h0m5s"), bare seconds, or a hint in prose.

    Prose counts only as "retry in 3.5s", "try again in 1m2.3s", "wait for 20 seconds". Never negative; None when no
    duration is named. Not capped.
    """
    text = text.strip()
    if _BARE.fullmatch(text):
        return float(text)
    if _WHOLE.fullmatch(text):
        return _sum(text)
    hint = _PROSE.search(text[:4096])
    return _sum(hint.group(1)) if hint else None


def _sum(text: str) -> float:
    return sum(float(number) * _UNIT_SECONDS[_unit(word.lower())] for number, word in _ONE.findall(text))


def _unit(word: str) -> str:
    if word in _UNIT_SECONDS:
        return word
    return "ms" if word.startswith("milli") else word[0]


def told_cooldown(outcome: Outcome, now: float) -> float | None:
    """Seconds the provider told us to leave it alone, 0 to 86400; None when it told nothing that can be read.

    `now` is unix seconds. Read on 429 and 503 alone: Together sends `retry-after: 1` on every 200. In this order: a
    daily quota's reset; the longer of `retry-after` (RFC 9110 10.2.3) and `retry-after-ms` (Azure); the longest hint in
    the body (Gemini `retryDelay`, "try again in 7.66s"); the reset of the exhausted bucket in the `*ratelimit*reset*`
    headers, which OpenRouter repeats in the body.
    """
    if outcome.status not in _READ_ON:
        return None
    pairs = list(_pairs(parse_json(outcome.body))) if len(outcome.body) <= _MAX_BODY else []
    candidates = (
        _daily(outcome.headers, pairs, now),
        _retry_after(outcome.headers, now),
        _body_hint(outcome.body, pairs),
        _reset(outcome.headers, now),
        _reset(_headers_in_body(pairs), now),
    )
    return next((min(max(told, 0.0), LONGEST) for told in candidates if told is not None), None)


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    told = [headers.get("retry-after-ms", "").strip(), headers.get("retry-after", "").strip()]
    waits = [float(told[0]) / 1000 if _BARE.fullmatch(told[0]) else None, _reset_value(told[1], now)]
    if waits[1] is None and _HTTP_DATE.match(told[1]):
        waits[1] = _until(told[1], now)
    return max((wait for wait in waits if wait is not None), default=None)


def _until(date: str, now: float) -> float | None:
    """Seconds until an HTTP or ISO date; 0 for a past one; None for what is no date."""
    try:
        at = datetime.fromisoformat(date) if _ISO.match(date) else parsedate_to_datetime(date)
        return max((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _pairs(value: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Every (key, value) of a parsed body, outermost first; `raw` of a relaying provider is opened as well."""
    if depth > 8:
        return
    if isinstance(value, list):
        for item in value[:50]:
            yield from _pairs(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in list(value.items())[:50]:
            yield str(key), item
            opened = parse_json(item.encode("utf-8", "replace")) if key == "raw" and isinstance(item, str) else item
            yield from _pairs(opened, depth + 1)


def _daily(headers: Mapping[str, str], pairs: list[tuple[str, object]], now: float) -> float | None:
    """Seconds until a daily quota returns, where the body or a header says that it is the daily one that is spent."""
    if any(key == "quotaId" and isinstance(value, str) and _PER_DAY.search(value) for key, value in pairs):
        return _to_midnight(now, _pacific_offset(datetime.fromtimestamp(now, UTC)))
    if any(key == "code" and type(value) is int and value == _CLOUDFLARE_DAILY for key, value in pairs):
        return _to_midnight(now, timedelta())
    if any(name.endswith("remaining-month") and value.strip() == "0" for name, value in headers.items()):
        return LONGEST
    return None


def _to_midnight(now: float, offset: timedelta) -> float:
    return LONGEST - (now + offset.total_seconds()) % LONGEST


def _pacific_offset(at: datetime) -> timedelta:
    """UTC-7 from the second Sunday of March to the first of November, at 02:00 (15 U.S.C. 260a), else UTC-8."""
    starts = _sunday(at.year, 3, 2) + timedelta(hours=10)
    ends = _sunday(at.year, 11, 1) + timedelta(hours=9)
    return timedelta(hours=-7 if starts <= at < ends else -8)


def _sunday(year: int, month: int, nth: int) -> datetime:
    first = datetime(year, month, 1, tzinfo=UTC)
    return first + timedelta(days=(6 - first.weekday()) % 7 + 7 * (nth - 1))


def _body_hint(body: bytes, pairs: list[tuple[str, object]]) -> float | None:
    hints = [_hint(key, value) for key, value in pairs]
    if not pairs and body:
        hints.append(_in_prose(body[:4096].decode("utf-8", "replace")))
    return max((hint for hint in hints if hint is not None), default=None)


def _hint(key: str, value: object) -> float | None:
    match key:
        case "retryDelay" | "retry_after" | "retryAfter" | "retry_after_seconds":
            return _seconds(value)
        case "retry_after_ms":
            milliseconds = _seconds(value)
            return None if milliseconds is None else milliseconds / 1000
        case _ if key in _SAYING and isinstance(value, str):
            return _in_prose(value)
        case _:
            return None


def _seconds(value: object) -> float | None:
    if isinstance(value, dict):
        value = value.get("seconds")
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
        return float(value)
    return None


def _in_prose(text: str) -> float | None:
    """As `parse_duration`, but a message that is a bare number names no duration."""
    hint = _PROSE.search(text[:4096])
    return _sum(hint.group(1)) if hint else None


def _headers_in_body(pairs: list[tuple[str, object]]) -> dict[str, str]:
    """The headers that OpenRouter repeats under `error.metadata.headers`."""
    for key, value in pairs:
        if key == "headers" and isinstance(value, dict):
            return {str(name).lower(): str(held) for name, held in list(value.items())[:50]}
    return {}


def _reset(headers: Mapping[str, str], now: float) -> float | None:
    """The latest reset of the exhausted buckets; where none is known to be exhausted, the soonest of the unknown."""
    exhausted: list[float] = []
    unknown: list[float] = []
    for name, value in headers.items():
        if "reset" not in name or "ratelimit" not in name.replace("rate-limit", "ratelimit"):
            continue
        wait = _reset_value(value.strip(), now)
        remaining = headers.get(name.replace("reset", "remaining"), "").strip()
        if wait is not None and not remaining:
            unknown.append(wait)
        elif wait is not None and _is_zero(remaining):
            exhausted.append(wait)
    return max(exhausted) if exhausted else min(unknown, default=None)


def _is_zero(text: str) -> bool:
    try:
        return float(text) <= 0
    except ValueError:
        return False


def _reset_value(text: str, now: float) -> float | None:
    """A reset as seconds from now: epoch milliseconds (from 1e11), epoch seconds (from 1e9), a date, or a duration."""
    if _ISO.match(text):
        return _until(text, now)
    value = parse_duration(text)
    if value is None or not math.isfinite(value) or value >= 1e13:
        return None
    if not _BARE.fullmatch(text) or value < 1e9:
        return value
    return max((value / 1000 if value >= 1e11 else value) - now, 0.0)
