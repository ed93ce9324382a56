"""Embeds batches for Ray Data (`map_batches`), Dask (`map_partitions`) and Spark (`mapInPandas`).

One object, which pickles as its configuration. Each process that it lands in makes a client at the first batch and
keeps it; all rules are those of `client.embed`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from shim import loading
from shim.config import Config
from shim.embed.assignment import Assignment
from shim.embed.batch_faces import joined, no_rows, opened, spark_schema
from shim.embed.errors import SourceError
from shim.embed.plan import resolved_family
from shim.embed.settings import settings

if TYPE_CHECKING:
    from shim.router import Router

_LOCAL = 8
"""The concurrency of a job of one process."""
_OF_ONE_RUN = {
    "out": "let the framework write what comes back",
    "dry_run": "ask client.embed(..., dry_run=True) on a sample",
    "fresh": "give another `store`: every worker would begin anew, one after the other",
    "progress": "the framework tells it",
    "limit_usd": "no worker knows what the others have spent: set a limit with the provider",
    "limit_rows": "take so many rows before you embed them",
    "max_error_rate": "count the rows with an error in what comes back",
    "on_error": "a failed row never ends a batch; `on_exhausted` says what a batch without a route does",
}
log = logging.getLogger("shim")
_SCHEMES = ("redis://", "rediss://", "unix://", "${")


class BatchEmbedder:
    """Takes a batch of rows and gives it back with a column of vectors and columns that account for each row.

    `router` is a configuration as a mapping, the path of one, or a `Router`; `${VAR}` is read where the work is done.
    `column` holds the texts; the vectors come in `into`, and in columns named after it: `<into>_route`, `_model`,
    `_space`, `_call`, `_note` and `_error` (`kind: message`, null for a row that has its vector).

    `workers` is how many callers embed at the same time, in all processes together: `concurrency` (requests in flight
    on a route, by default 8 or one for each worker) and `requests_per_second` (to a route) are those of all, and each
    worker keeps to its part. With `share`, the address of a Redis (`redis://...`, `${VAR}` allowed), workers tell one
    another of rate limits and outages and divide by how many are alive. The further choices are as in `client.embed`;
    `others` are those of its choices that concern a whole job alone, and are refused.

    A failed row never ends a batch. With no route left, its rows have errors of kind `exhausted`, or
    `BatchStoppedError` is raised with `on_exhausted="raise"`. Raises ValueError and SourceError for what cannot be.
    """

    def __init__(
        self,
        router: Router | Mapping[str, object] | str | os.PathLike[str],
        *,
        column: str,
        family: str | None = None,
        into: str = "embedding",
        workers: int = 1,
        concurrency: int | None = None,
        requests_per_second: float | None = None,
        share: str | None = None,
        on_exhausted: Literal["null", "raise"] = "null",
        dimensions: int | None = None,
        input_type: Literal["document", "query", ""] = "document",
        oversize: Literal["error", "truncate", "split-mean"] = "error",
        normalise: bool = False,
        dtype: Literal["float32", "float16"] = "float32",
        batch_size: int | None = None,
        patience: float = 300.0,
        store: str | os.PathLike[str] | None = None,
        **others: Any,
    ) -> None:
        _refuse(others)
        choices = {
            "dimensions": dimensions,
            "input_type": input_type,
            "oversize": oversize,
            "normalise": normalise,
            "dtype": dtype,
            "batch_size": batch_size,
            "patience": patience,
            "store": None if store is None else os.fspath(store),
        }
        config = _configuration(router)
        found = resolved_family(config, family).family
        in_all = _check_shares(workers, concurrency, requests_per_second)
        if on_exhausted not in ("null", "raise"):
            raise ValueError(f"on_exhausted: 'null' or 'raise', not {on_exhausted!r}")
        if share is not None and not share.startswith(_SCHEMES):
            raise ValueError(f"share: an address such as 'redis://host:6379/0', not one that begins {share[:8]!r}")
        chosen = settings(**choices)
        self._width = chosen.dimensions or found.dimensions or 0
        self._dtype = chosen.dtype
        self._family = found.name
        self._spaces: dict[str, bytes] = {}
        self._has_several = found.policy.space_check and sum(route.enabled for route in found.routes) > 1
        self._has_warned = False
        self._told: dict[str, Any] = {
            "configuration": dict(config.raw),
            "family": family or found.name,
            "column": column,
            "into": into,
            "workers": workers,
            "concurrency": in_all,
            "requests_per_second": requests_per_second,
            "share": share,
            "raises": on_exhausted == "raise",
            "choices": choices,
        }

    @property
    def workers(self) -> int:
        """How many callers embed at the same time: what to give the framework as its limit."""
        return int(self._told["workers"])

    @property
    def assignment(self) -> Assignment:
        """What a worker is told."""
        return Assignment(**self._told)

    def __call__(self, batch: Any) -> Any:
        """The batch with its new columns: a pandas frame, an Arrow table, or a mapping of NumPy arrays, as it came."""
        from shim.embed.worker import worker_for

        source = opened(batch, self._told["column"], self._told["into"])
        rows = source.rows if source.rows is not None else len(batch[self._told["column"]])
        embedded = worker_for(self.assignment, self._spaces).embed(source.pieces, rows)
        return joined(batch, source, self._told["into"], embedded.vectors, embedded.account)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: configuration and choices, and the observed spaces of the family as they are known here."""
        from shim.embed.worker import known_spaces

        spaces = {**self._spaces, **known_spaces(self.assignment, self._family)}
        if self._has_several and not spaces and not self._has_warned:
            self._has_warned = True
            log.warning(
                "family %r has several routes, and its vector space was never observed here: on several machines each "
                "would set a reference of its own. Embed some rows here first, and theirs travels with the job",
                self._family,
            )
        return {**self.__dict__, "_spaces": spaces}

    # -- Spark and Dask want to know the columns in advance

    def frames(self, batches: Iterable[Any]) -> Iterator[Any]:
        """For Spark's `mapInPandas`: a frame for each frame."""
        for batch in batches:
            yield self(batch)

    def schema(self, before: Any) -> Any:
        """For Spark: the schema of the frame `before` (or of a StructType) with the new columns, vectors as
        `array<float>`. Raises SourceError for float16, which Spark does not have."""
        if self._dtype != "float32":
            raise SourceError(f"dtype: Spark has no {self._dtype}: leave it at 'float32'")
        return spark_schema(before, self._told["into"])

    def meta(self, frame: Any) -> Any:
        """For Dask: a frame without rows, with the columns of `frame` (a Dask or pandas one) and the new ones."""
        empty = getattr(frame, "_meta", frame).iloc[:0]
        vectors, account = no_rows(self._told["into"], self._width, self._dtype)
        source = opened(empty, self._told["column"], self._told["into"])
        return joined(empty, source, self._told["into"], vectors, account)

    def __repr__(self) -> str:
        told = self._told
        return (
            f"<shim batch embedder: {told['family']}, {told['column']} into {told['into']}, {told['workers']} workers>"
        )


