"""The panel in JupyterLab, as a person uses it: Run All, live, by keyboard, in both themes, through restarts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import pytest

from tests.browser.axe import violations
from tests.browser.cells import FLOOD, JOB, LOAD, STAGE
from tests.browser.lab import Notebook, Server, serve, theme

CALLS = "for _ in range(5):\n    ask()"
_numbers = itertools.count(1)
SICK = "one.close()\nfor _ in range(3):\n    ask()"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("lab")) as running:
        yield running


Open = Callable[..., Notebook]


@pytest.fixture
def opened(page: Any, server: Server) -> Iterator[Open]:
    """Opens a notebook with the stage and some cells, on a kernel of its own, and runs it from top to bottom."""
    made: list[Notebook] = []

    def open_one(*cells: str, run: bool = True) -> Notebook:
        made.append(Notebook(page, server, server.notebook(f"{next(_numbers)}.ipynb", [STAGE, *cells])))
        if run:
            made[-1].run_all()
        return made[-1]

    yield open_one
    for notebook in made:
        notebook.shut_down()


def badge(notebook: Notebook, provider: str) -> Any:
    row = notebook.panel.get_by_role("row").filter(has=notebook.page.get_by_role("rowheader").filter(has_text=provider))
    return row.locator(".badge")


def until(page: Any, code: str) -> None:
    page.wait_for_function(code, timeout=15_000)


def has_text(page: Any, text: str, place: str = ".shim-panel") -> None:
    page.locator(place).first.get_by_text(text).first.wait_for(timeout=15_000)


def test_it_follows_what_happens_and_obeys_the_keyboard(page: Any, opened: Open) -> None:
    notebook = opened(LOAD, CALLS, SICK)
    has_text(page, "1 of 2 routes can serve")
    assert badge(notebook, "one").inner_text().startswith("open ")
    assert page.locator(".shim-panel mjx-container").count() == 0, "no dollar became a formula"

    page.get_by_role("button", name="Reset one in fast").focus()
    page.keyboard.press("Enter")
    has_text(page, "done: reset one/small")
    assert badge(notebook, "one").inner_text() == "closed"
    assert notebook.execute("print(client.router.status().routes[0].breaker.value)") == "closed\n"

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    has_text(page, "off by hand")
    notebook.execute("ask()")
    has_text(page, "9 answers")


@pytest.mark.parametrize("name", ["JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"])
def test_every_theme_can_be_read(page: Any, opened: Open, name: str) -> None:
    notebook = opened(LOAD, CALLS, SICK)
    has_text(page, "1 of 2 routes can serve")
    theme(notebook, name)
    is_dark = str("Dark" in name).lower()
    until(page, f"() => document.querySelector('.shim-panel').classList.contains('dark') === {is_dark}")

    assert violations(page) == []


@pytest.mark.skipif(version("ipykernel").startswith("6."), reason="ipykernel 6 hears a page after the cell")
def test_a_button_works_while_a_cell_awaits(page: Any, opened: Open) -> None:
    notebook = opened(LOAD, "import asyncio")
    notebook.panel.wait_for()
    page.evaluate(
        "() => { const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;"
        " kernel.requestExecute({ code: 'await asyncio.sleep(20)' }); }"
    )
    page.get_by_role("button", name="Pin two in fast").click()
    has_text(page, "pinned to two/small")
    assert notebook.panel.get_by_role("button", name="Unpin two in fast").inner_text() == "unpin"
    notebook.command("notebook:interrupt-kernel")


def test_a_button_during_a_busy_cell_waits_and_says_so(page: Any, opened: Open) -> None:
    """Which of the two happens is the kernel's: some carry it out beside the cell, some after it."""
    notebook = opened(LOAD)
    notebook.panel.wait_for()
    page.evaluate(
        "() => { const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;"
        " kernel.requestExecute({ code: 'time.sleep(3)' }); }"
    )
    page.wait_for_timeout(300)
    button = page.get_by_role("button", name="Pin two in fast")
    button.click()
    has_text(page, "pinned to two/small")
    assert page.get_by_role("button", name="Unpin two in fast").inner_text() == "unpin"


def test_a_kernel_that_is_restarted_leaves_a_panel_that_says_so(page: Any, opened: Open) -> None:
    notebook = opened(LOAD, CALLS)
    has_text(page, "All 2 routes can serve")
    assert not page.locator(".shim-panel .stale").is_visible()
    page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart()")

    has_text(page, "No update since")
    assert notebook.panel.locator(".headline").first.inner_text() == "All 2 routes can serve"


