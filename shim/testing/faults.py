"""Faults to rehearse, in the words of a test: `with inject(router, rate_limit("openai", times=2, retry_after=30)): ...`

Each word makes a `FaultProfile`. `subject` is whom it meets: a provider, a route `provider/model`, or "" for all.
When it is met is told by `times` (so many attempts; None: all), `after` (so many are well first), `flap` (so many
well, as many not, and so on), `share` and `seed` (each one with that probability, the same for the same seed) and
`seconds` (only so long). A profile acts where `inject` puts it: on a router, over live providers, cassettes and local
models alike, or on a `FakeProvider` or a served one, whose name is the subject then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack, runtime_checkable

from shim._core.faults import (
    BadRows,
    Cut,
    Drip,
    Effect,
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
from shim._core.outcome import Fault

if TYPE_CHECKING:
    from shim.router import Router

__all__ = [
    "FaultProfile",
    "Injection",
    "Rows",
    "bad_rows",
    "connection_failed",
    "drip",
    "error_event",
    "hang",
    "html_page",
    "inject",
    "nan_row",
    "rate_limit",
    "reordered",
    "reset",
    "short_data",
    "status",
    "timeout",
    "truncated",
]


class Timing(TypedDict, total=False):
    """When a fault is met; see the module."""

    times: int | None
    after: int
    flap: int
    share: float
    seed: int
    seconds: float | None


def _profile(name: str, effect: Effect, subject: str, timing: Timing) -> FaultProfile:
    return FaultProfile(effect, subject, When(**timing), name)


# -- in place of the answer


def rate_limit(
    subject: str = "", *, retry_after: float | None = None, message: str | None = None, **timing: Unpack[Timing]
) -> FaultProfile:
    """429 in OpenAI's shape; `retry_after` in seconds becomes the header."""
    return _profile("rate_limit", Instead(answer(429, retry_after=retry_after, message=message)), subject, timing)


def status(
    subject: str = "",
    code: int = 500,
    *,
    retry_after: float | None = None,
    message: str | None = None,
    body: bytes | None = None,
    **timing: Unpack[Timing],
) -> FaultProfile:
    """An error of HTTP status `code` in OpenAI's shape, or with `body` as it is.

    Raises `ValueError` for what is no status, and for a success without a `body` of its own, which would be no fault.
    """
    if body is None and 200 <= code < 300:
        raise ValueError(
            f"faults.status: {code} is a success: give a `body` that is none, or a status such as 429 or 503; "
            "what a provider answers when all is well is FakeProvider(says(...))"
        )
    outcome = answer(code, retry_after=retry_after, message=message, body=body)
    return _profile(f"status {code}", Instead(outcome), subject, timing)


def html_page(subject: str = "", code: int = 502, **timing: Unpack[Timing]) -> FaultProfile:
    """A page in HTML, as a proxy in front of a provider sends it."""
    return _profile("html_page", Instead(page(code)), subject, timing)


def connection_failed(subject: str = "", **timing: Unpack[Timing]) -> FaultProfile:
    """Nobody listens."""
    return _profile("connection_failed", Instead(broken(Fault.CONNECT)), subject, timing)


def timeout(subject: str = "", **timing: Unpack[Timing]) -> FaultProfile:
    """The attempt times out, at once: no time passes. `hang` waits."""
    return _profile("timeout", Instead(broken(Fault.TIMEOUT)), subject, timing)


# -- on the provider's own answer


def hang(subject: str = "", *, waits: float, **timing: Unpack[Timing]) -> FaultProfile:
    """Silence for `waits` seconds, then the provider's answer: on the router's clock, so a fake one takes no time."""
    return _profile("hang", Hang(waits), subject, timing)


def reset(subject: str = "", *, at: int = 0, **timing: Unpack[Timing]) -> FaultProfile:
    """The connection is reset after `at` bytes of the body."""
    return _profile("reset", Cut(at, Fault.RESET), subject, timing)


def truncated(subject: str = "", *, at: int = 0, **timing: Unpack[Timing]) -> FaultProfile:
    """The body ends properly after `at` bytes, as if that were all."""
    return _profile("truncated", Cut(at, None), subject, timing)


def drip(subject: str = "", *, every: float, size: int = 1, **timing: Unpack[Timing]) -> FaultProfile:
    """The body comes in pieces of `size` bytes, `every` so many seconds."""
    return _profile("drip", Drip(every, size), subject, timing)


def error_event(
    subject: str = "", *, events: int = 0, message: str | None = None, **timing: Unpack[Timing]
) -> FaultProfile:
    """An error event after so many events of a stream; 0: before any content."""
    effect = ErrorEvent(events) if message is None else ErrorEvent(events, message)
    return _profile("error_event", effect, subject, timing)


def bad_rows(wrong: Rows, subject: str = "", *, row: int = -1, **timing: Unpack[Timing]) -> FaultProfile:
    """The provider's embeddings with one thing wrong; `row` counts from 0, -1 is the last."""
    return _profile(wrong.value, BadRows(wrong, row), subject, timing)


def short_data(subject: str = "", **timing: Unpack[Timing]) -> FaultProfile:
    """One embedding is missing."""
    return bad_rows(Rows.SHORT, subject, **timing)


def reordered(subject: str = "", **timing: Unpack[Timing]) -> FaultProfile:
    """The embeddings come in reverse, truly labelled: nothing is wrong with that."""
    return bad_rows(Rows.REORDERED, subject, **timing)


def nan_row(subject: str = "", *, row: int = -1, **timing: Unpack[Timing]) -> FaultProfile:
    """An embedding holds a number that is none."""
    return bad_rows(Rows.NAN, subject, row=row, **timing)


# -- putting them to work


@runtime_checkable
class Injectable(Protocol):
    """What takes faults itself: a `FakeProvider`, a served one."""

    def add_faults(self, *profiles: FaultProfile) -> Injection: ...

    def remove_faults(self, injection: Injection) -> None: ...


@contextmanager
def inject(target: Router | Injectable | Any, *profiles: FaultProfile) -> Iterator[Injection]:
    """Let attempts meet `profiles` until the block ends; `.met` of what comes back counts how often each was met.

    `target` is a router, a client with one, a `FakeProvider` or a served one. Blocks may be nested: the innermost is
    asked first. Raises `TypeError` for anything else, and for a client without a router.
    """
    if isinstance(target, Injectable):
        injection = target.add_faults(*profiles)
        try:
            yield injection
        finally:
            target.remove_faults(injection)
        return
    router = target if hasattr(target, "_board") else getattr(target, "router", None)
    if router is None:
        raise TypeError(f"faults.inject: takes a router, a client with one, or a FakeProvider, got {target!r}")
    _check_subjects(router, profiles)
    injections = router._board.injections
    injection = injections.add(profiles)
    try:
        yield injection
    finally:
        injections.remove(injection)


def _check_subjects(router: Router, profiles: tuple[FaultProfile, ...]) -> None:
    """A misspelt subject would be a fault that nobody meets, and a test that proves nothing."""
    known = list(router.config.providers)
    known += [route.route for family in router.config.families.values() for route in family.routes]
    for profile in profiles:
        if profile.subject and profile.subject not in known:
            names = ", ".join(dict.fromkeys(known)) or "none"
            raise ValueError(f"faults.{profile.name}: no provider or route {profile.subject!r}; there are: {names}")
