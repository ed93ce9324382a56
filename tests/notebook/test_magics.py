"""The magics and the loading in IPython itself, without a page: what they say, offer, refuse and leave behind."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import notebook_ext
import shim
from notebook_ext import extension, nesting, session
from shim import roster
from tests.support import answers
from tests.support.fixtures import Serve

pytest.importorskip("IPython")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
KEY = "sk-made-up-0123456789abcdef"


@pytest.fixture
def shell() -> Iterator[Any]:
    """IPython, with the extension loaded; nothing of it is left afterwards."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    made = InteractiveShell.instance(config=config)
    made.run_line_magic("load_ext", "notebook_ext")
    yield made
    notebook_ext.unload_ipython_extension(made)
    InteractiveShell.clear_instance()
    gc.collect()


@pytest.fixture
def client(shell: Any, serve: Serve) -> Iterator[shim.OpenAI]:
    """A client in the notebook's namespace: two chat routes, of which the first answers 429."""
    sick, well = serve(answers.fails(429, headers=[("retry-after", "20")])), serve(answers.says())
    made = shim.OpenAI(
        router={
            "providers": {
                "sick": {"base_url": sick.base_url, "api_key": KEY},
                "well": {"base_url": well.base_url},
            },
            "families": {
                "fast": {"kind": "chat", "routes": ["sick/a", "well/b"]},
                "other": {"kind": "chat", "routes": ["well/c"]},
            },
            "policy": {"max_retries": 0},
        }
    )
    shell.user_ns["client"] = made
    yield made
    made.close()


def run(shell: Any, line: str) -> Any:
    """What a cell of one line returns."""
    return shell.run_cell(line).result


def refused(shell: Any, capsys: pytest.CaptureFixture[str], line: str) -> str:
    """What is said of a line that is wrong: one line, no traceback."""
    capsys.readouterr()
    shell.run_cell(line)
    told = capsys.readouterr()
    said = told.out + told.err
    assert "Traceback" not in said
    assert "UsageError" in said
    return said


def completions(shell: Any, line: str) -> list[str]:
    """What the tab key offers at the end of a line, as a kernel asks for it."""
    from IPython.core.completer import provisionalcompleter

    with provisionalcompleter():
        return [found.text for found in shell.Completer.completions(line, len(line))]


def ask(client: Any, model: str = "fast") -> None:
    client.chat.completions.create(model=model, messages=[])


# -- loading


def test_it_says_one_line_and_loading_twice_is_as_once(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    notebook_ext.load_ipython_extension(shell)
    assert capsys.readouterr().out == ""
    notebook_ext.unload_ipython_extension(shell)
    notebook_ext.unload_ipython_extension(shell)
    notebook_ext.load_ipython_extension(shell)

    assert capsys.readouterr().out == "shim: %shim panel shows your providers live, %shim? tells the rest\n"


def test_unloading_leaves_nothing(shell: Any, client: shim.OpenAI) -> None:
    assert shell.find_line_magic("shim") is not None
    panel = session.panel_for(client, mode="table")
    panel._ipython_display_()
    notebook_ext.run(_nothing())
    notebook_ext.unload_ipython_extension(shell)

    for name in ("shim", "embed", "shim_record", "shim_replay"):
        assert shell.find_line_magic(name) is None, name
    assert session.after_cell not in shell.events.callbacks["post_run_cell"]
    assert shell.custom_exceptions == ()
    assert not panel.is_live
    assert client.router is not None
    assert client.router._board.bus.observers == ()
    assert not roster.jobs_are_shown
    assert [thread.name for thread in threading.enumerate() if "notebook_ext" in thread.name] == []
    html = shell.display_formatter.formatters["text/html"]
    assert ("shim.events", "Call") not in html.deferred_printers
    assert all(known.__module__ != "shim.events" for known in html.type_printers)
    assert "off" not in completions(shell, "%shim of")


async def _nothing() -> None: ...


def test_a_cell_that_is_run_again_shows_the_same_panel(shell: Any, client: shim.OpenAI) -> None:
    first = session.panel_for(client, mode="table")
    first._ipython_display_()
    assert session.panel_for(client.router, mode="table") is first
    assert session.panel_for(client, mode="text") is not first
    first.freeze()

    assert session.panel_for(client, mode="table") is not first


# -- without a router


def test_without_a_router_it_says_how_to_make_one(
    shell: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "routers", tuple)  # those of other tests may still be there
    assert "no router yet: make a client first" in refused(shell, capsys, "%shim status")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (42, "a client or a router is needed, not int"),
        (None, "no variable 'thing' in this notebook"),
        ("unrouted", "this OpenAI has no router: nothing is configured"),
    ],
    ids=["a number", "no such variable", "a client without a router"],
)
def test_what_is_no_router_is_named(shell: Any, capsys: pytest.CaptureFixture[str], value: Any, said: str) -> None:
    if value == "unrouted":
        value = shim.OpenAI(api_key="made-up", router=False)
    if value is not None:
        shell.user_ns["thing"] = value

    assert said in refused(shell, capsys, "%shim status --router thing")


