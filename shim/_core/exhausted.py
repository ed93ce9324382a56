"""The answer when no route could serve a call: its text, its body, its headers (DESIGN.md 2.9)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shim._core.plan import Skipped
from shim.events import Attempt, Kind

STATUS = 503
CODE = "all_providers_failed"

_BY_REASON = {
    "timeout": "timeout",
    "first_chunk_timeout": "timeout",
    "stall": "timeout",
    "connect_timeout": "timeout",  # as the official client raises it
    "connect": "connection",
    "tls": "connection",
    "reset": "connection",
    "protocol": "connection",
}


def last_words(attempts: Sequence[Attempt]) -> str:
    """What the last attempt that was judged said, with who said it."""
    judged = [attempt for attempt in attempts if attempt.verdict is not None]
    if not judged:
        return "no attempt was made"
    last = judged[-1]
    status = f"HTTP {last.status}: " if last.status is not None else ""
    return f"{last.route}: {status}{last.message}"


def message_for(kind: Kind, family: str, last: str) -> str:
    """The message of an exhausted call, to the letter."""
    return f"All providers for {kind.value} family '{family}' failed (last: {last})"


def nobody_message(kind: Kind, family: str, skipped: Sequence[Skipped]) -> str:
    """The message when the plan is empty: nothing could even be tried."""
    missing = "; ".join(f"{skip.route}: {skip.reason}" for skip in skipped) or "the family has no routes"
    return f"No enabled providers for {kind.value} family '{family}' ({missing})"


def common_way(attempts: Sequence[Attempt]) -> str | None:
    """How all attempts failed, if all in the same way: a status as text, `timeout` or `connection`."""
    ways = {way_of(attempt) for attempt in attempts if attempt.verdict is not None}
    return ways.pop() if len(ways) == 1 else None


def way_of(attempt: Attempt) -> str | None:
    """How a failed attempt looks to the official client: a status as text, `timeout` or `connection`."""
    if attempt.status is not None and attempt.status >= 400:
        return str(attempt.status)
    return _BY_REASON.get(attempt.reason)


def body_for(message: str, kind: Kind, family: str, attempts: Sequence[Attempt], retry_after: float | None) -> bytes:
    """The JSON body in OpenAI's error shape, with the attempts beside it."""
    return msgspec.json.encode(
        {
            "error": {
                "message": message,
                "type": "server_error",
                "code": CODE,
                "param": None,
                "family": family,
                "kind": kind.value,
                "retry_after": retry_after,
                "attempts": [
                    {
                        "route": attempt.route,
                        "verdict": attempt.verdict.value if attempt.verdict else None,
                        "reason": attempt.reason,
                        "status": attempt.status,
                        "message": attempt.message,
                        "seconds": round(attempt.duration, 3),
                        **({"rehearsal": True} if attempt.is_rehearsal else {}),
                    }
                    for attempt in attempts
                ],
            }
        }
    )


def headers_for(retry_after: float | None) -> list[tuple[str, str]]:
    """The client must not run the whole chain again: `x-should-retry: false` (read by openai-python since 1.x)."""
    headers = [("content-type", "application/json"), ("x-should-retry", "false")]
    if retry_after is not None:
        headers.append(("retry-after", str(max(0, -int(-retry_after // 1)))))
    return headers


def trail(attempts: Sequence[Attempt]) -> str:
    """The attempts in one header line: `openai/gpt-4o-mini=rate_limit; groq/llama=ok`, at most ten of them."""
    steps = [
        f"{attempt.route}={attempt.reason or 'cancelled'}{' (rehearsal)' if attempt.is_rehearsal else ''}"
        for attempt in attempts[-10:]
    ]
    return "; ".join(steps).encode("ascii", "replace").decode()
