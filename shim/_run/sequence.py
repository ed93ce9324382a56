"""A sequential call as a script of steps: one text for the sync and the async driver, which carry the steps out."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from shim._core.call import Cancel, Finish, Start, Wait
from shim._run.exchange import Exchange, Pause, Together
from shim._run.flight import Flight
from shim._run.system import Clock

Ended = TypeVar("Ended")
Steps = Generator[Exchange | Together | Pause, object, Ended]


def one_by_one(flight: Flight, clock: Clock) -> Steps[None]:
    """The whole of a call with one attempt in flight at a time; `flight` then tells how it ended."""
    actions = flight.begin()
    while True:
        until = None
        for action in actions:
            match action:
                case Start(number=number):
                    actions = flight.settle(number, (yield from flight.script(number)))
                    break
                case Finish():
                    return
                case Wait(until=at):
                    until = at
                case Cancel():
                    pass  # one attempt at a time: there is no other
        else:
            yield Pause((until if until is not None else clock.now()) - clock.now())
            actions = flight.wake()
