"""Runs a call in the caller's own thread, one attempt at a time; a race goes to the background loop."""

from __future__ import annotations

from shim._core.call import Cancel, Finish, Start, Wait
from shim._core.outcome import Judgement
from shim._run import background
from shim._run.exchange import Exchange, Reply, Send, Together
from shim._run.flight import Flight, Script
from shim._run.system import Clock


def run(flight: Flight, send: Send, clock: Clock) -> None:
    """Returns when the call is over; `flight` then tells how. Interrupts pass through, after the permits came back."""
    if flight.is_concurrent:
        background.run(flight, send, clock)
        return
    try:
        _run(flight, send, clock)
    except BaseException:  # also KeyboardInterrupt: nobody's failure, but permits must come back
        flight.abandon()
        raise


def _run(flight: Flight, send: Send, clock: Clock) -> None:
    actions = flight.begin()
    while True:
        until = None
        for action in actions:
            match action:
                case Start(number=number):
                    actions = flight.settle(number, carry_out(flight.script(number), send, clock))
                    break
                case Finish():
                    return
                case Wait(until=at):
                    until = at
                case Cancel():
                    pass  # one attempt at a time: there is no other
        else:
            clock.wait((until if until is not None else clock.now()) - clock.now())
            actions = flight.wake()


def carry_out(script: Script, send: Send, clock: Clock) -> Reply | Judgement:
    """Do what the script of an attempt asks, step by step."""
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
        value: Reply | Judgement = stop.value
        return value
    finally:
        script.close()  # a kept traceback holds the script, and what it has under way would stay so
