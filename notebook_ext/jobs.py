"""A dataset job in words: how far, how fast, what it costs, what stays when it is stopped now."""

from __future__ import annotations

from notebook_ext import words
from notebook_ext.model import JobView, Share, Tone
from shim.events import JobProgress, JobState

_TONES: dict[JobState, Tone] = {
    JobState.RUNNING: "ok",
    JobState.WAITING: "warn",
    JobState.DONE: "ok",
    JobState.STOPPED: "bad",
    JobState.CANCELLED: "warn",
}
_VERBS = {
    JobState.RUNNING: "Embedding",
    JobState.WAITING: "Waiting to embed",
    JobState.DONE: "Embedded",
    JobState.STOPPED: "Stopped embedding",
    JobState.CANCELLED: "Cancelled embedding",
}
OVER = frozenset({JobState.DONE, JobState.STOPPED, JobState.CANCELLED})


def view(job: JobProgress) -> JobView:
    """What the card of a job shows."""
    return JobView(
        id=words.clean(job.job_id),
        family=words.clean(job.family),
        state=job.state.value,
        tone=_TONES[job.state],
        rows=job.rows,
        done=job.done,
        headline=_headline(job),
        figures=_figures(job),
        keeps=_keeps(job),
        message=words.clean(job.message),
        waiting_until=job.waiting_until,
        shares=tuple(
            Share(words.clean(route), rows)
            for route, rows in sorted(job.shares.items(), key=lambda item: -item[1])[:12]
        ),
        is_over=job.state in OVER,
    )


def _headline(job: JobProgress) -> str:
    of = "" if job.rows is None else f" of {job.rows:,}"
    share = f" ({100 * job.done / job.rows:.1f} %)" if job.rows else ""
    return f"{_VERBS[job.state]} with {words.clean(job.family)}: {job.done:,}{of} rows{share}"


def _figures(job: JobProgress) -> str:
    over = job.state in OVER
    parts = [f"{job.rate:,.0f} rows/s"]
    parts.append(f"took {words.seconds(job.elapsed)}" if over else f"{words.seconds(job.eta)} to go")
    if job.cost is not None:
        parts.append(f"{words.money(job.cost)} spent")
    parts.append(words.plural(job.requests, "request"))
    parts.append(f"{words.count(job.tokens)} tokens")
    if job.cached:
        parts.append(f"{words.count(job.cached)} from the store")
    if job.duplicates:
        parts.append(words.plural(job.duplicates, "duplicate"))
    if job.failed:
        parts.append(f"{words.plural(job.failed, 'row')} failed")
    return " · ".join(parts)


def _keeps(job: JobProgress) -> str:
    """What do I lose if I stop?"""
    if job.state is JobState.DONE:
        return ""
    if job.state in OVER:
        return f"{words.plural(job.done, 'row')} kept; the same call goes on from there"
    asked = f"; {words.plural(job.in_flight, 'request')} under way would be asked again" if job.in_flight else ""
    return f"Stopping now keeps {words.plural(job.done, 'row')}{asked}"
