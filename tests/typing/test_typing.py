"""Type checkers see the official types through our clients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("api.py")
ROOT = FILE.parent.parent.parent


@pytest.mark.parametrize(
    "checker",
    [["mypy", "--strict", "--no-incremental"], ["pyright", "--pythonpath", sys.executable]],
    ids=["mypy", "pyright"],
)
def test_the_types_of_the_public_api(checker: list[str]) -> None:
    """Also red when an error that is expected no longer comes: unused ignores are errors under --strict."""
    told = subprocess.run(
        [sys.executable, "-m", *checker, str(FILE)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