def test_a_flood_of_events_neither_lags_nor_grows(page: Any, opened: Open) -> None:
    """5,000 events a second: at most ten snapshots a second, the last one shown at once, a heap that stays."""
    notebook = opened(LOAD, FLOOD)
    notebook.panel.wait_for()
    session = page.context.new_cdp_session(page)

    def heap() -> float:
        session.send("HeapProfiler.collectGarbage")
        return float(page.evaluate("performance.memory.usedJSHeapSize"))

    notebook.execute("flood(5000, 1)")
    before = heap()
    seq = int(notebook.panel.get_attribute("data-seq"))
    page.evaluate(
        "() => { window.worst = 0; let last = performance.now(); const step = () => { const now = performance.now();"
        " window.worst = Math.max(window.worst, now - last); last = now; requestAnimationFrame(step); }; step(); }"
    )
    told = int(notebook.execute("print(flood(5000, 6))"))
    notebook.execute("ask()")
    until(page, "() => document.querySelector('.shim-panel').innerText.includes('1 answer')")
    snapshots = int(notebook.panel.get_attribute("data-seq")) - seq

    assert told > 20_000
    assert 10 <= snapshots <= 90, "at most ten a second"
    assert page.evaluate("window.worst") < 600, "the page stays fluid"
    assert heap() - before < 4_000_000
    depth = notebook.execute(
        "import gc, notebook_ext.watch as w; print(max(len(o._box) for o in gc.get_objects() if type(o) is w.Watch))"
    )
    assert int(depth) < 100, "nothing piles up in the kernel"


def test_a_frozen_panel_is_a_table_in_the_saved_notebook(page: Any, opened: Open) -> None:
    notebook = opened(LOAD, CALLS, "%shim panel --freeze")
    until(page, "() => !document.querySelector('.shim-panel')")
    notebook.output(1).locator("table").first.wait_for()
    data = notebook.save().cells[1].outputs[1].data

    assert "application/vnd.jupyter.widget-view+json" not in data
    assert "5 answers" in data["text/html"]
    assert "5 answers" in data["text/plain"]


def test_a_cell_that_is_run_again_makes_no_second_panel(page: Any, opened: Open) -> None:
    """Neither where its router is the same, nor where the notebook was run anew and made another."""
    notebook = opened(LOAD, CALLS)
    has_text(page, "5 answers")
    notebook.execute("%shim panel")
    for _ in range(3):
        notebook.run_all()
    has_text(page, "5 answers")

    assert notebook.execute("import notebook_ext.session as s; print(len(s.panels()))") == "1\n"
    assert page.locator(".shim-panel").count() == 1


def test_nothing_is_left_when_it_is_unloaded(page: Any, opened: Open) -> None:
    notebook = opened(LOAD, CALLS)
    notebook.panel.wait_for()
    comms = (
        "import gc, threading, ipywidgets, comm\n"
        "print(len(comm.get_comm_manager().comms), [t.name for t in threading.enumerate() if 'notebook_ext' in t.name],"
        " len(client.router._board.bus.observers))"
    )
    notebook.execute("%unload_ext notebook_ext")
    before = notebook.execute(comms)
    for _ in range(5):
        notebook.execute("%load_ext notebook_ext\n%shim panel\nask()\n%unload_ext notebook_ext")

    assert notebook.execute(comms) == before == f"{before.split()[0]} [] 0\n"
    assert "not found" in notebook.execute("%shim status")


def test_a_broken_panel_breaks_no_call(page: Any, opened: Open) -> None:
    breaks = (
        "import notebook_ext.session as s\n"
        "def broken(): raise RuntimeError('a broken panel')\n"
        "s.panels()[0]._watch.snapshot = broken"
    )
    notebook = opened(LOAD, breaks, CALLS)
    assert notebook.execute("print(len(client.router.calls))") == "5\n"
    assert notebook.output(3).count() == 0, "and nothing of it stands in the user's cell"


def test_run_all_works_with_nested_loops(page: Any, opened: Open) -> None:
    """Older patches lose the cells that are queued behind the first nested run: they stay [*]."""
    nested = "async def main():\n    await asyncio.sleep(0.05)\n    return 7\nprint(asyncio.run(main()))"
    notebook = opened(LOAD, "import asyncio\n%shim asyncio on", *[nested] * 4, "print('the end')")
    page.get_by_text("the end", exact=True).last.wait_for()

    assert notebook.busy().count() == 0
    assert notebook.output(6).inner_text().strip() == "7"
    notebook.execute("ask()")
    has_text(page, "1 answer")


