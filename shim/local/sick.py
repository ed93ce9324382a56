"""Makes a healthy handler ill for its first requests, or for as long as one likes: for demonstrations and tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping

Answer = tuple[int, list[tuple[str, str]], bytes]
Handler = Callable[[str, str, Mapping[str, str], bytes], Answer]
"""Method, path with query, headers with lower-case names, body; gives status, headers, body."""
Illness = Callable[[threading.Event], "Answer | None"]
"""Answers badly; None hands the request on to the healthy handler. The event is set when the server closes."""


class Sick:
    """A handler that answers badly the first `times` requests, and then whenever `ill` is set; otherwise healthily.

    Wrappers may be nested. `refused` counts the bad answers. May be called from several threads.
    """

    def __init__(self, handler: Handler, times: int, illness: Illness) -> None:
        self.ill: threading.Event = threading.Event()
        self.refused: int = 0
        self._handler = handler
        self._left = times
        self._illness = illness
        self._released = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if self._is_ill():
            answer = self._illness(self._released)
            if answer is not None:
                return answer
        return self._handler(method, path, headers, body)

    def release(self) -> None:
        """Frees every request that hangs, here and in the handlers beneath."""
        self._released.set()
        release(self._handler)

    def _is_ill(self) -> bool:
        with self._lock:
            counted = self._left > 0
            self._left -= counted
            ill = counted or self.ill.is_set()
            self.refused += ill
            return ill


def release(handler: Handler) -> None:
    """Frees what hangs in a handler, if it is one that can hang."""
    if isinstance(handler, Sick):
        handler.release()


def rate_limited(handler: Handler, times: int, retry_after: float) -> Sick:
    """429 with `Retry-After` in seconds and OpenAI's error shape."""
    headers = [("retry-after", f"{retry_after:g}")]
    answer = _error(429, "Rate limit reached for requests", "requests", "rate_limit_exceeded", headers)
    return Sick(handler, times, lambda _: answer)


def failing(handler: Handler, times: int, status: int) -> Sick:
    """An error of that status in OpenAI's shape."""
    answer = _error(status, f"The server answered {status} on purpose.", "server_error", None, [])
    return Sick(handler, times, lambda _: answer)


def hanging(handler: Handler, times: int, seconds: float) -> Sick:
    """Says nothing for `seconds`, then answers healthily; released before that, answers 503 at once."""
    closing = _error(503, "The server is closing.", "server_error", None, [])

    def hang(released: threading.Event) -> Answer | None:
        return closing if released.wait(seconds) else None

    return Sick(handler, times, hang)


def _error(status: int, message: str, kind: str, code: str | None, headers: list[tuple[str, str]]) -> Answer:
    body = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()
    return status, [("content-type", "application/json"), *headers], body
