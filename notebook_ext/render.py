"""A snapshot without a live page: plain text for a terminal, a static table for a saved notebook."""

from __future__ import annotations

from collections.abc import Iterable

from notebook_ext import words
from notebook_ext.model import CallView, FamilyView, JobView, RouteView, Said, Snapshot
from notebook_ext.table import escape, html_table, text

_ROUTES = ("route", "breaker", "ok", "failed", "p50", "p95", "tokens", "cost", "key", "now")
_NUMBERS = (2, 3, 4, 5, 6, 7)
_WORDS = (0, 1, 8, 9)


def to_text(snapshot: Snapshot) -> str:
    """For a terminal, a log, `print`."""
    parts = [f"{snapshot.headline}; {snapshot.figures}"]
    parts += [f"REHEARSAL {one}" for one in snapshot.rehearsals]
    parts += [job_text(job) for job in snapshot.jobs]
    for family in snapshot.families:
        pinned = f", pinned to {family.pinned}" if family.pinned else ""
        parts.append(f"{family.name} ({family.about}{pinned})")
        parts.append(text(_ROUTES, _rows(family), right=_NUMBERS, indent="  "))
    if snapshot.calls:
        parts.append("last calls")
        parts += [
            f"  {call.family}, {call.mode}, {words.seconds(call.total)}: {sentence(call.words)}"
            for call in snapshot.calls
        ]
    if snapshot.troubles:
        parts.append("errors")
        parts += [
            f"  {one.verdict}: {one.reason} x{one.count}, last on {one.route}: {one.message} ({one.advice})"
            for one in snapshot.troubles
        ]
    return "\n".join(parts)


def to_html(snapshot: Snapshot) -> str:
    """For a saved notebook, GitHub, nbviewer, mail: as of the snapshot's time, which it names."""
    parts = [
        f"<p><b>{escape(snapshot.headline)}</b> &nbsp; {escape(snapshot.figures)}"
        f" &nbsp; <i>as of {escape(words.clock(snapshot.at))}</i></p>"
    ]
    parts += [f"<p><b>Rehearsal</b>: {escape(one)}</p>" for one in snapshot.rehearsals]
    parts += [job_html(job) for job in snapshot.jobs]
    for family in snapshot.families:
        pinned = f" · pinned to {escape(family.pinned)}" if family.pinned else ""
        parts.append(f"<p><b>{escape(family.name)}</b> &nbsp; {escape(family.about)}{pinned}</p>")
        parts.append(html_table(_ROUTES, _rows(family), left=_WORDS))
    if snapshot.calls:
        parts.append("<p><b>Last calls</b></p>" + _calls(snapshot.calls))
    if snapshot.troubles:
        rows = [(one.verdict, one.reason, one.count, one.route, one.message, one.advice) for one in snapshot.troubles]
        head = ("verdict", "reason", "count", "last on", "it said", "what to do")
        parts.append("<p><b>Errors by verdict</b></p>" + html_table(head, rows, left=(0, 1, 3, 4, 5)))
    return f"<div>{''.join(parts)}</div>"


def job_html(job: JobView) -> str:
    """The card of a job: a headline, a bar that needs no style, and figures."""
    lines = [f"<b>{escape(job.headline)}</b>"]
    if job.rows and not job.is_over:
        lines.append(f'<progress max="{job.rows}" value="{min(job.done, job.rows)}" style="width:100%"></progress>')
    lines.append(escape(job.figures))
    if job.shares:
        lines.append(escape(shares(job)))
    lines += [escape(line) for line in (job.message, _waits(job), job.keeps) if line]
    return f"<p>{'<br>'.join(lines)}</p>"


def shares(job: JobView) -> str:
    """Who did how much of a job's rows: `lab/m 71 %, spare/m 29 %`."""
    total = sum(share.rows for share in job.shares) or 1
    return ", ".join(f"{share.route} {100 * share.rows / total:.0f} %" for share in job.shares)


def sentence(said: Iterable[Said]) -> str:
    """A call in words."""
    return " ".join(piece.text for piece in said)


def now_of(row: RouteView) -> str:
    """What there is to say of a route now: why it is out and until when, its last error, its space."""
    parts = []
    if row.is_rehearsed:
        parts.append("rehearsal")
    if row.is_pinned:
        parts.append("pinned")
    if row.state:
        parts.append(f"{row.state}{f' until {words.clock(row.back_at)}' if row.back_at else ''}")
    elif row.error:
        parts.append(f"last error {row.error}")
    if row.space:
        parts.append(row.space)
    return "; ".join(parts)


def breaker_of(row: RouteView) -> str:
    """The breaker's word, with the time at which it lets a probe through."""
    if row.breaker != "open" or row.until is None:
        return row.breaker
    return "open, probe due" if row.is_serving else f"open until {words.clock(row.until)}"


def _rows(family: FamilyView) -> list[tuple[object, ...]]:
    return [
        (
            row.route,
            breaker_of(row),
            row.ok,
            row.failed,
            words.seconds(row.p50),
            words.seconds(row.p95),
            words.count(row.tokens),
            words.money(row.cost),
            row.key,
            now_of(row),
        )
        for row in family.routes
    ]


def _calls(calls: Iterable[CallView]) -> str:
    rows = [(call.family, call.mode, sentence(call.words), words.seconds(call.total)) for call in calls]
    return html_table(("family", "mode", "attempts in order", "took"), rows, left=(0, 1, 2))


def _waits(job: JobView) -> str:
    return f"waits until {words.clock(job.waiting_until)}" if job.waiting_until and not job.is_over else ""


def job_text(job: JobView) -> str:
    """The card of a job in plain text."""
    lines = [job.headline, job.figures, shares(job), job.message, _waits(job), job.keeps]
    return "\n  ".join(line for line in lines if line)
