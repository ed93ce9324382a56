"""The command line: `shim init`, `check`, `explain`, `status`, `embed`, `cache` and `demo`."""

from __future__ import annotations


def main() -> None:
    """Run the command line and leave the process: 0 all well, 1 something is not, 2 it could not be asked."""
    from shim.cli.app import app

    app(prog_name="shim")
