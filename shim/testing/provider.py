"""A provider that says what a script says: without any network, or behind a real socket on loopback."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from shim._core.fault_steps import Break, Rest
from shim._core.faults import FaultProfile, Injection
from shim._core.outcome import Fault
from shim._run.injections import Injections
from shim._run.system import Clock, SystemClock
from shim.testing.answers import Answer, Word, altered, embeds, says
from shim.testing.recording import Asked
from shim.testing.server import PATIENCE, Peer, Seen, Server

MODEL = "m"
"""The model that a configuration made here asks a scripted provider for; it answers to every name."""


def anything(asked: Asked) -> Answer:
    """Embeds what is to be embedded and says `pong` to all else."""
    return (embeds() if asked.parts.path.endswith("/embeddings") else says())(asked)


class FakeProvider:
    """Answers with `words` in their order, the last one again and again; without any it embeds, and says `pong`.

        with FakeProvider(rate_limited(30), says("hello"), name="lab") as lab:
            OpenAI(base_url=lab.base_url, api_key="any")  # or a router with lab.base_url

    As a context manager, and as long as that is open, requests of any httpx or httpx2 client to `base_url` come here
    instead of to the network, from all threads. `serve` puts the same behind a real socket. `seen` are the requests in
    order. `clock` is what rests take their time from. `model` names what a configuration made from it asks for.
    Raises `TypeError` for what is no word.
    """

    def __init__(
        self, *words: Word, name: str = "fake", model: str = MODEL, clock: Clock | None = None, is_served: bool = False
    ) -> None:
        for word in words:
            if not callable(word):
                raise TypeError(f"FakeProvider: takes words such as says('hello') or rate_limited(30), got {word!r}")
        self.name = name
        self.model = model
        self.seen: list[Asked] = []
        self.clock: Clock = clock or SystemClock()
        self.server: Server | None = Server(self._perform) if is_served else None
        self._words: Sequence[Word] = words or (anything,)
        self._lock = threading.Lock()
        self._injections = Injections(self.clock)

    @property
    def base_url(self) -> str:
        """What a client or a configuration takes as `base_url`, with `/v1`."""
        return f"https://{self.name}.invalid/v1" if self.server is None else self.server.base_url

    def __call__(self, asked: Asked) -> Answer:
        """The answer to a request."""
        with self._lock:
            number = len(self.seen)
            self.seen.append(asked)
        word = self._words[min(number, len(self._words) - 1)]
        answer: object = word(asked)
        if not isinstance(answer, Answer):
            name = getattr(word, "__name__", "a word")
            raise TypeError(f"FakeProvider: {name} made no answer but {type(answer).__name__}; is it {name}(...)?")
        met = self._injections.meet(self.name, self.model)
        return answer if met is None else altered(answer, met.effect)

    # -- faults

    def add_faults(self, *profiles: FaultProfile) -> Injection:
        """Let answers meet these faults; `faults.inject` calls it, and takes them away again."""
        return self._injections.add(profiles)

    def remove_faults(self, injection: Injection) -> None:
        """Let it be."""
        self._injections.remove(injection)

    # -- its time

    def __enter__(self) -> Self:
        if self.server is None:
            from shim.testing.mounts import mount

            mount(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Answer no more. A second call does nothing."""
        if self.server is None:
            from shim.testing.mounts import unmount

            unmount(self)
        else:
            self.server.close()

    def __repr__(self) -> str:
        return f"<FakeProvider {self.name!r} at {self.base_url}: {len(self.seen)} requests seen>"

    # -- behind a socket

    def _perform(self, request: Seen, peer: Peer) -> None:
        url = f"{self.base_url.removesuffix('/v1')}{request.path}"
        answer = self(Asked(request.method, url, request.headers, request.body))
        if answer.delay and self._rests(answer.delay, peer):
            return
        if answer.status is None:
            _break_off(answer.parts[0] if answer.parts else Break(Fault.RESET), peer)
        elif answer.is_whole:
            peer.answer(answer.status, answer.body, answer.headers)
        else:
            self._stream(answer, peer)

    def _stream(self, answer: Answer, peer: Peer) -> None:
        peer.begin(answer.status or 200, answer.headers)
        for part in answer.parts:
            match part:
                case bytes():
                    if part:
                        peer.chunk(part)
                case Rest(seconds=seconds):
                    if self._rests(seconds, peer):
                        return
                case Break(fault=None):
                    break
                case Break():
                    return _break_off(part, peer)
        peer.end()

    def _rests(self, seconds: float, peer: Peer) -> bool:
        """Whether the client went away meanwhile. On another clock than the system's no time passes here."""
        if not isinstance(self.clock, SystemClock):
            self.clock.wait(seconds)
            return False
        if not peer.is_gone(min(seconds, PATIENCE * 15)):
            return False
        peer.close()
        return True


def _break_off(step: object, peer: Peer) -> None:
    """End a connection as a fault asks: by a reset, or by silence."""
    fault = step.fault if isinstance(step, Break) else None
    if fault in (Fault.TIMEOUT, Fault.FIRST_CHUNK_TIMEOUT, Fault.STALL, Fault.CONNECT_TIMEOUT):
        peer.hang()
    else:
        peer.reset()


def serve(*words: Word, name: str = "served", model: str = MODEL, clock: Clock | None = None) -> FakeProvider:
    """A `FakeProvider` behind a real socket on loopback, listening already: for what goes through other processes and
    other libraries. Ends with `close()`, or as a context manager."""
    return FakeProvider(*words, name=name, model=model, clock=clock, is_served=True)
