"""An open cassette: hands out recordings, each once and in order, takes in new ones, is saved when all went well."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

from shim.testing import storage
from shim.testing.matching import ASPECTS, Key, differences, distance, key_of
from shim.testing.recording import NO_ANSWER, Asked, CassetteError, Recording, Said
from shim.testing.scrubbing import Scrubber

_NEAREST = 3


class Mode(str, Enum):
    """Whether requests may reach a server."""

    NONE = "none"
    """Never: what is not recorded is an error."""
    ONCE = "once"
    """Only while there is no cassette yet."""
    NEW = "new"
    """Only those that are not recorded."""
    ALL = "all"
    """All of them; the cassette is replaced."""


class UnrecordedRequest(BaseException):
    """A request that the cassette has no answer for, with the nearest recordings and what differs.

    Not an `Exception`, as the failures of pytest are none: the official client (openai 2.x) would retry it three times
    and report a connection error, a router would move to the next provider, and the message would be lost.
    """

    def __init__(self, message: str, asked: Asked) -> None:
        super().__init__(message)
        self.asked = asked


class UnusedRecordings(AssertionError):
    """A cassette holds recordings that nothing asked for."""


class Cassette:
    """One cassette under way. Safe to use from several threads and tasks at once.

    Equal requests get their recordings in the order in which they were recorded; different ones do not wait for each
    other, so the timing of threads decides nothing.
    """

    def __init__(
        self,
        path: Path,
        mode: Mode,
        *,
        scrubber: Scrubber,
        renamed: Callable[[str], str] = lambda url: url,
        repeats: bool = False,
        match: Collection[str] = ASPECTS,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.mode = mode
        self.metadata: dict[str, Any] = {}
        self.recordings: tuple[Recording, ...] = ()
        self._scrubber = scrubber
        self._renamed = renamed
        self._repeats = repeats
        self._match = _checked(match)
        self._about = dict(about or {})
        self._lock = threading.Lock()
        self._tickets = itertools.count()
        self._new: list[tuple[int, Recording]] = []
        self._under_way: dict[int, Asked] = {}
        self._waiting: dict[Key, deque[int]] = defaultdict(deque)
        self._played: list[int] = []
        self._is_new = True
        self._load()

    def _load(self) -> None:
        try:
            metadata, recordings = storage.read(self.path)
        except FileNotFoundError:
            return
        self._is_new = not recordings
        if self.mode is Mode.ALL:
            return
        self.metadata = metadata
        self.recordings = tuple(recordings)
        for number, recording in enumerate(recordings):
            self._waiting[self._key(recording.asked)].append(number)

    # -- what happened

    @property
    def played(self) -> tuple[Recording, ...]:
        """The recordings that answered something, in the order in which they did."""
        return tuple(self.recordings[number] for number in self._played)

    @property
    def unused(self) -> tuple[Recording, ...]:
        """The recordings that nothing asked for."""
        played = set(self._played)
        return tuple(one for number, one in enumerate(self.recordings) if number not in played)

    @property
    def new(self) -> tuple[Recording, ...]:
        """What was recorded since the cassette was opened, in the order in which the requests were made."""
        return tuple(recording for _, recording in sorted(self._new, key=lambda pair: pair[0]))

    def __repr__(self) -> str:
        return (
            f"<Cassette {str(self.path)!r} (record={self.mode.value}): {len(self.recordings)} recorded, "
            f"{len(self._played)} played, {len(self._new)} new>"
        )

    # -- playing and recording

    @property
    def may_record(self) -> bool:
        """Whether a request that is not recorded may go to its server."""
        return self.mode in (Mode.NEW, Mode.ALL) or (self.mode is Mode.ONCE and self._is_new)

    def play(self, asked: Asked) -> Said | None:
        """The next answer to this request; None when it is to be asked for. Raises `UnrecordedRequest`."""
        request = self._as_written(asked)
        key = key_of(request, self._match)
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting:
                number = waiting[0] if self._repeats and len(waiting) == 1 else waiting.popleft()
                self._played.append(number)
                return self.recordings[number].said
        if self.may_record:
            return None
        raise UnrecordedRequest(self._complaint(request, key), request)

    def ask(self, asked: Asked) -> int:
        """A request is about to be made; its number, for `record`."""
        number = next(self._tickets)
        with self._lock:
            self._under_way[number] = asked
        return number

    def record(self, number: int, said: Said) -> None:
        """Keep the answer to a request, without anything that belongs to an account."""
        with self._lock:
            asked = self._under_way.pop(number, None)
        if asked is None:
            return  # it came after the block had ended
        renamed = Asked(asked.method, self._renamed(asked.url), asked.headers, asked.body)
        headers = tuple((name, self._renamed(value) if name == "location" else value) for name, value in said.headers)
        recording, _ = self._scrubber.scrub(Recording(renamed, replace(said, headers=headers)))
        with self._lock:
            self._new.append((number, recording))

    def say(self, **about: Any) -> None:
        """Let the cassette say more of itself, when it is saved."""
        self._about.update(about)

    def save(self) -> None:
        """Write what was recorded; nothing where nothing was. Raises `OSError` where the place cannot be written.

        A request that brought no answer (it failed beneath HTTP, ran into a limit, lost a race) is kept as that.
        """
        for number in list(self._under_way):
            self.record(number, NO_ANSWER)
        if not self._new:
            return
        metadata = {"source": storage.RECORDED, **self.metadata, **self._about}
        storage.write(self.path, metadata, [*self.recordings, *self.new])

    def must_be_used_up(self) -> None:
        """Raise `UnusedRecordings` naming every recording that nothing asked for."""
        unused = self.unused
        if unused:
            listed = "\n".join(f"  {_number(self, one)}. {one.asked}" for one in unused)
            raise UnusedRecordings(
                f"{self.path}: {len(unused)} of {len(self.recordings)} recordings were not asked for:\n{listed}\n"
                "Record the cassette again (record='all'), or take them out."
            )

    # -- inside

    def _as_written(self, asked: Asked) -> Asked:
        return self._scrubber.asked(Asked(asked.method, self._renamed(asked.url), asked.headers, asked.body))

    def _key(self, recorded: Asked) -> Key:
        return key_of(self._as_written(recorded), self._match)

    def _complaint(self, asked: Asked, key: Key) -> str:
        lines = [f"{self.path}: no recording answers {asked}", ""]
        used_up = [number for number, one in enumerate(self.recordings) if self._key(one.asked) == key]
        if used_up:
            lines.append(f"It was recorded {len(used_up)} times, and that often it was answered already.")
        elif not self.recordings:
            lines.append("There is no cassette here yet." if self._is_new else "The cassette is empty.")
        else:
            lines += self._nearest(asked)
        lines += [
            "",
            f"The record mode is '{self.mode.value}', so nothing is sent. To record it: "
            "pytest --shim-record=new, or use_cassette(..., record='new').",
        ]
        if used_up:
            lines.append("To answer it again and again: use_cassette(..., repeats=True).")
        return "\n".join(lines)

    def _nearest(self, asked: Asked) -> list[str]:
        near = sorted(self.recordings, key=lambda one: distance(asked, self._as_written(one.asked)))[:_NEAREST]
        lines = [f"Nearest of its {len(self.recordings)} recordings:"]
        unused = {id(one) for one in self.unused}
        for one in near:
            played = "" if id(one) in unused else ", played already"
            lines.append(f"  {_number(self, one)}. {one.asked} ({one.said.status}{played})")
            lines += [f"       {line}" for line in differences(asked, self._as_written(one.asked), self._match)]
        return lines


def _number(cassette: Cassette, recording: Recording) -> int:
    """The place of a recording in its file, from 1."""
    return 1 + next(number for number, one in enumerate(cassette.recordings) if one is recording)


def _checked(match: Collection[str]) -> tuple[str, ...]:
    unknown = [name for name in match if name not in ASPECTS]
    if unknown or isinstance(match, str):
        raise CassetteError(f"match: {unknown or match!r} is none of {', '.join(ASPECTS)}; give a list of those")
    return tuple(match)


def mode_of(name: str | Mode) -> Mode:
    """The record mode of that name. Raises `CassetteError` for another word."""
    try:
        return Mode(name)
    except ValueError:
        known = ", ".join(mode.value for mode in Mode)
        raise CassetteError(f"record: unknown mode {name!r}; there are: {known}") from None