def _configuration(router: Any) -> Config:
    """The configuration, checked; its keys may be known to the workers alone."""
    config = getattr(router, "config", None)
    if isinstance(config, Config):
        return config
    if isinstance(router, Mapping | str | os.PathLike):
        return loading.load(router)
    raise SourceError(f"router: a Router, a mapping or a path, not a {type(router).__name__}")


def _refuse(others: Mapping[str, Any]) -> None:
    for name in others:
        if name not in _OF_ONE_RUN:
            raise TypeError(f"BatchEmbedder() got an unexpected keyword argument {name!r}")
        raise ValueError(f"{name}: not for one batch of many: {_OF_ONE_RUN[name]}")


def _check_shares(workers: int, concurrency: int | None, rate: float | None) -> int:
    """The concurrency of all workers together."""
    for name, value in (("workers", workers), ("concurrency", concurrency if concurrency is not None else 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}: a whole number of at least 1, not {value!r}")
    if concurrency is not None and concurrency < workers:
        raise ValueError(
            f"concurrency: {concurrency} requests cannot be divided among {workers} workers: give at least one for each"
        )
    if rate is not None and (
        isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < float("inf")
    ):
        raise ValueError(f"requests_per_second: a number above 0, not {rate!r}")
    return concurrency or max(_LOCAL, workers)
