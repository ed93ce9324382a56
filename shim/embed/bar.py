"""Shows a job's progress as a bar, and tells it to whoever asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any, TextIO

from shim import roster
from shim.events import JobProgress, JobState

WORTH_TELLING = 3.0
"""Seconds: shorter waits come and go in any job whose provider limits its rate."""


def is_watched() -> bool:
    """Whether somebody sees a bar, and none is there already: a terminal, or a notebook."""
    if roster.jobs_are_shown:
        return False
    is_terminal = getattr(sys.stderr, "isatty", None)  # a program without a console has no stderr at all
    return (is_terminal is not None and is_terminal()) or "ipykernel" in sys.modules


class Bar:
    """A tqdm bar over rows: rate and remaining time are tqdm's own, beside it spend, errors and shares."""

    def __init__(self, rows: int | None, family: str) -> None:
        from tqdm.auto import tqdm

        self._bar: Any = tqdm(total=rows, desc=f"embed {family}", unit=" rows", unit_scale=False, smoothing=0.1)

    def __call__(self, progress: JobProgress) -> None:
        seen = progress.done + progress.failed
        self._bar.update(seen - self._bar.n)
        self._bar.set_postfix_str(_beside(progress), refresh=False)

    def close(self) -> None:
        self._bar.refresh()
        self._bar.close()


def _beside(progress: JobProgress) -> str:
    parts = []
    if progress.cost:
        parts.append(f"${progress.cost:.4f}")
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    total = sum(progress.shares.values())
    if len(progress.shares) > 1 and total:
        parts += [f"{route} {rows / total:.0%}" for route, rows in progress.shares.items()]
    if progress.waiting_until is not None:
        parts.append(f"waiting: {progress.message}"[:80])
    return ", ".join(parts)


class WaitsTold:
    """Says once per wait, on a stream that nobody watches, that a job waits, for what and until when."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_told = False

    def __call__(self, progress: JobProgress) -> None:
        if progress.state is not JobState.WAITING:
            self._is_told = False
        elif not self._is_told and (progress.waiting_until or 0.0) - progress.at >= WORTH_TELLING:
            self._is_told = True
            until = datetime.fromtimestamp(progress.waiting_until or 0.0).strftime("%H:%M:%S")
            print(f"waiting until {until}: {progress.message}", file=self._stream, flush=True)


def bar_for(wanted: bool | Callable[[JobProgress], Any] | None, rows: int | None, family: str) -> Bar | None:
    """The bar of a job: by default where somebody sees it, never where tqdm is not installed."""
    if callable(wanted) or wanted is False or (wanted is None and not is_watched()):
        return None
    try:
        return Bar(rows, family)
    except ImportError:
        return None
