"""`shim check`: each route is asked for real, and a table tells what came of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from shim.cli import tables
from shim.cli.complaints import Complaint
from shim.cli.sources import ConfigOption, JsonOption, config_at

if TYPE_CHECKING:
    from shim.cli.probing import Checked


def check(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for each route, its space check included.")] = 15.0,
    chat: Annotated[bool, typer.Option("--chat/--no-chat", help="Also ask chat routes, for one token each.")] = True,
) -> None:
    """Ask each route of each family for real: reachable, key accepted, dimension, vector space.

    It costs a few tokens a route: one short text for embeddings (and a few hundred for the probe texts of the space
    check, the first time), one token for chat. What the space check finds is kept, so later calls need not repeat it.
    Each key of a provider is tried. Exit code 0: all good; 1: some route is not; 2: nothing could be checked.
    """
    found = config_at(config)
    if not any(family.routes for family in found.families.values()):
        raise Complaint(f"{found.source}: there is no family to check; add one, such as [families.bge-m3]")
    from shim.cli.probing import Asking, check_all  # late: it brings the official client

    with tables.console(stderr=True).status("Asking each route ..."):
        lines = check_all(Asking(found, timeout, chat))
    if as_json:
        tables.print_json({"source": found.source, "routes": [asdict(line) for line in lines]})
    else:
        _show(found.source, lines)
    if any(line.is_good is False for line in lines):
        raise typer.Exit(1)


def _show(source: str, lines: list[Checked]) -> None:
    out = tables.console()
    out.print(f"Configuration: {source}")
    for family in dict.fromkeys(line.family for line in lines):
        of_family = [line for line in lines if line.family == family]
        out.print()
        out.print(tables.styled(f"{of_family[0].kind} family {family}", "bold"))
        columns = ("route", "good", "reach", "key", "dim", "space", "ms")
        out.print(tables.table(columns, [_row(line) for line in of_family], right=("dim", "ms")))
        for line in of_family:
            if line.words:
                out.print(tables.styled(f"  {_named(line)}: {line.words}", _colour(line.is_good)))
    out.print()
    out.print(_summary(lines))


def _row(line: Checked) -> tuple[tables.Cell, ...]:
    return (
        line.route,
        _yes(line.is_good),
        _yes(line.is_reachable),
        _key(line),
        "" if line.dimensions is None else str(line.dimensions),
        line.space + ("" if line.noise is None or line.space == "reference" else f" {line.noise:.2g}"),
        tables.milliseconds(line.seconds),
    )


def _yes(claim: bool | None) -> tables.Cell:
    return (
        tables.styled("-", tables.QUIET) if claim is None else tables.styled("yes" if claim else "NO", _colour(claim))
    )


def _key(line: Checked) -> tables.Cell:
    if not line.key:
        return tables.styled("-", tables.QUIET)
    if line.is_key_accepted is None:
        return f"{line.key} ?"
    word = "ok" if line.is_key_accepted else "REFUSED"
    return tables.styled(f"{line.key} {word}", _colour(line.is_key_accepted))


def _colour(claim: bool | None) -> str:
    return tables.QUIET if claim is None else tables.GOOD if claim else tables.BAD


def _named(line: Checked) -> str:
    return f"{line.route} ({line.key})" if line.key else line.route


def _summary(lines: list[Checked]) -> str:
    bad = sum(line.is_good is False for line in lines)
    asked = sum(line.is_good is not None for line in lines)
    tokens = sum(line.tokens for line in lines)
    verdict = "all good" if not bad else f"{bad} not good"
    left = len(lines) - asked
    return f"{asked} checked, {verdict}{f', {left} left out' if left else ''}; {tables.counted(tokens, 'token')} spent."
