"""Where no page is: nbclient, papermill and nbconvert run notebooks through it. What they save must be readable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.cells import JOB, LOAD, STAGE

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

WIDGET = "application/vnd.jupyter.widget-view+json"


def executed(folder: Path, *cells: str, allow_errors: bool = False) -> Any:
    """A notebook, run as CI runs it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(
        notebook,
        timeout=60,
        kernel_name="python3",
        allow_errors=allow_errors,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    return notebook


def shown(notebook: Any, cell: int) -> list[dict[str, Any]]:
    """The displays of a cell."""
    return [output.data for output in notebook.cells[cell].outputs if "data" in output]


def printed(notebook: Any, cell: int) -> str:
    return "".join(output.text for output in notebook.cells[cell].outputs if output.output_type == "stream")


CALLS = "for _ in range(5): ask()"
THREADS = "print([t.name for t in threading.enumerate() if 'notebook_ext' in t.name])"


def test_the_panel_is_a_table_as_of_the_last_cell(tmp_path: Path) -> None:
    notebook = executed(tmp_path, STAGE, LOAD, CALLS, "ask()")
    (data,) = shown(notebook, 1)

    assert WIDGET not in data
    assert "6 answers" in data["text/html"]
    assert "6 answers" in data["text/plain"]
    assert notebook.metadata.get("widgets", {}).get(WIDGET, {}) == {} or WIDGET not in data


def test_without_anywidget_it_is_a_table_that_moves(tmp_path: Path) -> None:
    notebook = executed(tmp_path, "import sys; sys.modules['anywidget'] = None", STAGE, LOAD, CALLS, "ask()")
    (data,) = shown(notebook, 2)

    assert set(data) == {"text/html", "text/plain"}
    assert "6 answers" in data["text/html"]


def test_a_router_of_another_thread_and_loop(tmp_path: Path) -> None:
    cell = (
        "import asyncio\n"
        "async def works():\n"
        "    its = shim.AsyncOpenAI(router=client.router, max_retries=0)\n"
        "    for _ in range(3): await its.chat.completions.create(model='fast', messages=[])\n"
        "    await its.close()\n"
        "thread = threading.Thread(target=lambda: asyncio.run(works())); thread.start(); thread.join()"
    )

    assert "3 answers" in shown(executed(tmp_path, STAGE, LOAD, cell), 1)[0]["text/html"]


def test_without_ipywidgets_either(tmp_path: Path) -> None:
    hide = "import sys\nfor name in ('anywidget', 'ipywidgets', 'comm'): sys.modules[name] = None"
    assert "5 answers" in shown(executed(tmp_path, hide, STAGE, LOAD, CALLS), 2)[0]["text/html"]


def test_loading_says_one_line_and_is_quick(tmp_path: Path) -> None:
    cells = [
        "import time; begun = time.perf_counter(); import notebook_ext; print(time.perf_counter() - begun < 0.1)",
        "%load_ext notebook_ext",
        "import sys; print([name for name in ('anywidget', 'ipywidgets', 'numpy', 'pandas') if name in sys.modules])",
        "import notebook_ext; notebook_ext.load_ipython_extension(get_ipython())",
        "%unload_ext notebook_ext",
        "import threading; " + THREADS,
    ]
    notebook = executed(tmp_path, *cells)

    assert printed(notebook, 0) == "True\n"
    assert printed(notebook, 1) == "shim: %shim panel shows your providers live, %shim? tells the rest\n"
    assert printed(notebook, 2) == "[]\n"
    assert printed(notebook, 3) == "", "twice is as once"
    assert printed(notebook, 5) == "[]\n"


def test_unloading_leaves_a_table_and_no_thread(tmp_path: Path) -> None:
    notebook = executed(tmp_path, STAGE, LOAD, CALLS, "%unload_ext notebook_ext", THREADS, "ask()")

    assert "5 answers" in shown(notebook, 1)[0]["text/html"]
    assert printed(notebook, 4) == "[]\n"


def test_a_job_leaves_its_summary(tmp_path: Path) -> None:
    steps = "for done in range(0, 1000, 200):\n    tell_job(done)\ntell_job(1000, JobState.DONE)"
    (data,) = shown(executed(tmp_path, STAGE, LOAD, JOB, steps), 3)

    assert "Embedded with fast: 1,000 of 1,000 rows (100.0 %)" in data["text/html"]
    assert "<progress" not in data["text/html"]


def test_an_exhausted_call_is_a_short_table(tmp_path: Path) -> None:
    notebook = executed(
        tmp_path, STAGE, LOAD, "one.close(); two.close()", "await_ = ask()", "%tb", "1 + 1", allow_errors=True
    )
    (error,) = notebook.cells[3].outputs
    text = "\n".join(error.traceback)

    assert error.ename == "AllProvidersFailedError"
    assert len(text.splitlines()) < 14
    assert "Cell In[4], line 1" in text
    assert "site-packages" in "\n".join(notebook.cells[4].outputs[0].traceback), "%tb shows all of it"
    assert shown(notebook, 5)[0]["text/plain"] == "2"


def test_an_exhausted_call_that_was_awaited_too(tmp_path: Path) -> None:
    cell = (
        "client = shim.AsyncOpenAI(router=client.router, max_retries=0)\n"
        "await client.chat.completions.create(model='fast', messages=[])"
    )
    notebook = executed(tmp_path, STAGE, LOAD, "one.close(); two.close()", cell, allow_errors=True)

    assert len("\n".join(notebook.cells[3].outputs[0].traceback).splitlines()) < 14


def test_prints_of_a_background_run_stay_in_their_cell(tmp_path: Path) -> None:
    told = "async def told():\n    await asyncio.sleep(0.01)\n    print('here')\n"
    cell = f"import asyncio, notebook_ext\n{told}notebook_ext.run(told())"
    notebook = executed(tmp_path, STAGE, LOAD, cell, "print('there')")

    assert printed(notebook, 2) == "here\n"
    assert printed(notebook, 3) == "there\n"


def test_the_router_a_call_and_a_plan_read_well(tmp_path: Path) -> None:
    notebook = executed(tmp_path, STAGE, LOAD, CALLS, "client.router", "client.router.calls[-1]", "%shim explain fast")
    for cell, expected in ((3, "All 2 routes can serve"), (4, "one answered"), (5, "at once")):
        data = shown(notebook, cell)[0]
        assert expected in data["text/html"]
        assert len(data["text/plain"].splitlines()) < 30


def test_the_older_loop_patch_is_refused(tmp_path: Path) -> None:
    """nest-asyncio 1.x marks the module so; it loses queued cells under ipykernel 7."""
    pretend = "import asyncio; asyncio._nest_patched = True"
    notebook = executed(tmp_path, STAGE, LOAD, pretend, "%shim asyncio on", allow_errors=True)
    said = printed(notebook, 3)

    assert "nest-asyncio 1.x has patched this kernel already" in said
    assert "restart the kernel" in said


def test_it_converts_to_a_page_that_is_not_blank(tmp_path: Path) -> None:
    nbconvert = pytest.importorskip("nbconvert")
    notebook = executed(tmp_path, STAGE, LOAD, CALLS)
    html, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)

    assert "All 2 routes can serve" in html
