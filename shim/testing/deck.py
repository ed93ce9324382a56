"""What plays cassettes: stands where an HTTP library would send, in httpx and httpx2, while any cassette is open.

vcrpy patches the libraries' transports. It is handed one object for all cassettes, so that tasks and threads may open
and close them in any order. A request goes to the cassette that its own task or thread opened last, else to the one
that was opened last anywhere.
"""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any

from shim._run.references import Apart
from shim.testing.cassette import Cassette
from shim.testing.pieces import event_by_event
from shim.testing.recording import NO_ANSWER, Asked, Said

try:
    from vcr.patch import PATCHER_NAMES, CassettePatcherBuilder
except ImportError as missing:
    raise ImportError("cassettes need vcrpy 9: pip install 'openai-shim[testing]'") from missing

_opened_here: ContextVar[tuple[Cassette, ...]] = ContextVar("_opened_here", default=())


def _nowhere() -> None:
    """No cassette is open."""


class Deck:
    """The cassettes that are open in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[Cassette] = []
        self._patches: ExitStack | None = None

    def open(self, cassette: Cassette) -> None:
        """Requests of this task or thread go to `cassette` from now on."""
        with self._lock:
            self._open.append(cassette)
            if self._patches is None:
                self._patches = self._patched()
                Apart.within = self.current
        _opened_here.set((*_opened_here.get(), cassette))

    def close(self, cassette: Cassette) -> None:
        """Put a cassette away. With the last one the libraries are as they were."""
        with self._lock:
            self._open = [one for one in self._open if one is not cassette]
            if not self._open and self._patches is not None:
                self._patches.close()
                self._patches = None
                Apart.within = _nowhere
        _opened_here.set(tuple(one for one in _opened_here.get() if one is not cassette))

    def current(self) -> Cassette | None:
        """The cassette that a request made here goes to; None for one that comes when all are closed."""
        is_open = self._open
        for cassette in reversed(_opened_here.get()):
            if cassette in is_open:
                return cassette
        return is_open[-1] if is_open else None

    def _patched(self) -> ExitStack:
        with ExitStack() as patches:
            for library in ("httpx2", "httpx"):
                for patch in CassettePatcherBuilder(_Face(self, library)).build():
                    patches.enter_context(patch)
                if library in sys.modules:
                    for patch in event_by_event(sys.modules[library]):
                        patches.enter_context(patch)
            return patches.pop_all()


class _Face:
    """The deck as vcrpy wants a cassette to be, for one library. The names are vcrpy's.

    For each request it asks `can_play_response_for` and then, in the same breath, `play_response`; or it sends the
    request and calls `append` with the answer.
    """

    _path = "shim"
    custom_patches = ()
    write_protected = False  # `Cassette.play` raises where nothing may be sent, with a better message

    def __init__(self, deck: Deck, library: str) -> None:
        self._deck = deck
        self._library = library
        self.skip_patchers = tuple(name for name in PATCHER_NAMES if name != library)

    def can_play_response_for(self, request: Any) -> bool:
        cassette = self._deck.current()
        if cassette is None:  # another thread closed the last one while this request was on its way
            request.shim = None
            return False
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Asked(request.method, request.uri, headers, request.body or b"")
        said = cassette.play(asked)
        request.shim = said or (cassette, cassette.ask(asked))
        return said is not None

    def play_response(self, request: Any) -> dict[str, Any]:
        said: Said = request.shim
        if said == NO_ANSWER:
            raise sys.modules[self._library].ReadTimeout(said.phrase)
        headers: dict[str, list[str]] = {}
        for name, value in said.headers:
            headers.setdefault(name, []).append(value)
        status = {"code": said.status, "message": said.phrase}
        return {"status": status, "headers": headers, "body": {"string": said.body}}

    def filter_request(self, request: Any) -> Any:
        return request

    def append(self, request: Any, response: dict[str, Any]) -> None:
        if request.shim is None:
            return
        cassette, number = request.shim
        status = response["status"]
        headers = tuple((name.lower(), value) for name, values in response["headers"].items() for value in values)
        said = Said(status["code"], headers, response["body"]["string"], status["message"] or "")
        cassette.record(number, self._decoded(said))

    def _decoded(self, said: Said) -> Said:
        """The answer without its content-encoding, by the library's own decoders; as it is where that fails."""
        kept = tuple(pair for pair in said.headers if pair[0] != "content-encoding")
        if kept == said.headers:
            return said
        library: Any = sys.modules[self._library]
        try:
            response = library.Response(said.status, headers=list(said.headers), content=said.body)
            return Said(said.status, kept, response.content, said.phrase)
        except library.DecodingError:
            return said


DECK = Deck()
"""The one of this process."""
