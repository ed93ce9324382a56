"""Calls as time lines: bars on lanes, and the same in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from notebook_ext import words
from notebook_ext.fold import is_rehearsal
from notebook_ext.model import Bar, CallView, Said, Tone
from shim.events import Attempt, Call, Ending, Purpose, Verdict

Look = Literal["ok", "fail", "late", "cancelled", "check"]

_LATE = ("timeout", "first_chunk_timeout", "stall", "connect_timeout")
_TONES: dict[Look, Tone] = {"ok": "ok", "fail": "bad", "late": "warn", "cancelled": "quiet", "check": "quiet"}
_ENDINGS = {
    Ending.OK: "answered",
    Ending.EXHAUSTED: "exhausted",
    Ending.REFUSED: "refused",
    Ending.CANCELLED: "cancelled",
    Ending.INTERRUPTED: "stream broke off",
}


def view(call: Call) -> CallView:
    """One call. Probes of the space check are one bar and a few words for each route."""
    steps = _steps(call.attempts)
    first = min((step[0].started_at for step in steps), default=call.started_at)
    start = min(first, call.started_at)
    lanes: list[float] = []
    bars = []
    for attempt, look, said in sorted(steps, key=lambda step: step[0].started_at):
        at = max(0.0, attempt.started_at - start)
        lane = _lane(lanes, at, at + attempt.duration)
        rehearsal = is_rehearsal(attempt)
        text = f"{said} after {words.seconds(attempt.duration)}{' (rehearsal)' if rehearsal else ''}"
        bars.append(Bar(start=at, length=attempt.duration, lane=lane, look=look, said=text, is_rehearsal=rehearsal))
    return CallView(
        id=words.clean(call.id),
        family=words.clean(call.family),
        mode=call.mode,
        ending=_ENDINGS[call.ending],
        at=call.started_at,
        total=max(call.duration, *(bar.start + bar.length for bar in bars)) if bars else call.duration,
        lanes=max(1, len(lanes)),
        bars=tuple(bars),
        words=_sentence(steps, call),
    )


def look_of(attempt: Attempt) -> Look:
    """How an attempt is drawn."""
    if attempt.purpose is Purpose.SPACE_CHECK:
        return "check"
    if attempt.verdict is None:
        return "cancelled"
    if attempt.verdict is Verdict.OK:
        return "ok"
    return "late" if attempt.reason in _LATE else "fail"


def said_of(attempt: Attempt) -> str:
    """What an attempt brought, in a few words: `lab: 429 rate_limit`."""
    if attempt.verdict is None:
        return f"{words.clean(attempt.provider)} cancelled"
    if attempt.verdict is Verdict.OK:
        return f"{words.clean(attempt.provider)} answered"
    status = f"{attempt.status} " if attempt.status else ""
    return f"{words.clean(attempt.provider)}: {status}{words.clean(attempt.reason)}"


def _steps(attempts: Sequence[Attempt]) -> list[tuple[Attempt, Look, str]]:
    steps: list[tuple[Attempt, Look, str]] = []
    probes: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.purpose is Purpose.SPACE_CHECK:
            probes.setdefault(attempt.route, []).append(attempt)
        else:
            steps.append((attempt, look_of(attempt), said_of(attempt)))
    # A probe that failed ended its attempt in the same way: that is told once.
    ended = {(attempt.route, attempt.reason) for attempt, look, _ in steps if look != "ok"}
    return [_check(one) for one in probes.values() if (one[-1].route, one[-1].reason) not in ended] + steps


def _check(probes: list[Attempt]) -> tuple[Attempt, Look, str]:
    """The probes of one route as one step."""
    begun = min(probe.started_at for probe in probes)
    over = max(probe.started_at + probe.duration for probe in probes)
    failed = next((probe for probe in probes if probe.verdict is not Verdict.OK), None)
    name = words.clean(probes[0].provider)
    said = f"{name}: space check, {words.plural(len(probes), 'probe')}"
    if failed is not None:
        said += f", {words.clean(failed.reason)}"
    return replace(probes[0], started_at=begun, duration=over - begun), "check", said


def _lane(lanes: list[float], start: float, end: float) -> int:
    """The first lane that is free at `start`; `lanes` holds the end of the last bar of each."""
    for index, free_at in enumerate(lanes):
        if free_at <= start + 1e-4:
            lanes[index] = end
            return index
    lanes.append(end)
    return len(lanes) - 1


def _sentence(steps: list[tuple[Attempt, Look, str]], call: Call) -> tuple[Said, ...]:
    said: list[Said] = []
    for attempt, look, text in steps:
        if said:
            said.append(Said(_joint(attempt)))
        said.append(Said(text + (" (rehearsal)" if is_rehearsal(attempt) else ""), _TONES[look]))
    if not said:
        return (Said("no route could be asked", "bad"),)
    if call.ending is not Ending.OK:
        said += [Said("→"), Said(_ENDINGS[call.ending], "bad" if call.ending is Ending.EXHAUSTED else "warn")]
    return tuple(said)


def _joint(attempt: Attempt) -> str:
    """`→` for what came after, a word for what ran beside."""
    match attempt.purpose:
        case Purpose.HEDGE | Purpose.RACE:
            return "beside"
        case Purpose.RETRY:
            return "→ again"
        case _:
            return "→"