# -- the commands


def test_status_and_panel_tell_the_same(shell: Any, client: shim.OpenAI, capsys: pytest.CaptureFixture[str]) -> None:
    ask(client)
    status = run(shell, "%shim status --router client")
    assert "sick/a" in repr(status)
    assert "<table>" in status._repr_html_()
    assert KEY not in repr(status) + status._repr_html_()
    capsys.readouterr()
    assert run(shell, "%shim panel --router client") is None

    assert "1 of 2 routes" in capsys.readouterr().out or "of 3 routes can serve" in repr(status)


def test_explain_says_who_and_why_not(shell: Any, client: shim.OpenAI) -> None:
    ask(client)
    plan = run(shell, "%shim explain fast -r client")

    assert "1. sick/a (back in 20 s: rate_limit)" in repr(plan)
    assert "belongs to no chat family: it passes through; nearest: fast" in repr(
        run(shell, "%shim explain fats -r client")
    )
    assert "well/b" in plan._repr_html_()


@pytest.mark.parametrize(("line", "calls"), [("%shim attempts", 3), ("%shim attempts 2", 2), ("%shim attempts 99", 3)])
def test_attempts_are_shown_call_by_call(shell: Any, client: shim.OpenAI, line: str, calls: int) -> None:
    for _ in range(3):
        ask(client)
    shown = repr(run(shell, f"{line} -r client"))

    assert shown.count("answered after") == calls
    assert ("sick/a" in shown) == (calls == 3), "only the first call asked it"


def test_the_switches(shell: Any, client: shim.OpenAI) -> None:
    router = client.router
    assert router is not None
    run(shell, "%shim off sick well/c -r client")
    assert [route.is_off for route in router.status().routes] == [True, False, True]
    run(shell, "%shim on sick well/c -r client")
    assert not any(route.is_off for route in router.status().routes)
    run(shell, "%shim pin well/b -r client")
    assert [route.is_pinned for route in router.status().routes] == [False, True, False]
    run(shell, "%shim unpin -r client")
    run(shell, "%shim pin fast well -r client")
    assert [route.is_pinned for route in router.status().routes] == [False, True, False]
    run(shell, "%shim unpin -r client")
    assert not any(route.is_pinned for route in router.status().routes)
    ask(client)
    assert router.status().providers[0].keys[0].ready_in > 0
    run(shell, "%shim reset sick -r client")
    assert router.status().providers[0].keys[0].ready_in == 0
    run(shell, "%shim rehearse well 500 --times 1 --seconds 30 -r client")
    assert [one.subject for one in router.rehearsals] == ["well"]
    run(shell, "%shim rehearse off -r client")
    assert router.rehearsals == ()


