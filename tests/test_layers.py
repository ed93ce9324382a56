"""The contracts on imports hold, and a planted violation breaks them by name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("importlinter")

ROOT = Path(__file__).resolve().parent.parent
PLANTED = {
    "shim/_core/order.py": ("import time", "shim._core is pure", "time and chance come from"),
    "shim/_core/budget.py": ("from shim._run import board", "imports point down", ""),
    "shim/_run/bus.py": ("import openai", "openai is imported by", ""),
    "shim/router.py": ("import httpx2", "httpx, httpx2 and anyio", ""),
    "shim/embeddings.py": ("import numpy", "numpy is needed by", ""),
    "shim/served.py": ("import notebook_ext", "shim works without the notebook", ""),
    "notebook_ext/fold.py": ("from shim._run import board", "notebook_ext knows the public parts", ""),
    "shim/forgotten.py": ("import json", "imports point down", ""),
}


def lint(root: Path) -> tuple[int, str]:
    """Exit code and output of import-linter on a checkout."""
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout + run.stderr


def test_they_hold_as_the_code_is() -> None:
    code, out = lint(ROOT)

    assert code == 0, out


def test_what_is_planted_is_named(tmp_path: Path) -> None:
    """One copy with every violation planted: each breaks the contract that forbids it."""
    for package in ("shim", "notebook_ext"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, (line, *_) in PLANTED.items():
        path = tmp_path / name
        path.write_text((path.read_text() if path.exists() else "") + f"\n{line}\n")

    code, out = lint(tmp_path)

    assert code == 1, out
    broken = [line for line in out.splitlines() if " BROKEN" in line]
    for name, (_, *contracts) in PLANTED.items():
        for contract in filter(None, contracts):
            assert any(line.startswith(contract) for line in broken), f"{name}: {out}"
