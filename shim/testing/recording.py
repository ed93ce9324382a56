"""One recorded exchange: a request as it was sent and the answer as it came, without keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit


class CassetteError(Exception):
    """A cassette cannot be read or written; the message names the file, the place in it and the way out."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. Header names are lower-case; `url` is whole."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def parts(self) -> SplitResult:
        """The URL taken apart."""
        return urlsplit(self.url)

    @property
    def json(self) -> object:
        """The body as JSON. Raises `ValueError` where it is none."""
        return json.loads(self.body)

    def __str__(self) -> str:
        return f"{self.method} {self.url}"


@dataclass(frozen=True, slots=True)
class Said:
    """An answer. Header names are lower-case, a repeated one stands repeatedly; `body` has no content-encoding."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    phrase: str = ""

    @property
    def content_type(self) -> str:
        """The media type, without parameters; "" where none is named."""
        for name, value in self.headers:
            if name == "content-type":
                return value.partition(";")[0].strip().lower()
        return ""


NO_ANSWER = Said(0, phrase="no answer: it failed beneath HTTP, or was given up")
"""What is kept of a request that brought no answer. It replays as a timeout, in no time."""


@dataclass(frozen=True, slots=True)
class Recording:
    """An exchange of a cassette."""

    asked: Asked
    said: Said
