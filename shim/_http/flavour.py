"""Which HTTP library a client belongs to, found from the client's own class: openai 3.x takes both, and `httpx` may be
an alias of `httpx2`."""

from __future__ import annotations

import ssl
import sys
from functools import cache
from types import ModuleType
from typing import Any, assert_never

import anyio

from shim._core.outcome import Fault, Outcome
from shim._http.intake import lower


class Flavour:
    """One of the two libraries: its module and what its exceptions mean."""

    def __init__(self, module: ModuleType) -> None:
        self.module: Any = module
        self.caught: tuple[type[BaseException], ...] = (
            self.module.HTTPError,  # also what a caller's event hook raises with raise_for_status
            self.module.StreamError,
            self.module.InvalidURL,
            OSError,  # of a caller's own transport, and of TLS
            UnicodeError,  # a host name that cannot be encoded
            anyio.EndOfStream,
        )
        self.request = self._quick_request if self._is_as_expected() else self._full_request

    def _full_request(
        self, method: str, url: Any, headers: list[tuple[bytes, bytes]], body: bytes, extensions: dict[str, Any]
    ) -> Any:
        """A request, by the library's own constructor."""
        made = self.module.Request(method, url, headers=headers, content=body, extensions=extensions)
        made.url = url  # the constructor makes a plain one of it
        return made

    def _quick_request(
        self, method: str, url: Any, headers: list[tuple[bytes, bytes]], body: bytes, extensions: dict[str, Any]
    ) -> Any:
        """The same request without parsing the URL and the headers again: a tenth of the time."""
        hx = self.module
        made = hx.Request.__new__(hx.Request)
        made.method = method
        made.url = url
        made.headers = hx.Headers()
        made.headers._list = [
            (b"Host", b"host", url.netloc),
            *[(name, name.lower(), value) for name, value in headers],
            (b"Content-Length", b"content-length", b"%d" % len(body)),
        ]
        made.extensions = extensions
        made.stream = hx.ByteStream(body)
        made._content = body
        return made

    def _is_as_expected(self) -> bool:
        """Whether a request made the quick way is what the constructor makes; a later release may differ."""
        arguments: Any = (
            "POST",
            self.module.URL("https://a.invalid/v1?b=c"),
            [(b"Accept", b"*/*")],
            b"{}",
            {"timeout": {}},
        )
        try:
            quick, full = self._quick_request(*arguments), self._full_request(*arguments)
            same = set(vars(quick)) == set(vars(full)) and sorted(quick.headers._list) == sorted(full.headers._list)
        except AttributeError:
            return False
        return same and quick.content == full.content and type(quick.stream) is type(full.stream)

    def outcome(self, error: BaseException, *, is_overdue: bool, during: Fault) -> Outcome:
        """What an exception amounts to. `during` is the fault to name when a limit of ours ended the exchange."""
        hx = self.module
        if is_overdue:
            return Outcome(fault=during)
        detail = str(error) or type(error).__name__
        if isinstance(error, hx.HTTPStatusError):
            return Outcome(error.response.status_code, lower(error.response.headers), detail=detail)
        if isinstance(error, hx.ConnectTimeout):
            return Outcome(fault=Fault.CONNECT_TIMEOUT, detail=detail)
        if isinstance(error, hx.TimeoutException):
            return Outcome(fault=during, detail=detail)
        if isinstance(error, ssl.SSLError) or _is_tls(error):
            return Outcome(fault=Fault.TLS, detail=detail)
        if isinstance(error, TimeoutError):
            return Outcome(fault=during, detail=detail)
        if isinstance(
            error, hx.ConnectError | OSError | UnicodeError | hx.ProxyError | hx.UnsupportedProtocol | hx.InvalidURL
        ):
            return Outcome(fault=Fault.CONNECT, detail=detail)
        if isinstance(error, hx.DecodingError):
            return Outcome(fault=Fault.DECODING, detail=detail)
        if isinstance(error, hx.ProtocolError) and "isconnected" not in detail and "closed" not in detail:
            return Outcome(fault=Fault.PROTOCOL, detail=detail)
        return Outcome(fault=Fault.RESET, detail=detail)

    def error(self, fault: Fault, request: Any, detail: str) -> Exception:
        """The exception of the library that amounts to a fault: the way back from `outcome`."""
        hx = self.module
        made: Exception
        match fault:
            case Fault.CONNECT:
                made = hx.ConnectError(detail, request=request)
            case Fault.CONNECT_TIMEOUT:
                made = hx.ConnectTimeout(detail, request=request)
            case Fault.TLS:
                made = ssl.SSLError(detail)
            case Fault.TIMEOUT | Fault.FIRST_CHUNK_TIMEOUT | Fault.STALL:
                made = hx.ReadTimeout(detail, request=request)
            case Fault.DECODING:
                made = hx.DecodingError(detail, request=request)
            case Fault.PROTOCOL | Fault.TOO_LARGE:
                made = hx.RemoteProtocolError(detail, request=request)
            case Fault.RESET:
                made = hx.ReadError(detail, request=request)
            case _:
                assert_never(fault)
        return made


def _is_tls(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


@cache
def _flavour(module: ModuleType) -> Flavour:
    return Flavour(module)


def flavour_of(client: object) -> Flavour | None:
    """The flavour of an HTTP client, sync or async; None for anything else."""
    for name in ("httpx2", "httpx"):
        module = sys.modules.get(name)
        if module is not None and isinstance(client, (module.Client, module.AsyncClient)):
            return _flavour(module)
    return None
