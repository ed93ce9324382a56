"""The commands, put together."""

from __future__ import annotations

import logging

import typer

from shim import __version__
from shim.cli.cache import cache
from shim.cli.cassette import cassette
from shim.cli.check import check
from shim.cli.complaints import Commands
from shim.cli.demo import demo
from shim.cli.embed import embed
from shim.cli.explain import explain
from shim.cli.init import init
from shim.cli.status import status

app: typer.Typer = typer.Typer(
    name="shim",
    cls=Commands,
    help="One client, several OpenAI-compatible providers: write a configuration, check it, see what it does.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: paragraphs flow, flags name no type, and a pipe gets no boxes
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,  # a traceback with local variables could show a key
)
for _command in (init, check, explain, status, embed, demo):
    app.command()(_command)
app.add_typer(cache, name="cache")
app.add_typer(cassette, name="cassette")


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"openai-shim {__version__}")
        raise typer.Exit


@app.callback()
def _shared(
    version: bool = typer.Option(False, "--version", callback=_tell_version, is_eager=True, help="Print the version."),
) -> None:
    # The tables tell what the log would tell; a program that wants the log adds its own handler.
    log = logging.getLogger("shim")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
