"""`shim embed FILE`: a whole column of a file, resumable, with a line for every row that failed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from shim.cli import tables
from shim.cli.complaints import Complaint
from shim.cli.sources import ConfigOption, JsonOption, config_at

if TYPE_CHECKING:
    from shim.embed import Estimate, Job

DONE, STOPPED, WITH_FAILED_ROWS, AT_A_LIMIT, INTERRUPTED = 0, 1, 3, 4, 130
_SHOWN_ERRORS = 10


def embed(
    file: Annotated[Path, typer.Argument(help="A .parquet, .arrow, .csv, .tsv, .jsonl or .txt file.")],
    column: Annotated[str | None, typer.Option(help="The column of texts; needed where there are several.")] = None,
    family: Annotated[str | None, typer.Option(help="The embedding family; else the default one.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write here: .parquet, .arrow, .jsonl or .npy.")] = None,
    into: Annotated[str, typer.Option(help="The name of the new column.")] = "embedding",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and send nothing.")] = False,
    oversize: Annotated[
        Literal["error", "truncate", "split-mean"], typer.Option(help="What happens to a text that is too long.")
    ] = "error",
    input_type: Annotated[Literal["document", "query"], typer.Option(help="What the texts are.")] = "document",
    dimensions: Annotated[int | None, typer.Option(min=1, help="Shorter vectors, where the family can.")] = None,
    dtype: Annotated[Literal["float32", "float16"], typer.Option(help="How vectors are written.")] = "float32",
    on_error: Annotated[
        Literal["null", "raise"], typer.Option(help="Whether failed rows become nulls or an error at the end.")
    ] = "null",
    max_error_rate: Annotated[float | None, typer.Option(min=0, max=1, help="Stop when more rows fail.")] = None,
    limit_usd: Annotated[float | None, typer.Option(min=0, help="Stop before more than this is spent.")] = None,
    limit_rows: Annotated[int | None, typer.Option(min=1, help="Embed at most so many rows in this run.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Texts in a request, at most.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight on a route, at most.")] = 8,
    patience: Annotated[
        float,
        typer.Option(
            min=0,
            help="Seconds without progress before it gives up; what a provider tells, up to an hour, is waited for.",
        ),
    ] = 300.0,
    store: Annotated[Path | None, typer.Option(help="Where vectors are kept; else the user's cache.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh/--resume", help="Begin anew instead of going on from what is kept.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Embed a column of a file. What is done is kept: run it again and it goes on from there.

    Exit code 0 done, 3 done with failed rows, 4 stopped at a limit, 130 interrupted with everything kept, 1 stopped
    because no route was left or the disk is full.
    """
    if out is None and not dry_run:
        raise Complaint("--out FILE is needed: where should the vectors go? (or --dry-run)")
    choices = {
        "family": family, "column": column, "into": into, "out": out, "dry_run": dry_run, "oversize": oversize,
        "input_type": input_type, "dimensions": dimensions, "dtype": dtype, "on_error": on_error,
        "max_error_rate": max_error_rate, "limit_usd": limit_usd, "limit_rows": limit_rows, "batch_size": batch_size,
        "concurrency": concurrency, "patience": patience, "store": store, "fresh": fresh,
    }  # fmt: skip
    found = _run(config_at(config), file, choices)
    if dry_run:
        _show_estimate(found, as_json)
        return
    _show_job(found, out, as_json)
    summary = found.summary()
    if summary.state == "stopped":
        raise typer.Exit(AT_A_LIMIT)
    raise typer.Exit(WITH_FAILED_ROWS if summary.failed else DONE)


def _run(config: Any, file: Path, choices: dict[str, Any]) -> Any:
    from shim import OpenAI, Router
    from shim.embed import EmbeddingStoppedError, RowsFailedError, StoreFullError
    from shim.embed.bar import WaitsTold, is_watched

    try:
        with OpenAI(router=Router(config)) as client:
            return client.embed(file, **choices, progress=None if is_watched() else WaitsTold(sys.stderr))
    except RowsFailedError as error:
        tables.console(stderr=True).print(str(error))
        raise typer.Exit(WITH_FAILED_ROWS) from None
    except EmbeddingStoppedError as error:
        tables.console(stderr=True).print(str(error))
        raise typer.Exit(AT_A_LIMIT if error.job.stopped_by == "too many rows failed" else STOPPED) from None
    except StoreFullError as error:
        tables.console(stderr=True).print(str(error))
        raise typer.Exit(STOPPED) from None
    except ValueError as error:  # an argument; SourceError is one as well
        raise Complaint(str(error)) from None
    except KeyboardInterrupt as interrupt:
        tables.console(stderr=True).print(str(interrupt) or "interrupted; run it again to go on")
        raise typer.Exit(INTERRUPTED) from None


