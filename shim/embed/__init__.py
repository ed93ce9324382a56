"""Embeds datasets through a router: resumable, accounted for row by row. `client.embed` is the way in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shim.embed.async_job import AsyncJob as AsyncJob
    from shim.embed.distributed import BatchEmbedder as BatchEmbedder
    from shim.embed.errors import BatchStoppedError as BatchStoppedError
    from shim.embed.errors import EmbeddingStoppedError as EmbeddingStoppedError
    from shim.embed.errors import RowsFailedError as RowsFailedError
    from shim.embed.errors import ShimEmbedError as ShimEmbedError
    from shim.embed.errors import SourceError as SourceError
    from shim.embed.errors import StoreError as StoreError
    from shim.embed.errors import StoreFullError as StoreFullError
    from shim.embed.job import Job as Job
    from shim.embed.summary import Estimate as Estimate
    from shim.embed.summary import Summary as Summary

_PLACES = {
    "AsyncJob": "async_job",
    "BatchEmbedder": "distributed",
    "BatchStoppedError": "errors",
    "EmbeddingStoppedError": "errors",
    "Estimate": "summary",
    "Job": "job",
    "RowsFailedError": "errors",
    "ShimEmbedError": "errors",
    "SourceError": "errors",
    "StoreError": "errors",
    "StoreFullError": "errors",
    "Summary": "summary",
}

__all__ = [
    "AsyncJob",
    "BatchEmbedder",
    "BatchStoppedError",
    "EmbeddingStoppedError",
    "Estimate",
    "Job",
    "RowsFailedError",
    "ShimEmbedError",
    "SourceError",
    "StoreError",
    "StoreFullError",
    "Summary",
]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'shim.embed' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"shim.embed.{place}"), name)
