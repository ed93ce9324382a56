"""What the demonstration shows: the attempts as they happen, the health afterwards, neighbours and findings."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from shim import Attempt, BreakerState, Purpose, Router, Verdict
from shim.cli import tables
from shim.events import AttemptFinished, AttemptStarted, BreakerChanged, CallFinished, CallStarted, Event

_STYLES = {
    Verdict.OK: tables.GOOD,
    Verdict.TRANSIENT: tables.DOUBT,
    Verdict.CANNOT: tables.DOUBT,
    Verdict.BROKEN: tables.BAD,
    Verdict.FATAL: tables.BAD,
}
_STATES = {BreakerState.CLOSED: tables.GOOD, BreakerState.OPEN: tables.BAD, BreakerState.HALF_OPEN: tables.DOUBT}


class Watch:
    """Observes a router: a row for each attempt and each move of a breaker; live on a terminal, else at the end."""

    def __init__(self, router: Router, out: Console) -> None:
        self.attempts: list[Attempt] = []
        self.moves: list[BreakerChanged] = []
        self._router = router
        self._calls = 0
        columns = ("call", "#", "route", "why", "verdict", "reason", "HTTP", "ms", "breaker")
        self._table = tables.table(columns, right=("call", "#", "HTTP", "ms"))
        self._out = out
        self._live = Live(self._table, console=out, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        self._router.subscribe(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._router.unsubscribe(self)
        self._live.stop()
        if not self._out.is_terminal:  # the last line is then left without an end
            self._out.print()

    def __call__(self, event: Event, /) -> None:
        match event:
            case CallStarted():
                self._calls += 1
            case AttemptFinished(attempt=Attempt(purpose=Purpose.SPACE_CHECK)):
                pass  # eighteen a route: told in one row when the call is over
            case AttemptFinished(attempt=attempt):
                self.attempts.append(attempt)
                self._row(attempt)
            case BreakerChanged(subject=subject, before=before, after=after):
                self.moves.append(event)
                now = tables.styled(f"now {after.value}", _state_style(after))
                self._add("", "", subject.partition("/")[0], "breaker", now, f"was {before.value}")
            case CallFinished(call=call):
                probes = [one for one in call.attempts if one.purpose is Purpose.SPACE_CHECK]
                self._probes([one for one in probes if one.verdict is Verdict.OK])
            case AttemptStarted():
                pass  # its row comes when it ends
        if self._live.is_started:
            self._live.refresh()

    def _row(self, one: Attempt) -> None:
        style = _STYLES[one.verdict] if one.verdict is not None else tables.QUIET
        self._add(
            str(self._calls),
            str(one.number),
            one.provider,
            one.purpose.value,
            tables.styled(one.verdict.value if one.verdict is not None else "cancelled", style),
            one.reason if one.verdict not in (None, Verdict.OK) else "",
            "" if one.status is None else str(one.status),
            tables.milliseconds(one.duration),
            tables.styled(one.breaker.value, _state_style(one.breaker)),
        )

    def _probes(self, probes: Sequence[Attempt]) -> None:
        for provider in dict.fromkeys(one.provider for one in probes):
            mine = [one for one in probes if one.provider == provider]
            told = tables.styled("same space", tables.GOOD)
            self._add("", "", provider, "probes", told, f"{len(mine)} texts")

    def _add(self, *cells: tables.Cell) -> None:
        self._table.add_row(*cells)


def _state_style(state: BreakerState) -> str:
    return _STATES.get(state, tables.BAD)


def show_status(router: Router, out: Console) -> None:
    """What the router knows of its routes."""
    rows = [
        (
            one.route.partition("/")[0],
            tables.styled(one.breaker.value, _state_style(one.breaker)),
            f"{one.cooldown:.1f} s" if one.cooldown else "",
            str(one.attempts),
            ", ".join(f"{count} {verdict}" for verdict, count in one.verdicts.items()) or "none",
            tables.milliseconds(one.p50),
            str(one.input_tokens),
        )
        for one in router.status().routes
    ]
    columns = ("route", "breaker", "cooldown", "attempts", "verdicts", "p50 ms", "tokens")
    out.print(tables.table(columns, rows, right=("attempts", "p50 ms", "tokens")))


def show_neighbours(
    questions: Sequence[str], texts: Sequence[str], ranked: Sequence[Sequence[tuple[float, int]]], out: Console
) -> None:
    """For each question the nearest texts with their cosine."""
    for question, nearest in zip(questions, ranked, strict=True):
        out.print(tables.styled(question, "bold"))
        for cosine, index in nearest:
            out.print(f"  {cosine:.3f}  {texts[index]}")


def show_findings(findings: Sequence[tuple[bool, str]], out: Console) -> None:
    """What was expected, and whether it came so."""
    for held, text in findings:
        out.print(tables.styled(f"  {'ok' if held else 'NO'}  {text}", tables.GOOD if held else tables.BAD))
