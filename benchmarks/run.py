"""Runs all benchmarks and writes their table: `python -m benchmarks.run [--quick] [--only NAME …] [--write FILE]`.

`--write` puts the table between the two marks in a Markdown file (`docs/benchmarks.md`); without it it is printed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from benchmarks import concurrency, datasets, embeddings, failover, imports, measure, notebook, overhead, soak, streams
from benchmarks.measure import Row

ALL: Mapping[str, Callable[[bool], list[Row]]] = {
    "imports": imports.collect,
    "overhead": overhead.collect,
    "embeddings": embeddings.collect,
    "datasets": datasets.collect,
    "concurrency": concurrency.collect,
    "failover": failover.collect,
    "streams": streams.collect,
    "soak": soak.collect,
    "notebook": notebook.collect,
}
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
_PACKAGES = ("openai", "httpx2", "httpcore2", "pydantic", "msgspec", "anyio")


def _load() -> str:
    return " ".join(f"{figure:.1f}" for figure in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} × {names[0]}" if names else platform.machine()


def _packages() -> str:
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except ModuleNotFoundError:
            continue
    return ", ".join(found)


def gathered(names: list[str], *, is_quick: bool) -> str:
    """The table of the named benchmarks, with where and when it was measured."""
    began, load = time.perf_counter(), _load()
    rows: list[Row] = []
    for name in names:
        at = time.perf_counter()
        rows += ALL[name](is_quick)
        print(f"{name}: {time.perf_counter() - at:.0f} s", file=sys.stderr, flush=True)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    took = time.perf_counter() - began
    about = (
        f"Measured {today} on {_processor()}, {platform.system()}, Python {platform.python_version()}; {_packages()}. "
        f"Load average {load} at the start, {_load()} at the end; {took:.0f} s."
    )
    return f"{about}\n\n{measure.table(rows)}"


def written(page: str, measured: str) -> str:
    """The page with what was measured between its marks."""
    if BEGIN not in page or END not in page:
        raise SystemExit(f"the page has no {BEGIN} and {END}")
    before, rest = page.split(BEGIN, 1)
    return f"{before}{BEGIN}\n\n{measured}\n\n{END}{rest.split(END, 1)[1]}"


def main(arguments: list[str] | None = None) -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only see that all run; the figures mean nothing")
    parser.add_argument("--only", nargs="+", choices=list(ALL), default=list(ALL))
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    measured = gathered(options.only, is_quick=options.quick)
    if options.write is None:
        print(measured)
    else:
        options.write.write_text(written(options.write.read_text(encoding="utf-8"), measured), encoding="utf-8")


if __name__ == "__main__":
    main()
