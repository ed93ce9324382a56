"""A browser for the tests of what people see. They run where Chromium and playwright are: `scripts/test_notebook`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

_NEEDED = ("axe_playwright_python", "nbclient", "nbformat", "playwright")
if not all(map(find_spec, _NEEDED)):  # the other tests do not need them; `scripts/test_notebook` installs them
    collect_ignore_glob = ["test_*.py"]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
NOT_OURS = (
    "Canceled future",  # JupyterLab: a kernel ended while it was asked for a thread for widget messages
    "reading 'schema'",  # Notebook 7.6: as it starts, without any extension of ours
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder belongs to the group `browser`."""
    for item in items:
        if "tests/browser/" in str(item.path).replace(os.sep, "/"):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window; its own fixture, since pytest-playwright's leaves an event loop running."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("needs Chromium: install it, or name it in $CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of its own; an error in it fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, locale="en-US")
    made = context.new_page()
    made.set_default_timeout(20_000)
    errors: list[str] = []
    made.on("pageerror", lambda error: errors.append(str(error)))
    yield made
    context.close()
    assert [error for error in errors if not any(known in error for known in NOT_OURS)] == []
