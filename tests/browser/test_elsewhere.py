"""The panel in the other places where people work: Notebook 7 and marimo."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.browser.cells import LOAD, STAGE
from tests.browser.lab import Notebook, serve

BEAT = "for _ in range(5): ask()"


def test_in_notebook_7(page: Any, tmp_path: Path) -> None:
    pytest.importorskip("notebook")
    with serve(tmp_path, app="notebook") as server:
        notebook = Notebook(page, server, server.notebook("seven.ipynb", [STAGE, LOAD, BEAT]))
        page.locator(".jp-Toolbar-kernelName", has_text="ipykernel").wait_for()
        page.wait_for_timeout(2000)  # it shows the kernel's name a moment before it may run a cell
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        notebook.panel.wait_for()
        page.locator(".shim-panel").get_by_text("5 answers").wait_for()
        page.get_by_role("button", name="Switch off two in fast").click()

        page.locator(".shim-panel").get_by_text("off by hand").wait_for()


MARIMO = """
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import notebook_ext
{stage}
    panel = mo.ui.anywidget(notebook_ext.panel(client, mode="widget"))
    def later():
        time.sleep(1.0)
        for _ in range(5):
            ask()
    threading.Thread(target=later, daemon=True).start()
    panel
    return


if __name__ == "__main__":
    app.run()
"""


def test_in_marimo(page: Any, tmp_path: Path) -> None:
    pytest.importorskip("marimo")
    stage = "\n".join(f"    {line}" for line in STAGE.splitlines())
    (tmp_path / "app.py").write_text(MARIMO.format(stage=stage))
    with marimo(tmp_path / "app.py") as url:
        page.goto(url)
        page.locator(".shim-panel").wait_for(timeout=60_000)
        page.locator(".shim-panel").get_by_text("5 answers").wait_for()
        page.get_by_role("button", name="Pin two in fast").click()

        page.locator(".shim-panel").get_by_text("pinned to two/small").wait_for()


@contextmanager
def marimo(path: Path) -> Iterator[str]:
    """The app behind marimo's own server, until the end of the block."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["run", str(path), "--headless", "--no-token", "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(path.parent), "SHIM_CACHE_DIR": ""}
    process = subprocess.Popen(
        [sys.executable, "-m", "marimo", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            with suppress(OSError):
                urllib.request.urlopen(url, timeout=1).read()
                break
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(15)