def _show_estimate(estimate: Estimate, as_json: bool) -> None:
    if as_json:
        tables.print_json(estimate)
        return
    out = tables.console()
    out.print(f"Nothing was sent. Embedding this with family {estimate.family} takes:")
    facts = [
        ("rows", f"{estimate.rows:,}"),
        ("of them bad", f"{estimate.bad:,}{_kinds(estimate.errors, ' (', ')')}"),
        ("duplicates", f"{estimate.duplicates:,}"),
        ("kept already", f"{estimate.cached:,}"),
        ("too long", f"{estimate.oversize:,}"),
        ("texts to embed", f"{estimate.to_embed:,}"),
        ("tokens", f"{estimate.tokens:,} ({estimate.tokens_are})"),
    ]
    for name, value in facts:
        out.print(f"  {name:<15} {value}")
    for why in estimate.reasons:
        out.print(tables.styled(f"  {tables.printable(why)}", tables.DOUBT))
    out.print()
    routes = [
        (name, f"{one.requests:,}", "unknown" if one.cost is None else f"${one.cost:,.4f}", _time(one.seconds))
        for name, one in estimate.routes.items()
    ]
    out.print(tables.table(("all of it on route", "requests", "cost", "time"), routes, right=("requests", "cost")))
    for source in dict.fromkeys(one.price_source for one in estimate.routes.values() if one.price_source):
        out.print(tables.styled(f"Prices: {source}", tables.QUIET))


def _kinds(errors: Mapping[str, int], before: str = ": ", after: str = "") -> str:
    return before + ", ".join(f"{count:,} {kind}" for kind, count in errors.items()) + after if errors else ""


def _time(seconds: float | None) -> str:
    return "unknown until a call was made" if seconds is None else f"about {seconds:,.0f} s"


def _show_job(job: Job, path: Path | None, as_json: bool) -> None:
    summary = job.summary()
    if as_json:
        tables.print_json(summary)
        return
    out = tables.console()
    money = "" if summary.cost is None else f", ${summary.cost:,.4f}"
    out.print(
        f"{summary.done:,} of {summary.rows:,} rows have their vector ({summary.cached:,} kept from before, "
        f"{tables.counted(summary.duplicates, 'duplicate')}), in {tables.counted(summary.requests, 'request')} and "
        f"{summary.seconds:.1f} s{money}"
    )
    if len(summary.shares) > 1:
        shares = [(route, f"{share:.1%}") for route, share in summary.shares.items()]
        out.print(tables.table(("route", "share"), shares, right=("share",)))
    if summary.failed:
        out.print(
            tables.styled(f"{tables.counted(summary.failed, 'row')} failed{_kinds(summary.errors)}", tables.DOUBT)
        )
        _show_errors(job)
    if summary.not_reached:
        was = "was" if summary.not_reached == 1 else "were"
        out.print(tables.styled(f"{tables.counted(summary.not_reached, 'row')} {was} not reached", tables.DOUBT))
    if summary.message:
        out.print(tables.styled(summary.message, tables.DOUBT))
    out.print(f"Written: {path}")


def _show_errors(job: Job) -> None:
    """The first failed rows. A .npy file keeps none."""
    try:
        columns = job.errors.to_dict("list") if hasattr(job.errors, "to_dict") else job.errors.to_pydict()
    except RuntimeError:
        return
    rows = list(zip(columns["index"], columns["kind"], columns["message"], strict=True))
    shown = [(str(row), str(kind), tables.printable(str(message))) for row, kind, message in rows[:_SHOWN_ERRORS]]
    tables.console().print(tables.table(("row", "kind", "why"), shown, right=("row",)))
    if len(rows) > len(shown):
        tables.console().print(tables.styled(f"... and {len(rows) - len(shown):,} more in the file", tables.QUIET))
