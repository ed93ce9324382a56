"""The exceptions of this package. Every one that a call can raise is also an official `openai` exception.

ValueError
    ConfigError                      the configuration is wrong; lists every problem with its path
openai.APIError
    StreamInterruptedError           a stream failed after its first content; `.partial` holds the text so far
        StreamTimeoutError           ... because it stalled (also openai.APITimeoutError)
        StreamConnectionError        ... because the connection broke (also openai.APIConnectionError)
openai.InternalServerError
    AllProvidersFailedError          no route of the family could serve the call (503)
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

import openai

from shim.config_error import ConfigError

if TYPE_CHECKING:
    from shim.events import Attempt, Call

__all__ = [
    "AllProvidersFailedError",
    "ConfigError",
    "StreamConnectionError",
    "StreamInterruptedError",
    "StreamTimeoutError",
    "exhausted_error_class",
]


class AllProvidersFailedError(openai.InternalServerError):
    """No route of the family could serve the call: status 503, never retried by the client.

    `family` is its name, `attempts` every attempt in order, `retry_at` the unix time at which the soonest route is
    back (None when none is known to come back). When all attempts failed the same way the exception is also an instance
    of that official class (`openai.RateLimitError`, `openai.APITimeoutError`, ...): existing `except` clauses work.
    """

    call: Call

    def __init__(self, message: str, *, response: Any, body: object | None, call: Call) -> None:
        if isinstance(body, dict) and isinstance(body.get("message"), str):
            message = body["message"]  # to the letter: the official client puts the status before it
        # Not APIStatusError's own: where a timeout or a connection error is mixed in, its super() is theirs.
        openai.APIError.__init__(self, message, response.request, body=body)
        request_id = response.headers.get("x-request-id")
        vars(self).update(response=response, status_code=response.status_code, request_id=request_id)
        self.call = call

    @property
    def family(self) -> str:
        return self.call.family

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return self.call.attempts

    @property
    def retry_at(self) -> float | None:
        return self.call.retry_at

    def __reduce__(self) -> tuple[Any, ...]:
        extra = next((base for base in _COMMON.values() if isinstance(self, base)), None)
        return (_rebuild, (extra, self.message, self.body, self.call, self.status_code))


_COMMON: dict[str, type[openai.APIError]] = {
    "400": openai.BadRequestError,
    "401": openai.AuthenticationError,
    "403": openai.PermissionDeniedError,
    "404": openai.NotFoundError,
    "409": openai.ConflictError,
    "422": openai.UnprocessableEntityError,
    "429": openai.RateLimitError,
    "timeout": openai.APITimeoutError,
    "connection": openai.APIConnectionError,
}


def _also(common: type[openai.APIError]) -> type[AllProvidersFailedError]:
    made = _MADE.get(common)
    if made is None:
        made = type("AllProvidersFailedError", (AllProvidersFailedError, common), {"__module__": __name__})
        _MADE[common] = made
    return made


_MADE: dict[type[openai.APIError], type[AllProvidersFailedError]] = {}


def exhausted_error_class(common: str | None) -> type[AllProvidersFailedError]:
    """The class to raise when all attempts failed in the way that `common` names.

    `common` is a status as text, `timeout`, `connection`, or None when they did not agree. A class that carries an
    official one as well is made once and kept.
    """
    official = _COMMON.get(common or "")
    return AllProvidersFailedError if official is None else _also(official)


class _Answer:
    """Stands for the HTTP response of an exception that came out of a pickle."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code
        self.headers: dict[str, str] = {}
        self.request = None


def _rebuild(
    common: type[openai.APIError] | None, message: str, body: object | None, call: Call, status: int
) -> AllProvidersFailedError:
    cls = AllProvidersFailedError if common is None else _also(common)
    return cls(message, response=_Answer(status), body=body, call=call)


class StreamInterruptedError(openai.APIError):
    """A stream failed after its first content had been handed on. Nothing is replayed.

    `partial` is the text that had arrived. `call` is the record of the call, with the failed attempt last.
    """

    partial: str
    call: Call

    def __init__(self, message: str, *, request: Any, body: object | None, partial: str, call: Call) -> None:
        openai.APIError.__init__(self, message, request, body=body)
        self.partial = partial
        self.call = call


class StreamTimeoutError(StreamInterruptedError, openai.APITimeoutError):
    """A stream that had begun brought no event within `idle_timeout` seconds."""


class StreamConnectionError(StreamInterruptedError, openai.APIConnectionError):
    """The connection of a stream that had begun broke."""


def _reduce_stream(error: StreamInterruptedError) -> tuple[Any, ...]:
    return (_rebuild_stream, (type(error), error.message, error.body, error.partial, error.call))


def _rebuild_stream(
    cls: type[StreamInterruptedError], message: str, body: object | None, partial: str, call: Call
) -> StreamInterruptedError:
    return cls(message, request=None, body=body, partial=partial, call=call)


for _cls in (StreamInterruptedError, StreamTimeoutError, StreamConnectionError):
    copyreg.pickle(_cls, _reduce_stream)
