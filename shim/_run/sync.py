"""Runs a call in the caller's own thread, one attempt at a time; a race goes to the background loop."""

from __future__ import annotations

from shim._run import background
from shim._run.exchange import Exchange, Send, Together
from shim._run.flight import Flight
from shim._run.sequence import Ended, Steps, one_by_one
from shim._run.system import Clock


def run(flight: Flight, send: Send, clock: Clock) -> None:
    """Returns when the call is over; `flight` then tells how. Interrupts pass through, after the permits came back."""
    if flight.is_concurrent:
        background.run(flight, send, clock)
        return
    try:
        carry_out(one_by_one(flight, clock), send, clock)
    except BaseException:  # also KeyboardInterrupt: nobody's failure, but permits must come back
        flight.abandon()
        raise


def carry_out(script: Steps[Ended], send: Send, clock: Clock) -> Ended:
    """Do what a script asks, step by step; what it returns."""
    result: object = None
    try:
        while True:
            step = script.send(result)
            if isinstance(step, Exchange):
                result = send(step)
            elif isinstance(step, Together):
                result = background.together(send, step.exchanges)
            else:
                clock.wait(step.seconds)
                result = None
    except StopIteration as stop:
        ended: Ended = stop.value
        return ended
    finally:
        script.close()  # a kept traceback holds the script, and what it has under way would stay so
