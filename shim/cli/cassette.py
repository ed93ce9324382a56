"""`shim cassette`: look at cassettes, take secrets out of them, compare them, make them of collected answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shim.cli import tables
from shim.cli.complaints import Commands, Complaint

if TYPE_CHECKING:
    from shim.testing.recording import Recording

cassette = typer.Typer(
    cls=Commands,
    help="Recorded answers for tests: look at them, scrub them, compare them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PathsArgument = Annotated[
    list[Path] | None, typer.Argument(help="Cassettes, or folders of them.", show_default="cassettes/")
]


def _found(paths: list[Path] | None) -> list[Path]:
    """The cassettes at these places; a complaint where there is none."""
    found: list[Path] = []
    places = paths or [Path("cassettes")]
    for path in places:
        if path.is_dir():
            found += sorted(path.rglob("*.yaml"))
        elif path.is_file():
            found.append(path)
        else:
            raise Complaint(f"{path}: no such cassette, and no folder of them")
    if not found:
        raise Complaint(f"{', '.join(map(str, places))}: holds no cassette (*.yaml)")
    return found


def _read(paths: list[Path]) -> Iterator[tuple[Path, dict[str, object], list[Recording]]]:
    from shim.testing import storage

    for path in paths:
        yield path, *storage.read(path)


@cassette.command("ls")
def ls(paths: PathsArgument = None) -> None:
    """List cassettes: where their answers come from, how many there are, and their statuses."""
    rows = []
    for path, metadata, recordings in _read(_found(paths)):
        who = str(metadata.get("server") or metadata.get("source") or "?")
        statuses = ", ".join(dict.fromkeys(str(one.said.status or "no answer") for one in recordings))
        size = f"{path.stat().st_size / 1024:.0f}"
        row = (str(path), tables.printable(who), str(metadata.get("recorded_at") or ""), str(len(recordings)))
        rows.append((*row, statuses, size))
    columns = ("cassette", "from", "on", "exchanges", "statuses", "KiB")
    tables.console().print(tables.table(columns, rows, right=("exchanges", "KiB")))


@cassette.command("show")
def show(
    path: Annotated[Path, typer.Argument(help="One cassette.")],
    number: Annotated[int | None, typer.Argument(min=1, help="One of its exchanges alone, whole.")] = None,
) -> None:
    """Show the exchanges of a cassette in their order; with a number one of them, whole."""
    from shim.cli import cassette_view

    for _, metadata, recordings in _read(_found([path])):
        if number is None:
            cassette_view.show_all(path, metadata, recordings)
        elif number > len(recordings):
            raise Complaint(f"{path}: has {tables.counted(len(recordings), 'exchange')}, there is no number {number}")
        else:
            cassette_view.show_one(recordings[number - 1])


@cassette.command("scrub")
def scrub(
    paths: PathsArgument = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 where there is a finding.")
    ] = False,
    secret: Annotated[
        list[str] | None, typer.Option("--secret-variable", help="Mask the value of this environment variable too.")
    ] = None,
) -> None:
    """Take keys, cookies, organisations and telling request ids out of cassettes. Names what it finds."""
    import os

    from shim.testing import storage
    from shim.testing.scrubbing import Scrubber, secrets_in

    missing = [name for name in secret or () if not os.environ.get(name)]
    if missing:
        raise Complaint(f"--secret-variable {missing[0]}: is not set, so nothing could be masked")
    scrubber = Scrubber({*secrets_in(os.environ), *(os.environ[name] for name in secret or ())})
    out, total, places = tables.console(), 0, _found(paths)
    for path, metadata, recordings in _read(places):
        done = [scrubber.scrub(one) for one in recordings]
        findings = [f"{path}: {n}. {one}" for n, (_, found) in enumerate(done, start=1) for one in found]
        for line in dict.fromkeys(findings):
            out.print(line, soft_wrap=True)
        total += len(findings)
        clean = [recording for recording, _ in done]
        if not check and clean != recordings:
            storage.write(path, metadata, clean)
    verb = "found" if check else "taken out"
    found = f"{tables.counted(total, 'finding')} {verb}" if total else "no findings"
    out.print(f"{tables.counted(len(places), 'cassette')}, {found}")
    if check and total:
        raise typer.Exit(1)


@cassette.command("diff")
def diff(
    first: Annotated[Path, typer.Argument(help="A cassette.")],
    second: Annotated[Path, typer.Argument(help="Another one.")],
    across_servers: Annotated[
        bool, typer.Option(help="Compare what different servers said: leave hosts and models out.")
    ] = False,
) -> None:
    """Tell what differs between two cassettes: requests, statuses, headers, bodies. Exit code 1 if anything does."""
    from shim.testing.comparing import compared

    sides = [recordings for _, _, recordings in _read([*_found([first]), *_found([second])])]
    if len(sides) != 2:
        raise Complaint("diff: takes two cassettes, not folders")
    lines = compared(*sides, across_servers=across_servers)
    for line in lines:
        tables.console().print(tables.printable(line), soft_wrap=True)
    if lines:
        raise typer.Exit(1)
    tables.console().print("They say the same.")


@cassette.command("from-corpus")
def from_corpus(
    paths: Annotated[list[Path], typer.Argument(help="Collected answers (JSON), or folders of them.")],
    into: Annotated[Path, typer.Option(help="Where the cassettes go, a folder for each provider.")] = Path("cassettes"),
) -> None:
    """Make cassettes of answers that were collected elsewhere, one JSON file each. Secrets are taken out."""
    from shim.testing.corpus import convert

    found = [file for path in paths for file in (sorted(path.rglob("*.json")) if path.is_dir() else [path])]
    if not found:
        raise Complaint(f"{', '.join(map(str, paths))}: holds no collected answer (*.json)")
    for path in found:
        convert(path, into)
    tables.console().print(f"{tables.counted(len(found), 'cassette')} written to {into}")
