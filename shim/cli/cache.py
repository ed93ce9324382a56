"""`shim cache`: what datasets have left on this disk, whether it is sound, and how to be rid of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shim.cli import tables
from shim.cli.complaints import Commands, Complaint
from shim.cli.sources import JsonOption

if TYPE_CHECKING:
    from shim.embed.upkeep import Kept

cache: typer.Typer = typer.Typer(
    cls=Commands,
    help="Look after the vectors that datasets keep on this disk.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
StoreOption = Annotated[
    Path | None, typer.Option("--store", metavar="FOLDER", help="Where stores are; else the user's cache.")
]
NameArgument = Annotated[str, typer.Argument(help="The name of a store, or enough of its beginning.")]


def _base(store: Path | None) -> Path:
    from shim.embed.store import cache_folder

    return store if store is not None else cache_folder()


def _folder(name: str, store: Path | None) -> Path:
    from shim.embed.upkeep import named

    return named(_base(store), name)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"


def _when(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


@cache.command("ls")
def ls(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the stores: one for each vector space."""
    from shim.embed.upkeep import stores

    found = stores(_base(store))
    if as_json:
        tables.print_json([_plain(one) for one in found])
        return
    if not found:
        tables.console().print(f"No stores in {_base(store)}.")
        return
    rows = [
        (one.name, one.about, f"{one.vectors:,}", str(one.width or ""), _size(one.bytes), _when(one.used_at))
        for one in found
    ]
    headings = ("store", "space", "vectors", "length", "size", "last used (UTC)")
    tables.console().print(tables.table(headings, rows, right=("vectors", "length", "size")))


def _plain(one: Kept) -> dict[str, object]:
    return {
        "name": one.name, "folder": str(one.folder), "about": one.about, "vectors": one.vectors, "length": one.width,
        "bytes": one.bytes, "used_at": one.used_at,
    }  # fmt: skip


@cache.command("show")
def show(name: NameArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Tell who made the vectors of a store."""
    from shim.embed.upkeep import look_at, shares

    folder = _folder(name, store)
    one, made = look_at(folder), shares(folder)
    if as_json:
        tables.print_json({**_plain(one), "made_by": made})
        return
    out = tables.console()
    out.print(f"{one.name}: {one.about}")
    out.print(
        f"{tables.counted(one.vectors, 'vector')} of {one.width or 'unknown'} numbers, {_size(one.bytes)}, in {folder}"
    )
    rows = [
        (each.route, each.model, each.space, f"{each.vectors:,}", f"{each.batches:,}", f"{each.tokens:,}")
        for each in made
    ]
    headings = ("route", "model", "space", "vectors", "batches", "tokens")
    out.print(tables.table(headings, rows, right=("vectors", "batches", "tokens")))


@cache.command("verify")
def verify(name: NameArgument, store: StoreOption = None) -> None:
    """Read a whole store and tell what is wrong with it. Exit code 1 when anything is."""
    from shim.embed.upkeep import look_at, verify

    folder = _folder(name, store)
    faults = verify(folder)
    out = tables.console()
    for fault in faults:
        out.print(tables.styled(f"{fault.where}: {fault.message}", tables.BAD))
    if faults:
        out.print("What is damaged can be had again: `shim cache prune` the store and run the job anew.")
        raise typer.Exit(1)
    out.print(f"{tables.counted(look_at(folder).vectors, 'vector')}, all sound.")


@cache.command("prune")
def prune(
    names: Annotated[list[str] | None, typer.Argument(help="Stores to remove.")] = None,
    older_than: Annotated[int | None, typer.Option(min=0, metavar="DAYS", help="Those not used for so long.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    store: StoreOption = None,
) -> None:
    """Remove stores, by name or by age. Their vectors would have to be paid for again."""
    from shim.embed.upkeep import look_at, prune, stores

    chosen = [look_at(_folder(name, store)) for name in names or ()]
    if older_than is not None:
        limit = (datetime.now(UTC) - timedelta(days=older_than)).timestamp()
        chosen += [one for one in stores(_base(store)) if (one.used_at or 0) < limit and one not in chosen]
    if not names and older_than is None:
        raise Complaint("name the stores to remove, or say --older-than DAYS; `shim cache ls` lists them")
    out = tables.console()
    for one in chosen:
        if yes or typer.confirm(f"Remove {one.name} ({tables.counted(one.vectors, 'vector')}, {_size(one.bytes)})?"):
            prune(one.folder)
            out.print(f"Removed {one.name}.")
    if not chosen:
        out.print("Nothing to remove.")


@cache.command("export")
def export(
    name: NameArgument,
    out: Annotated[Path, typer.Option(help="The Parquet file to write.")],
    store: StoreOption = None,
) -> None:
    """Write a store to Parquet: key, vector, route, model, space and call of each. Texts are not kept."""
    from shim.embed.upkeep import export

    if out.suffix != ".parquet":
        raise Complaint(f"--out {out}: a .parquet file is written")
    tables.console().print(f"{tables.counted(export(_folder(name, store), out), 'vector')} written to {out}.")
