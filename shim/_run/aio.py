"""Runs a call in the running event loop: inline when it is sequential, with a task for each attempt otherwise."""

from __future__ import annotations

import asyncio

from shim._core.call import Action, Cancel, Finish, Start, Wait
from shim._core.outcome import Judgement
from shim._run.exchange import AsyncSend, Exchange, Reply, Together
from shim._run.flight import Flight
from shim._run.sequence import Ended, Steps, one_by_one
from shim._run.system import Clock

Tasks = dict["asyncio.Task[Reply | Judgement]", int]


async def run(flight: Flight, send: AsyncSend, clock: Clock) -> None:
    """Returns when the call is over; `flight` then tells how. Cancellation passes through; permits are back."""
    try:
        _must_be_asyncio()
        if flight.is_concurrent:
            await _race(flight, send, clock)
        else:
            await carry_out(one_by_one(flight, clock), send, clock)
    except BaseException:  # also CancelledError: nobody's failure, but permits must come back
        flight.abandon()
        raise


def _must_be_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "a routed call of AsyncOpenAI needs asyncio: under trio use OpenAI in a thread, or router=False"
        ) from None


async def _race(flight: Flight, send: AsyncSend, clock: Clock) -> None:
    tasks: Tasks = {}
    try:
        actions = flight.begin()
        while True:
            until, is_over = _act(actions, flight, send, clock, tasks)
            if is_over:
                return
            timeout = None if until is None else max(0.0, until - clock.now())
            if tasks:
                done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            else:
                done = set()
                await clock.async_wait(timeout or 0.0)
            actions = _settle(done, flight, send, tasks) if done else flight.wake()
    finally:
        await _close(tasks, flight, send)


def _act(
    actions: list[Action], flight: Flight, send: AsyncSend, clock: Clock, tasks: Tasks
) -> tuple[float | None, bool]:
    """Carry out the actions; when to wake, and whether the call is over."""
    until, is_over = None, False
    for action in actions:
        match action:
            case Start(number=number):
                tasks[asyncio.ensure_future(carry_out(flight.script(number), send, clock))] = number
            case Cancel(number=number):
                for task in [task for task, its in tasks.items() if its == number]:
                    task.cancel()
                flight.cancelled(number)
            case Wait(until=at):
                until = at
            case Finish():
                is_over = True
    return until, is_over


def _settle(done: set[asyncio.Task[Reply | Judgement]], flight: Flight, send: AsyncSend, tasks: Tasks) -> list[Action]:
    """Settle those that ended, in the order they began. What came in beside the winner stays for `_close`."""
    actions: list[Action] = []
    for task in sorted(done, key=tasks.__getitem__):
        if flight.finish is None:
            actions += flight.settle(tasks.pop(task), task.result())
    return actions


async def _close(tasks: Tasks, flight: Flight, send: AsyncSend) -> None:
    """Losers are cancelled for real: their tasks end, and a stream that had begun beside the winner's is closed."""
    for task, number in tasks.items():
        task.cancel()
        flight.cancelled(number)
    for task in tasks:
        await send.discard(task)


async def carry_out(script: Steps[Ended], send: AsyncSend, clock: Clock) -> Ended:
    """Do what a script asks, step by step; what it returns."""
    result: object = None
    try:
        while True:
            step = script.send(result)
            if isinstance(step, Exchange):
                result = await send(step)
            elif isinstance(step, Together):
                result = list(await asyncio.gather(*(send(exchange) for exchange in step.exchanges)))
            else:
                await clock.async_wait(step.seconds)
                result = None
    except StopIteration as stop:
        ended: Ended = stop.value
        return ended
    finally:
        script.close()  # a kept traceback holds the script, and what it has under way would stay so
