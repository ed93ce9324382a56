"""`use_cassette`: answers from a file instead of a server, around a block or a function, sync or async."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload
from urllib.parse import urlsplit
from zlib import crc32

from shim._run.system import SystemClock
from shim.testing.cassette import Cassette, Mode, mode_of
from shim.testing.matching import ASPECTS
from shim.testing.scrubbing import Scrubber, secrets_in

F = TypeVar("F", bound=Callable[..., Any])
RECORD_VARIABLE = "SHIM_RECORD"

_default: Mode | None = None


def set_default_mode(mode: str | Mode | None) -> None:
    """The record mode of cassettes that name none: `none` unless this, or `$SHIM_RECORD`, says otherwise."""
    global _default
    _default = None if mode is None else mode_of(mode)


def default_mode() -> Mode:
    """The record mode of cassettes that name none."""
    return _default or mode_of(os.environ.get(RECORD_VARIABLE) or Mode.NONE)


class use_cassette:  # noqa: N801 - the name that users of vcrpy know
    """Answer the requests of any httpx or httpx2 client, and so of every OpenAI client, from a cassette.

        with use_cassette("cassettes/chat.yaml") as cassette: ...    # `async with` as well
        @use_cassette("cassettes/chat.yaml")                         # sync and async functions
        @use_cassette()                                              # cassettes/<file>/<function>.yaml beside the file

    `record`: `none` (the default: an unrecorded request raises `UnrecordedRequest`), `once`, `new` or `all`. What is
    recorded is saved when the block ends without an exception. `hosts` gives servers on changing ports a name that
    stays: `{"http://127.0.0.1:41873": "http://lab.invalid"}`. `repeats`: the last recording answers again and again.
    `match`: what a recording must have in common with a request, of `method`, `host`, `path` and `body`; with none of
    them every request gets the next one. `all_used`: the block fails with `UnusedRecordings` where a recording was not
    asked for. `secrets`: texts to mask besides all keys that are found. `keep_headers`: answer headers to keep besides
    those that are always kept. `about`: what the cassette says of itself, such as `{"server": "llama-server b7000"}`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        record: str | Mode | None = None,
        hosts: Mapping[str, str] | None = None,
        repeats: bool = False,
        match: Collection[str] = ASPECTS,
        all_used: bool = False,
        secrets: Collection[str] = (),
        keep_headers: Collection[str] = (),
        about: Mapping[str, Any] | None = None,
    ) -> None:
        if callable(path):
            raise TypeError("use_cassette: write @use_cassette(), with brackets")
        self._path = None if path is None else Path(path).expanduser()
        self._record = None if record is None else mode_of(record)
        self._hosts = {_base(old): _base(new) for old, new in (hosts or {}).items()}
        self._repeats = repeats
        self._match = match
        self._all_used = all_used
        self._secrets = tuple(secrets)
        self._keep_headers = tuple(keep_headers)
        self._about = about
        self._open: list[Cassette] = []

    # -- around a block

    def __enter__(self) -> Cassette:
        from shim.testing.deck import DECK

        cassette = self._made()
        DECK.open(cassette)
        self._open.append(cassette)
        return cassette

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        from shim.testing.deck import DECK

        cassette = self._open.pop()
        DECK.close(cassette)
        if error is None:
            cassette.save()
            if self._all_used:
                cassette.must_be_used_up()

    async def __aenter__(self) -> Cassette:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, at)

    # -- around a function

    @overload
    def __call__(self, function: F) -> F: ...

    @overload
    def __call__(self, function: Any) -> Any: ...

    def __call__(self, function: Any) -> Any:
        """Every call of the function opens the cassette anew."""
        if isinstance(function, classmethod | staticmethod):
            return type(function)(self(function.__func__))
        for kind, is_it in (("class", inspect.isclass), ("generator", _is_generator)):
            if is_it(function):
                raise TypeError(
                    f"use_cassette: decorates functions, {function.__name__} is a {kind}; use a block there"
                )

        @functools.wraps(function)
        def plain(*arguments: Any, **named: Any) -> Any:
            with self._for(function):
                return function(*arguments, **named)

        @functools.wraps(function)
        async def awaited(*arguments: Any, **named: Any) -> Any:
            with self._for(function):
                return await function(*arguments, **named)

        return awaited if inspect.iscoroutinefunction(function) else plain

    def _for(self, function: Callable[..., Any]) -> Self:
        """A fresh one, since calls of a function may overlap."""
        fresh = type(self).__new__(type(self))
        fresh.__dict__ = {**self.__dict__, "_open": []}
        if fresh._path is None:
            fresh._path = path_for(Path(inspect.getfile(function)), function.__qualname__)
        return fresh

    def _made(self) -> Cassette:
        if self._path is None:
            raise TypeError("use_cassette: a block needs the path of a cassette; only a function has one of its own")
        mode = self._record or default_mode()
        about = self._about
        if mode is not Mode.NONE:
            about = {"recorded_at": f"{datetime.fromtimestamp(SystemClock().wall(), UTC):%Y-%m-%d}", **(about or {})}
        return Cassette(
            self._path,
            mode,
            scrubber=Scrubber({*self._secrets, *secrets_in(os.environ)}, self._keep_headers),
            renamed=self._renamed,
            repeats=self._repeats,
            match=self._match,
            about=about,
        )

    def _renamed(self, url: str) -> str:
        if not self._hosts:
            return url
        base = _base(url)
        new = self._hosts.get(base)
        return url if new is None else new + url[len(base) :]


def _is_generator(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


_LONGEST_NAME = 200  # bytes: file systems take 255, and what is written for a moment beside it has a longer one


def path_for(file: Path, name: str) -> Path:
    """The cassette of a function or a test: `cassettes/<file>/<name>.yaml` beside the file that it stands in.

    A name that no file can have is written without what it cannot have, and with a number that keeps it apart from
    others which would be written alike: `test[a/b]` and `test[a-b]` share no cassette.
    """
    name = name.replace(".<locals>", "")
    plain = name.replace("[", "-", 1).removesuffix("]")
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in plain).strip("-")
    if safe != plain or len(safe.encode()) > _LONGEST_NAME:
        short = safe.encode()[:_LONGEST_NAME].decode("utf-8", "ignore")
        safe = f"{short}-{crc32(name.encode('utf-8', 'surrogatepass')):08x}"
    return file.parent / "cassettes" / file.stem / f"{safe}.yaml"


def _base(url: str) -> str:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
