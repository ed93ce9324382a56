"""How the command line tells of itself, and what a pipe gets of its tables."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.places import run

COMMANDS = [(), ("init",), ("check",), ("explain",), ("status",), ("embed",), ("demo",), ("cache",), ("cache", "prune")]
COMMANDS += [("cassette",), ("cassette", "scrub")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words) or "shim")
def test_help_flows_and_gives_no_type_to_a_flag(command: tuple[str, ...], place: Path) -> None:
    code, out, _ = run(*command, "-h")
    assert code == 0
    assert out == run(*command, "--help")[1]
    assert "-h, --help" in out
    assert "<bool>" not in out
    assert "..." not in out.replace("[ARGS]...", "").replace("s]...", "").replace("s... ", "")
    lines = [line for line in out.partition("Options:")[0].splitlines()[1:] if line.startswith("  ")]
    for line, following in pairwise(lines):
        assert len(line) + 1 + len(following.split()[0]) > 72 or line.endswith((".", "]")), line


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "shim", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("openai-shim ")


def test_no_name_is_broken_in_a_pipe(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    long = "a-model-with-a-name-that-is-longer-than-any-column-of-a-terminal-of-eighty-columns-would-be"
    (place / "shim.toml").write_text(
        '[providers.lab]\nbase_url = "http://127.0.0.1:9/v1"\n'
        f'[families.fast]\nkind = "chat"\nroutes = ["lab/{long}"]\n'
    )
    for command in (("status",), ("explain", "fast")):
        assert f"lab/{long}" in run(*command)[1]
