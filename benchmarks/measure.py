"""Measures sides of a comparison in turns, and writes what came of it as rows of a table.

CPU is the process's user and system time: a busy machine disturbs it far less than the clock on the wall. The sides
take turns in short blocks, each block first in every other round, so that what slows one slows the other.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

Block = Callable[[], int]
"""Does some work and returns how many operations it was."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds for one operation, one figure for each round."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `met` is None where there is no target."""

    group: str
    what: str
    bare: str
    ours: str
    result: str
    target: str = ""
    met: str | None = None
    note: str = ""


def in_turns(sides: Mapping[str, Block], rounds: int, *, warm: int = 1) -> dict[str, Samples]:
    """Samples of every side. `warm` blocks of each are run and forgotten first."""
    found = {name: Samples() for name in sides}
    names = list(sides)
    for number in range(-warm, rounds):
        for name in names if number % 2 == 0 else reversed(names):
            gc.collect()
            cpu, wall = time.process_time(), time.perf_counter()
            done = sides[name]()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if number >= 0:
                found[name].cpu.append(cpu / done)
                found[name].wall.append(wall / done)
    return found


def quartiles(values: Iterable[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    ordered = sorted(values)
    if len(ordered) < 2:
        return ordered[0], ordered[0], ordered[0]
    low, middle, high = statistics.quantiles(ordered, n=4, method="inclusive")
    return low, middle, high


def judged(figures: Iterable[float], limit: float, *, at_least: bool = False) -> str:
    """`yes` when all figures keep the target, `no` when none does, `unclear` when noise decides."""
    kept = [figure >= limit if at_least else figure <= limit for figure in figures]
    return "yes" if all(kept) else "unclear" if any(kept) else "no"


def amounts(values: list[float], scale: float, unit: str) -> str:
    """Minimum and median."""
    low, middle = min(values) * scale, statistics.median(values) * scale
    digits = 0 if low >= 100 else 1 if low >= 10 else 2
    return f"{low:.{digits}f} / {middle:.{digits}f} {unit}"


def difference(group: str, what: str, bare: Samples, ours: Samples, limit: float | None, per: str = "call") -> Row:
    """CPU microseconds that ours costs more. `limit` in microseconds."""
    of_minima = (min(ours.cpu) - min(bare.cpu)) * 1e6
    low, middle, high = (1e6 * value for value in quartiles(b - a for a, b in zip(bare.cpu, ours.cpu, strict=True)))
    return Row(
        group,
        what,
        amounts(bare.cpu, 1e6, "us"),
        amounts(ours.cpu, 1e6, "us"),
        f"{of_minima:+.1f} / {middle:+.1f} us a {per} ({_ratios(bare.cpu, ours.cpu)[0]:.3f} times)",
        f"at most {limit:g} us" if limit is not None else "",
        None if limit is None else judged((of_minima, middle), limit),
        f"half of the rounds within {low:+.0f} to {high:+.0f} us",
    )


def _ratios(bare: list[float], ours: list[float]) -> tuple[float, float, float, float]:
    """Ours over bare: of the minima, then lower quartile, median, upper quartile of the rounds."""
    return min(ours) / min(bare), *quartiles(b / a for a, b in zip(bare, ours, strict=True))


def ratio(
    group: str, what: str, bare: Samples, ours: Samples, limit: float | None, unit: tuple[float, str] = (1e6, "us")
) -> Row:
    """How many times the CPU of bare ours takes; at most `limit`. The wall ratio stands in the note."""
    of_minima, low, middle, high = _ratios(bare.cpu, ours.cpu)
    wall = _ratios(bare.wall, ours.wall)
    return Row(
        group,
        what,
        amounts(bare.cpu, *unit),
        amounts(ours.cpu, *unit),
        f"{of_minima:.3f} / {middle:.3f} times the CPU",
        f"at most {limit:g} times" if limit is not None else "",
        None if limit is None else judged((of_minima, middle), limit),
        f"half of the rounds within {low:.2f} to {high:.2f}; wall {wall[0]:.2f} / {wall[2]:.2f}",
    )


def faster(
    group: str, what: str, bare: Samples, ours: Samples, limit: float, unit: tuple[float, str] = (1e3, "ms")
) -> Row:
    """How many times faster ours is, by CPU; at least `limit`."""
    of_minima, low, middle, high = _ratios(ours.cpu, bare.cpu)
    wall = _ratios(ours.wall, bare.wall)
    return Row(
        group,
        what,
        amounts(bare.cpu, *unit),
        amounts(ours.cpu, *unit),
        f"{of_minima:.2f} / {middle:.2f} times as fast",
        f"over {limit:g} times",
        judged((of_minima, middle), limit, at_least=True),
        f"half of the rounds within {low:.2f} to {high:.2f}; wall {wall[0]:.2f} / {wall[2]:.2f}",
    )


def table(rows: Iterable[Row]) -> str:
    """The rows in Markdown."""
    lines = [
        "| what | official client | shim | result | target | met | noise, notes |",
        "|---|---|---|---|---|---|---|",
    ]
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            lines.append(f"| **{group}** | | | | | | |")
        cells = (row.what, row.bare, row.ours, row.result, row.target, row.met or "", row.note)
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines)


def main(collect: Callable[[bool], list[Row]], description: str | None) -> None:
    """A benchmark as a program: prints its rows."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="only see that it runs; the figures mean nothing")
    print(table(collect(parser.parse_args().quick)))
