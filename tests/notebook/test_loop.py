"""`notebook_ext.run`: a coroutine on a loop of its own thread, with the caller's context, and stoppable."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import pytest

import notebook_ext
from notebook_ext import loop

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    loop.close()
    assert not loop.is_running()
    assert not [thread for thread in threading.enumerate() if thread.name == "notebook_ext-loop"]


async def _double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_it_returns_what_the_coroutine_does() -> None:
    assert notebook_ext.run(_double(21)) == 42


async def test_it_works_where_a_loop_runs_already() -> None:
    """As in a cell of a notebook, whose kernel runs a loop in this thread."""
    assert notebook_ext.run(_double(21)) == 42


def test_the_callers_context_goes_in() -> None:
    """Prints find their cell by it."""

    async def told() -> str:
        return NAME.get()

    token = NAME.set("this cell")
    try:
        assert notebook_ext.run(told()) == "this cell"
    finally:
        NAME.reset(token)


def test_what_it_raises_is_raised_here() -> None:
    async def fails() -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        notebook_ext.run(fails())


def test_a_cancelled_coroutine_is_a_cancelled_error() -> None:
    async def stops() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        notebook_ext.run(stops())


def test_on_its_own_loop_it_refuses_rather_than_wait_for_ever() -> None:
    async def nests() -> None:
        notebook_ext.run(_double(1))

    with pytest.raises(RuntimeError, match="use await"):
        notebook_ext.run(nests())


def test_the_stop_button_cancels_waits_and_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """KeyboardInterrupt arrives in the waiting thread; the coroutine cleans up before the cell is over."""
    cleaned: list[str] = []
    under_way = threading.Event()

    async def works() -> None:
        try:
            under_way.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("cleaned up")

    class Interrupted(loop.Future):  # type: ignore[type-arg]
        def result(self, timeout: float | None = None) -> object:
            assert under_way.wait(5)
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "Future", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        notebook_ext.run(works())
    assert cleaned == ["cleaned up"]


def test_what_is_left_on_the_loop_is_cancelled_when_it_closes() -> None:
    ended: list[str] = []

    async def stays() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def leaves() -> None:
        leaves.task = asyncio.create_task(stays())  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    notebook_ext.run(leaves())
    loop.close()

    assert ended == ["ended"]