def test_a_server_without_anywidget_shows_a_table(page: Any, opened: Open) -> None:
    """Its page has no module of that name: in place of an error stands the table, and it follows."""
    page.route("**/extensions/anywidget/**", lambda route: route.abort())
    notebook = opened(LOAD, CALLS)
    notebook.output(1).locator("table").first.wait_for(timeout=20_000)
    notebook.execute("ask()")
    until(page, "() => document.querySelector('.jp-Notebook').innerText.includes('6 answers')")

    assert page.locator(".shim-panel").count() == 0


def test_a_reload_of_the_page_keeps_it_live(page: Any, opened: Open) -> None:
    notebook = opened(LOAD, CALLS)
    has_text(page, "5 answers")
    notebook.save()
    page.reload()
    page.wait_for_selector(".shim-panel", timeout=30_000)
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget?.context?.sessionContext?.session?.kernel")
    notebook.execute("ask()")

    has_text(page, "6 answers")


def test_it_composes_as_any_widget(page: Any, opened: Open) -> None:
    cell = (
        "%load_ext notebook_ext\nimport ipywidgets, notebook_ext\npanel = notebook_ext.panel(client)\n"
        "label = ipywidgets.Label()\n"
        "ipywidgets.dlink((panel, 'snapshot'), (label, 'value'), lambda shown: 'linked: ' + shown['headline'])\n"
        "ipywidgets.VBox([label, panel])"
    )
    notebook = opened(cell, CALLS, SICK)
    has_text(page, "1 of 2 routes can serve")
    page.get_by_text("linked: 1 of 2 routes can serve").wait_for()
    assert notebook.output(1).locator(".shim-panel").count() == 1


def test_an_exhausted_call_is_a_short_table(page: Any, opened: Open) -> None:
    notebook = opened(LOAD, "one.close(); two.close()", "ask()")
    out = notebook.output(3).inner_text()

    assert "All providers for chat family 'fast' failed" in out
    assert "two/small" in out
    assert "Cell In[4], line 1: ask()" in out, out
    assert len(out.splitlines()) < 14
    assert "site-packages" not in out
    full = notebook.execute("%tb")
    assert "AllProvidersFailedError" in full


def test_a_job_has_a_bar_in_its_cell_and_a_card_in_the_panel(page: Any, opened: Open) -> None:
    steps = "for done in range(0, 1000, 50):\n    tell_job(done)\n    time.sleep(0.05)"
    notebook = opened(LOAD, JOB, steps)
    assert notebook.output(3).locator("progress").count() == 1
    has_text(page, "Stopping now keeps 950 rows")
    assert violations(page) == []
    notebook.execute("tell_job(1000, JobState.DONE)")

    page.get_by_text("Embedded with fast: 1,000 of 1,000 rows (100.0 %)").nth(1).wait_for()
    assert notebook.output(3).locator("progress").count() == 0
    saved = notebook.save().cells[3].outputs[0].data
    assert "Embedded with fast: 1,000 of 1,000 rows" in saved["text/html"]


def test_the_stop_button_stops_what_run_runs(page: Any, opened: Open) -> None:
    works = (
        "import asyncio, notebook_ext\nasync def works():\n    try:\n        print('under way')\n"
        "        await asyncio.sleep(60)\n    finally:\n        print('cleaned up')\nnotebook_ext.run(works())"
    )
    notebook = opened(LOAD, works, run=False)
    notebook.run_all(wait=False)
    printed = page.locator("[data-mime-type='application/vnd.jupyter.stdout']")  # a traceback shows the source as well
    printed.filter(has_text="under way").wait_for()
    notebook.command("notebook:interrupt-kernel")
    printed.filter(has_text="cleaned up").wait_for()
    page.locator(".jp-OutputArea-output", has_text="KeyboardInterrupt").first.wait_for()
    notebook.wait_until_idle()

    assert notebook.execute("print(notebook_ext.run(asyncio.sleep(0, 7)))") == "7\n"


def test_a_rehearsal_by_the_mouse(page: Any, opened: Open) -> None:
    notebook = opened(LOAD, CALLS)
    page.get_by_role("combobox", name="Rehearse a fault of one in fast").select_option("500")
    has_text(page, "Rehearsal, not real: one/small: HTTP 500 for 3 more attempts")
    notebook.execute("ask(); ask(); ask()")
    has_text(page, "one: 500 server_error (rehearsal)")
    assert badge(notebook, "one").inner_text().startswith("open ")
    assert violations(page) == []
    page.get_by_role("button", name="end rehearsal").click()
    has_text(page, "All 2 routes can serve")

    assert badge(notebook, "one").inner_text() == "closed"
    assert notebook.execute("print(client.router.status().routes[0].verdicts)") == "{'ok': 5}\n"
