"""Makes what a suite runs in: a virtual environment with one openai version, and the tests of its source release."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.official.selection import requirements


@dataclass(frozen=True, slots=True)
class Place:
    """Where one openai version's suite runs: the interpreter and the unpacked source release."""

    version: str
    python: Path
    root: Path


def prepare(version: str, home: Path, package: Path | None) -> Place:
    """Make or reuse `home`; `package` is installed editable beside openai unless it is None.

    Raises:
        subprocess.CalledProcessError: pip could not install or download something; its own words are on stderr.
    """
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = [*requirements(version), *(("-e", str(package)) if package else ())]
    stamp = home / "official-suite.stamp"
    mark = _mark(wanted, package)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != mark:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        _pip(python, "install", *wanted)
        stamp.write_text(mark, encoding="utf-8")
    root = home / "suite" / f"openai-{version}"
    if not (root / "tests").is_dir():
        _download(version, python, root.parent)
    return Place(version, python, root)


def _mark(wanted: list[str], package: Path | None) -> str:
    text = "\n".join([sys.version, *wanted])
    if package:
        text += (package / "pyproject.toml").read_text(encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", arguments[0], "-qq", "--disable-pip-version-check", *arguments[1:]]
    subprocess.run(command, check=True)


def _download(version: str, python: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _pip(python, "download", "--no-deps", "--no-binary", "openai", "-d", str(folder), f"openai=={version}")
    with tarfile.open(folder / f"openai-{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
