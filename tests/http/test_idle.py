"""One timer for the waits of a stream: overdue waits end as timeouts, cancellations stay cancellations."""

from __future__ import annotations

import asyncio

import pytest

from shim._http.idle import IdleLimit


async def _wait(limit: IdleLimit, seconds: float, what: asyncio.Future[str]) -> str:
    limit.begin(seconds)
    try:
        return await what
    except asyncio.CancelledError:
        if not limit.end():
            raise
        return "overdue"
    finally:
        limit.end()


def _in(seconds: float, text: str = "there") -> asyncio.Future[str]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[str] = loop.create_future()
    loop.call_later(seconds, lambda: future.done() or future.set_result(text))
    return future


async def test_each_wait_has_all_the_time() -> None:
    """Eight waits that take longer together than one may."""
    limit = IdleLimit()
    assert [await _wait(limit, 0.04, _in(0.01)) for _ in range(8)] == ["there"] * 8
    limit.stop()


async def test_a_wait_that_takes_too_long_ends_and_the_task_goes_on() -> None:
    limit = IdleLimit()
    assert await _wait(limit, 5.0, _in(0.0)) == "there"
    limit.stop()
    assert await _wait(limit, 0.01, _in(5.0)) == "overdue"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert await _wait(limit, 0.05, _in(0.0)) == "there"


async def test_a_shorter_limit_than_the_last_is_kept() -> None:
    limit = IdleLimit()
    assert await _wait(limit, 5.0, _in(0.0)) == "there"
    assert await _wait(limit, 0.01, _in(5.0)) == "overdue"


async def test_the_readers_own_time_does_not_count() -> None:
    limit = IdleLimit()
    assert await _wait(limit, 0.01, _in(0.0)) == "there"
    await _in(0.03)
    assert await _wait(limit, 0.05, _in(0.0)) == "there"


@pytest.mark.parametrize("seconds", [5.0, 0.0], ids=["before the limit", "with the limit"])
async def test_a_cancellation_from_outside_is_one(seconds: float) -> None:
    """Also where both come in the same turn of the loop."""
    limit = IdleLimit()
    task = asyncio.ensure_future(_wait(limit, seconds, _in(5.0)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_limit_that_has_passed_ends_the_wait_at_once() -> None:
    limit = IdleLimit()
    assert await _wait(limit, -1.0, _in(5.0)) == "overdue"


async def test_nothing_is_left_on_the_loop() -> None:
    limit = IdleLimit()
    assert await _wait(limit, 60.0, _in(0.0)) == "there"
    limit.stop()
    loop = asyncio.get_running_loop()
    assert all(timer.cancelled() for timer in getattr(loop, "_scheduled", ()))