def test_the_configuration_without_its_keys(shell: Any, client: shim.OpenAI) -> None:
    shown = run(shell, "%shim config -r client")

    assert "key1" in repr(shown)
    assert "state" in repr(shown).splitlines()[-len(client.router.config.providers) - 1]  # type: ignore[union-attr]
    assert KEY not in repr(shown) + shown._repr_html_()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%shim bogus", "invalid choice: 'bogus'"),
        ("%shim status --nonsense", "unrecognized arguments"),
        ("%shim attempts none -r client", "must be at least 1, is 'none'"),
        ("%shim off -r client", "say which route"),
        ("%shim off nobody -r client", "no route or provider 'nobody'"),
        ("%shim pin well -r client", "well stands in several families: say which before it, one of fast, other"),
        ("%shim pin fast well/b sick/a -r client", "one route at a time: %shim pin [FAMILY] ROUTE, not fast well/b"),
        ("%shim pin fast -r client", "fast is a family: say the route as well, as `%shim pin fast provider/model`"),
        ("%shim pin nobody -r client", "has no route or provider 'nobody'"),
        ("%shim unpin nobody -r client", "no family 'nobody'"),
        ("%shim rehearse well -r client", "say a route or provider and a fault"),
        ("%shim rehearse well earthquake -r client", "no fault 'earthquake' to rehearse; known: 429"),
        ("%shim asyncio off", "restarting the kernel"),
        ("%embed nothing", "no variable 'nothing'"),
        ("%shim_replay", "say the path of a cassette"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    shell: Any, client: shim.OpenAI, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    assert said in refused(shell, capsys, line)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("%shim ", {"panel", "status", "rehearse"}),
        ("%shim re", {"reset", "rehearse"}),
        ("%shim explain ", {"fast", "other", "sick/a", "auto"}),
        ("%shim off si", {"sick/a", "sick"}),
        ("%shim pin well/b --family ", {"fast", "other"}),
        ("%shim rehearse sick ", {"429", "timeout"}),
        ("%shim panel --mode ", {"widget", "table"}),
        ("shim unpin ", {"fast"}),
    ],
)
def test_the_tab_key_offers_what_fits(shell: Any, client: shim.OpenAI, line: str, offered: set[str]) -> None:
    symbol = line.split(" ")[-1]
    found = completions(shell, line)

    assert offered <= set(found)
    assert all(one.startswith(symbol) for one in found if symbol)


# -- a failing cell


def test_an_exhausted_call_is_short_and_the_rest_on_request(
    shell: Any, client: shim.OpenAI, capsys: pytest.CaptureFixture[str]
) -> None:
    client.router.disable("well")  # type: ignore[union-attr]
    capsys.readouterr()
    shell.run_cell("client.chat.completions.create(model='fast', messages=[])")
    short = capsys.readouterr().out
    shell.run_line_magic("tb", "")
    full = capsys.readouterr().out

    assert "All providers for chat family 'fast' failed" in short
    assert "rate_limit" in short
    assert "%tb shows the full traceback." in short
    assert len(short.splitlines()) < 14
    assert len(full.splitlines()) > len(short.splitlines())
    assert KEY not in short + full


def test_other_failures_are_shown_as_ever(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    shell.run_cell("1 / 0")

    assert "Traceback (most recent call last)" in capsys.readouterr().out


# -- a dataset


def test_embed_fills_a_column(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from shim.local.models import WORDLLAMA

    if not WORDLLAMA.is_installed:
        pytest.skip("needs the local extra")
    client = shim.OpenAI(router=LOCAL)
    texts = ["a cat", "a dog", "a cat"]
    shell.user_ns.update(client=client, frame=pandas.DataFrame({"text": texts}), texts=texts)
    job = run(shell, "%embed frame --column text --family notes --into vector")
    run(shell, "%embed texts --into made")

    assert job.summary().rows == 3
    assert len(shell.user_ns["frame"]["vector"][0]) == 256
    assert shell.user_ns["made"].shape == (3, 256)
    client.close()


LOCAL = {
    "default_embedding": "notes",
    "providers": {"local": {}},
    "families": {"notes": {"kind": "embedding", "routes": ["local/wordllama-256"]}},
}


def test_embed_says_which_column(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pandas = pytest.importorskip("pandas")
    shell.user_ns["client"] = shim.OpenAI(router=LOCAL)
    shell.user_ns["frame"] = pandas.DataFrame({"a": ["x"], "b": ["y"]})

    assert "say --column: which of a, b holds the texts" in refused(shell, capsys, "%embed frame")
    assert "frame has no column 'c'; it has a, b" in refused(shell, capsys, "%embed frame --column c")
    assert "there is a column 'b' already" in refused(shell, capsys, "%embed frame --column a --into b")


# -- loops


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({}, "needs nest-asyncio2"),
        ({"nest-asyncio2": "1.7.2"}, "nest-asyncio2 1.7.2 loses queued cells under ipykernel 7"),
    ],
    ids=["not installed", "too old"],
)
def test_a_loop_patch_that_loses_cells_is_refused(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], said: str
) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise nesting.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(nesting.metadata, "version", version)
    with pytest.raises(nesting.CannotNest, match=said):
        nesting.switch_on()


def test_the_extension_is_known_by_one_shell_at_a_time(shell: Any) -> None:
    assert extension._shell is shell
