"""The example projects, run as their readers run them: each in its own folder, with sockets refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OFFLINE = Path(__file__).resolve().parent.parent / "examples" / "offline_tests"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("-m", "pytest", "-p", "no:cacheprovider"), id="pytest"),
        pytest.param(("-m", "pytest", "-p", "no:cacheprovider", "-n", "2"), id="pytest in two processes"),
        pytest.param(("-m", "unittest", "discover", "tests"), id="unittest"),
    ],
)
def test_the_offline_tests_pass(command: tuple[str, ...]) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "NOTES"))}
    run = subprocess.run(
        [sys.executable, *command],
        cwd=OFFLINE,
        env={**environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_offline_tests_would_see_a_missing_cassette(tmp_path: Path) -> None:
    """Their cassettes are what they replay, and nothing else: without them they fail."""
    for path in OFFLINE.rglob("*.*"):
        if path.suffix in (".py", ".toml"):
            target = tmp_path / path.relative_to(OFFLINE)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 1
    assert "5 failed, 3 passed" in run.stdout
