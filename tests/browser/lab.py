"""A Jupyter server on loopback, and a page on it driven as a person would."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

_CLUTTER = '{"fetchNews":"false","checkForUpdates":false}'
_KERNEL = """() => {
  const app = window.jupyterapp;
  if (!app) return !!document.querySelector(".jp-Notebook .jp-Cell");
  const session = app.shell.currentWidget?.context?.sessionContext?.session;
  return session?.kernel?.status === "idle";
}"""
_EXECUTE = """async (code) => {
  const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
  const future = kernel.requestExecute({ code, store_history: false });
  let out = "";
  future.onIOPub = (message) => {
    if (message.header.msg_type === "stream") out += message.content.text;
    if (message.header.msg_type === "error") out += message.content.ename + ": " + message.content.evalue;
  };
  await Promise.race([future.done, new Promise((done) => setTimeout(done, 30000)).then(() => { out += "[no end]"; })]);
  return out;
}"""


@dataclass(slots=True)
class Server:
    """A running server: its address, and the folder with its notebooks."""

    url: str
    root: Path
    app: str

    def notebook(self, name: str, cells: Sequence[str]) -> str:
        """Writes a notebook; returns its name."""
        made = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        )
        nbformat.write(made, self.root / name)
        return name

    def saved(self, name: str) -> Any:
        """The notebook as it lies on disk."""
        return nbformat.read(self.root / name, as_version=4)


@contextlib.contextmanager
def serve(root: Path, app: str = "lab", python: str = sys.executable) -> Iterator[Server]:
    """A server until the end of the block. Nothing of the user's own Jupyter is read or written."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base, notebooks = root / "jupyter", root / "notebooks"
    settings = base / "settings" / "@jupyterlab" / "apputils-extension"
    for folder in (notebooks, settings):
        folder.mkdir(parents=True, exist_ok=True)
    (settings / "notification.jupyterlab-settings").write_text(_CLUTTER)
    log = (base / "server.log").open("wb")
    process = subprocess.Popen(
        [python, "-m", "jupyter", app, *_arguments(port, notebooks)],
        env={**os.environ, **_places(base)},
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_end_with_parent if sys.platform == "linux" else None,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _await(process, url, base / "server.log")
        yield Server(url, notebooks, app)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def _arguments(port: int, root: Path) -> list[str]:
    return [
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        "--ServerApp.password=",
        "--ServerApp.disable_check_xsrf=True",
        f"--ServerApp.root_dir={root}",
        "--ServerApp.terminals_enabled=False",
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]


def _places(base: Path) -> dict[str, str]:
    return {
        "JUPYTER_CONFIG_DIR": str(base / "config"),
        "JUPYTER_DATA_DIR": str(base / "data"),
        "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(base / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(base / "workspaces"),
        "IPYTHONDIR": str(base / "ipython"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "SHIM_CACHE_DIR": str(base / "shim"),
    }


def _end_with_parent() -> None:
    """Linux: the server ends when the tests do, however they end (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended:\n{log.read_text()[-3000:]}")
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{url}/api/status", timeout=1).read()
            return
        time.sleep(0.1)
    raise TimeoutError(f"no server after 60 s:\n{log.read_text()[-3000:]}")


class Notebook:
    """A notebook that is open in a page."""

    def __init__(self, page: Any, server: Server, name: str) -> None:
        self.page = page
        self.server = server
        self.name = name
        path = f"doc/tree/{name}?reset" if server.app == "lab" else f"notebooks/{name}"
        self._open(f"{server.url}/{path}")

    def _open(self, url: str) -> None:
        """A server that has just been installed compiles itself as it starts: what is not there in time is asked for
        once more."""
        late: Any = importlib.import_module("playwright.sync_api").TimeoutError
        try:
            self._wait_for(url)
        except late:
            self._wait_for(url)

    def _wait_for(self, url: str) -> None:
        self.page.goto(url, timeout=60_000)
        self.page.wait_for_selector(".jp-Notebook", timeout=60_000)
        self.page.wait_for_function(_KERNEL, timeout=60_000)

    @property
    def panel(self) -> Any:
        """The live panel."""
        return self.page.locator(".shim-panel").first

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """A command of JupyterLab, to its end."""
        return self.page.evaluate(
            "([name, given]) => window.jupyterapp.commands.execute(name, given || {})", [name, arguments]
        )

    def run_all(self, *, wait: bool = True) -> None:
        """Run every cell; without `wait` only ask for it."""
        if wait:
            self.command("notebook:run-all-cells")
        else:
            self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def wait_until_idle(self) -> None:
        """Until the kernel has nothing to do, and no longer turns away what comes right after a failed cell."""
        self.page.wait_for_function(_KERNEL, timeout=30_000)
        self.page.wait_for_timeout(500)

    def execute(self, code: str) -> str:
        """Run code in the kernel beside the notebook; what it printed."""
        out: str = self.page.evaluate(_EXECUTE, code)
        return out

    def busy(self) -> Any:
        """Cells that are running or queued."""
        return self.page.locator(".jp-InputPrompt", has_text="[*]")

    def output(self, place: int) -> Any:
        """The outputs of a cell, counted from 0."""
        return self.page.locator(".jp-CodeCell").nth(place).locator(".jp-OutputArea-output")

    def shut_down(self) -> None:
        """End its kernel."""
        self.page.evaluate("() => window.jupyterapp?.shell.currentWidget?.context.sessionContext.shutdown()")

    def save(self) -> Any:
        """Save, and read what lies on disk."""
        self.command("docmanager:save")
        return self.server.saved(self.name)


def theme(notebook: Notebook, name: str) -> None:
    """Switch JupyterLab's theme and wait for it."""
    notebook.command("apputils:change-theme", {"theme": name})
    is_light = json.dumps("Light" in name)
    notebook.page.wait_for_selector(f"body[data-jp-theme-light={is_light}]", state="attached")
