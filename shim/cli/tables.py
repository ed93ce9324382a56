"""How everything is printed: plain tables that fit 80 columns, in colour only on a terminal that wants it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shim.embed.summary import counted as counted

GOOD, BAD, DOUBT, QUIET = "green", "red", "yellow", "dim"
Cell = str | Text
UNBROKEN = 100_000
"""Columns: wider than any table."""


def console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is: what providers say is never read as markup, and into a pipe or a file no
    line is broken (unless $COLUMNS says how wide it is)."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else UNBROKEN
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=width)


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]] = (), *, right: Sequence[str] = ()) -> Table:
    """A table with those headings; the columns in `right` hold numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    for name in columns:
        made.add_column(name, overflow="fold", justify="right" if name in right else "left")
    for row in rows:
        made.add_row(*row)
    return made


def styled(text: str, style: str) -> Text:
    """Text in a colour; without colours it reads the same."""
    return Text(text, style=style)


def printable(text: str) -> str:
    """Text from outside on one line, without anything that could steer a terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def print_json(document: object) -> None:
    """A document of plain values and dataclasses, for machines."""
    typer.echo(json.dumps(document, indent=2, default=_plain))


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def milliseconds(seconds: float | None) -> str:
    """Whole milliseconds, "" where nothing was measured."""
    return "" if seconds is None else f"{1000 * seconds:.0f}"
