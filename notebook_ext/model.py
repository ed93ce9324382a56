"""What a panel shows, as data: the snapshot that the page, the static table and the plain text are made from.

Everything is JSON: instants are unix seconds, durations float seconds, texts already masked and cut. Nothing is
escaped: whoever makes HTML of it does that.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Tone = Literal["ok", "warn", "bad", "quiet"]
"""Colour for what a word already says."""


class Said(msgspec.Struct, frozen=True):
    """A piece of a sentence with its tone."""

    text: str
    tone: Tone = "quiet"


class RouteView(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table. `breaker` is a word of `BreakerState`; `until` is when it lets a probe through."""

    route: str
    provider: str
    model: str
    breaker: str
    until: float | None
    is_serving: bool
    """Whether the next call may use it now."""
    state: str
    """Why not, in words; "" while it serves."""
    back_at: float | None
    is_off: bool
    can_switch: bool
    """False where the configuration switched it off: no button can help."""
    is_pinned: bool
    is_rehearsed: bool
    in_flight: int
    ok: int
    failed: int
    p50: float | None
    p95: float | None
    recent: tuple[float, ...]
    """Seconds of the last good answers, oldest first."""
    tokens: int
    cost: float | None
    key: str
    key_until: float | None
    error: str
    error_tone: Tone
    space: str
    """How it stands to its family's vector space; "" for other kinds."""


class FamilyView(msgspec.Struct, frozen=True, kw_only=True):
    """A group of rows. `about` says kind, dimensions, mode and what keeps its calls together."""

    name: str
    kind: str
    about: str
    pinned: str | None
    routes: tuple[RouteView, ...]


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt on the time line of a call: `start` and `length` in seconds from the start of the call."""

    start: float
    length: float
    lane: int
    look: Literal["ok", "fail", "late", "cancelled", "check"]
    said: str
    is_rehearsal: bool


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """One call: its attempts in order as bars, and in words."""

    id: str
    family: str
    mode: str
    ending: str
    at: float
    total: float
    lanes: int
    bars: tuple[Bar, ...]
    words: tuple[Said, ...]


class TroubleView(msgspec.Struct, frozen=True, kw_only=True):
    """Failures of one verdict and reason. `advice` says whether to wait or to change something."""

    verdict: str
    reason: str
    count: int
    route: str
    message: str
    at: float
    advice: str
    tone: Tone


class Share(msgspec.Struct, frozen=True):
    """Rows of a job that one route embedded."""

    route: str
    rows: int


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset job. `keeps` says what stays when it is stopped now."""

    id: str
    family: str
    state: str
    tone: Tone
    rows: int | None
    done: int
    headline: str
    figures: str
    keeps: str
    message: str
    waiting_until: float | None
    shares: tuple[Share, ...]
    is_over: bool


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, as of `at`. `acks` are the requests of buttons that were carried out, each with what went wrong."""

    v: int
    seq: int
    at: float
    tone: Tone
    headline: str
    figures: str
    families: tuple[FamilyView, ...]
    calls: tuple[CallView, ...]
    troubles: tuple[TroubleView, ...]
    jobs: tuple[JobView, ...]
    rehearsals: tuple[str, ...]
    acks: tuple[tuple[str, str], ...]

    def to_builtins(self) -> dict[str, Any]:
        """Plain dicts and lists, as a widget sends them."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built
