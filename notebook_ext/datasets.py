"""`%embed`: a variable in, a column or a variable of vectors out, by the client's own dataset job."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, MutableMapping
from typing import Any


def embed(names: MutableMapping[str, Any], arguments: Namespace) -> Any:
    """Embed the variable that `arguments` name and put the vectors where they say; returns the job.

    Raises ValueError for what cannot be: no such variable, no column, no client.
    """
    if arguments.name not in names:
        raise ValueError(f"no variable {arguments.name!r} in this notebook")
    held = names[arguments.name]
    client = client_of(names, arguments.client)
    texts = texts_of(held, arguments.name, arguments.column)
    if is_table(held):
        from shim.embed.columns import check_into

        check_into(held, arguments.column, arguments.into, has_account=False)
    job = client.embed(texts, family=arguments.family)
    if not is_table(held):
        names[arguments.into] = job.vectors
    elif hasattr(held, "with_columns"):  # polars: a frame is never changed, so the variable gets the new one
        names[arguments.name] = held.with_columns(type(held)({arguments.into: list(job.vectors)}))
    else:
        held[arguments.into] = list(job.vectors)
    return job


def client_of(names: Mapping[str, Any], name: str | None) -> Any:
    """The client that is meant: a variable, else the sync client with a router that was made last."""
    if name is not None:
        if name not in names:
            raise ValueError(f"no variable {name!r} in this notebook")
        return names[name]
    from shim import OpenAI

    found = [value for value in names.values() if isinstance(value, OpenAI) and value.router is not None]
    if not found:
        raise ValueError("no client yet: make one first, as `client = shim.OpenAI()`, or name it with --client")
    return found[-1]


def texts_of(held: Any, name: str, column: str | None) -> Any:
    """The texts of a variable."""
    if not is_table(held):
        if column is not None:
            raise ValueError(f"{name} has no columns: leave --column out")
        return held
    columns = list(map(str, held.columns))
    if column is None:
        raise ValueError(f"say --column: which of {', '.join(columns)} holds the texts")
    if column not in columns:
        raise ValueError(f"{name} has no column {column!r}; it has {', '.join(columns)}")
    return held[column]


def is_table(held: Any) -> bool:
    """Whether it has columns, as DataFrames have."""
    return hasattr(held, "columns") and hasattr(held, "__getitem__")
