"""What a dataset job raises. Each message says that what is done is kept, and how to go on.

ShimEmbedError
    EmbeddingStoppedError   no route is left, or too many rows failed; `.job` holds what there is
    BatchStoppedError       the same for one batch of a distributed job that asked to be told (`on_exhausted="raise"`)
    RowsFailedError         the job is done, rows failed, and the caller asked to be told (`on_error="raise"`)
    StoreError              the store cannot be used, or holds another space
        StoreFullError      no space left on the disk
    SourceError             what was given cannot be read as a column of texts
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shim.embed.job import Job


class ShimEmbedError(Exception):
    """The base of all that a dataset job raises of its own."""


class _WithJob(ShimEmbedError):
    job: Job

    def __init__(self, message: str, job: Job) -> None:
        super().__init__(message)
        self.job = job

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process it has its words alone: a job holds connections, and is no thing to send."""
        return _told, (type(self), self.args)


def _told(kind: type[Exception], args: tuple[Any, ...]) -> Exception:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class EmbeddingStoppedError(_WithJob):
    """The job could not go on. `.job` holds the vectors so far; running it again goes on from there."""


class BatchStoppedError(ShimEmbedError):
    """No route was left for a batch of a distributed job. What is done is kept: run the batch again to go on."""


class RowsFailedError(_WithJob):
    """The job is done and some rows failed. `.job.errors` names them."""


class StoreError(ShimEmbedError):
    """The store cannot be used, or belongs to another space."""


class StoreFullError(StoreError):
    """The disk is full. Everything that was acknowledged is kept."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"no space left for {folder}: all vectors up to here are kept; free some space, or name another disk by "
            "SHIM_CACHE_DIR, `store` or `out`, and run it again"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _told, (type(self), self.args)


class SourceError(ShimEmbedError, ValueError):
    """What was given cannot be read as a column of texts."""
