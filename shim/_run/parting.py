"""What is said when no route could serve a call: the words of the last attempt, or of those who could not be asked."""

from __future__ import annotations

from shim._core import exhausted
from shim._core.call import FOREVER
from shim._core.plan import Plan
from shim.events import Attempt, Call


def message_of(plan: Plan, call: Call, now: float) -> str:
    """The message of the 503, to the letter of the contract; keys are not masked yet."""
    if not plan.lanes:
        return exhausted.nobody_message(call.kind, call.family, plan.skipped)
    return exhausted.message_for(call.kind, call.family, _last_words(plan, call, now))


def common_way(plan: Plan, attempts: tuple[Attempt, ...]) -> str | None:
    """How all attempts failed, if in the same way; where none was made, how those did that keep the routes out."""
    if any(attempt.verdict is not None for attempt in attempts):
        return exhausted.common_way(attempts)
    ways = {slot.route.health.last_way for slot in plan.slots}
    return ways.pop() if len(ways) == 1 else None


def _last_words(plan: Plan, call: Call, now: float) -> str:
    if any(attempt.verdict is not None for attempt in call.attempts):
        return exhausted.last_words(call.attempts)
    words = []
    for slot in plan.slots:
        health = slot.route.health
        back = health.ready_at(slot.key, now)
        until = f"back in {back - now:.0f} s" if back < FOREVER else "out until it is reset"
        words.append(f"{health.name} is {until} ({health.last_reason or 'forced open'}: {health.last_message})")
    return "no attempt was made; " + "; ".join(dict.fromkeys(words))
