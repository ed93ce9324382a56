"""`shim init`: writes a commented configuration for the providers whose keys lie in the environment, after asking."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from shim.cli import tables
from shim.cli.complaints import Complaint
from shim.cli.first_config import Found, found_providers, toml_for
from shim.local.models import WORDLLAMA

PathOption = Annotated[Path, typer.Option("--path", "--config", metavar="PATH", help="The file to write.")]


def init(
    path: PathOption = Path("shim.toml"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Use every provider found, without asking.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a commented shim.toml from the keys found in the environment.

    Only the names of variables are looked at and written, never a key. Nothing is sent.
    """
    if path.suffix.lower() != ".toml" or path.name == "pyproject.toml":
        raise Complaint(f"{path}: init writes a TOML file of its own; name one such as shim.toml with --path")
    if path.exists() and not force:
        raise Complaint(f"{path} exists already: pass --force to overwrite it, or --path for another file")
    found = found_providers(os.environ)
    if not any(one.is_usable for one in found) and not WORDLLAMA.is_installed:
        raise Complaint(
            "no key of a known provider is set: set one, such as OPENAI_API_KEY or OPENROUTER_API_KEY, "
            "or install the local model with pip install 'openai-shim[local]'"
        )
    chosen = _chosen(found, yes)
    if not chosen and not WORDLLAMA.is_installed:
        raise Complaint("no provider was chosen, so nothing was written")
    lacking = [one for one in found if not one.is_usable]
    _write(path, toml_for(chosen, lacking, with_local=WORDLLAMA.is_installed))
    _tell(path, chosen)


def _chosen(found: list[Found], take_all: bool) -> list[Found]:
    """Those that the user wants, asked one by one. Providers that share a key are asked for together."""
    chosen: list[Found] = []
    answers: dict[str, bool] = {}
    for one in found:
        if not one.is_usable:
            typer.echo(f"{one.name}: {one.variable} is set, but {one.lacks}; it is left out.")
            continue
        if one.variable not in answers:
            names = " and ".join(other.name for other in found if other.variable == one.variable and other.is_usable)
            answers[one.variable] = take_all or _confirm(f"{one.variable} is set. Use {names}?")
        if answers[one.variable]:
            chosen.append(one)
    return chosen


def _confirm(question: str) -> bool:
    try:
        return typer.confirm(question, default=True)
    except typer.Abort:
        raise Complaint("there was no answer, so nothing was written: answer, or pass --yes to use all") from None


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Complaint(f"{path}: cannot be written ({error.strerror}); name another file with --path") from None


def _tell(path: Path, chosen: list[Found]) -> None:
    out = tables.console()
    names = [one.name for one in chosen] + (["local"] if WORDLLAMA.is_installed else [])
    if not chosen:
        out.print("No key of a known provider is in use (looked for OPENAI_API_KEY, OPENROUTER_API_KEY and the like).")
    out.print(f"Wrote {path} with {len(names)} provider{'s' if len(names) != 1 else ''}: {', '.join(names) or 'none'}.")
    where = "" if path == Path("shim.toml") else f" --config {path}"
    out.print(f"Next: read it, then `shim check{where}`; `from shim import OpenAI` finds ./shim.toml by itself.")
    if where:
        out.print(f"For another place: export SHIM_CONFIG={path}, or OpenAI(router={str(path)!r}).")
