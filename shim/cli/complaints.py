"""What a user can do wrong, told in one sentence on stderr with exit code 2 and no traceback."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from shim.config_error import ConfigError
from shim.embed.errors import ShimEmbedError
from shim.testing.recording import CassetteError

BAD_USE = 2
"""Exit code where nothing could be asked at all; 1 is kept for an answer that is not good."""


class Complaint(Exception):
    """A mistake of the user, or something that is missing here; the text names the way out."""


class Commands(TyperGroup):
    """Lists commands in whole sentences; turns what they raise into messages, for the process and for a test runner."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; in the list of its group it is told by its whole first sentence, not by the front of it."""
        found = super().get_command(ctx, cmd_name)
        if found is not None and found.help and not found.short_help:
            found.short_help = " ".join(found.help.split("\n\n")[0].split()).partition(". ")[0].removesuffix(".") + "."
        return found

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Complaints, wrong configurations and missing packages end in exit code 2."""
        try:
            return super().invoke(ctx)
        except (Complaint, ConfigError, ShimEmbedError, CassetteError) as wrong:
            text = str(wrong)
        except ImportError as missing:  # an extra, such as PyYAML for a LiteLLM file
            text = str(missing)
        print(f"shim: {text}", file=sys.stderr)
        raise typer.Exit(BAD_USE) from None
