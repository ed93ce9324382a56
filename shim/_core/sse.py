"""An incremental reader of server-sent events: bytes in, events with their places in the stream out.

The rules are WHATWG HTML, section 9.2.6 "Interpreting an event stream". `id` and `retry` are understood and left
aside: a model's stream is never resumed by the client.

Blocks without data are no events by those rules. The official client makes events of them nonetheless and fails on
their empty JSON: `hollow` says where they are.
"""

from __future__ import annotations

import re

import msgspec

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
# A CR is a line end of its own only where no LF follows, else one CRLF would read as a blank line.
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_LEADING_ENDS = re.compile(rb"[\r\n]*")
_FIELDS = frozenset({b"data", b"event", b"id", b"retry"})
_LONGEST_CUT = 3
"""Bytes of a blank line (`\\r\\n\\r\\n`) that may lie before a cut."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event that carries data. A msgspec struct, as it is made once per token of a stream.

    `event` is None where the stream named none. `start` and `end` are offsets in the whole stream: the event's first
    byte, and the byte after its blank line (after the CR, where the CRLF of that line was cut between two chunks).
    """

    event: str | None
    data: bytes
    start: int
    end: int


class SSEParser:
    """Feed it the decoded body in chunks cut anywhere; it holds no more than the unfinished event.

    `settled` is the offset before which every byte belongs to finished events, comments or blank lines. `hollow` holds
    the places, as offsets, of what the official client takes for events and must not be shown.
    """

    __slots__ = ("_buffer", "_has_id", "_searched", "hollow", "settled")

    def __init__(self) -> None:
        self.settled = 0
        self.hollow: list[tuple[int, int]] = []
        self._has_id = False
        self._buffer = bytearray()
        self._searched = 0

    @property
    def pending(self) -> bytes:
        """The bytes of the unfinished event."""
        return bytes(self._buffer)

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that `chunk` completes, in order. Blocks without a `data` field yield none."""
        whole = not self._buffer and chunk[-2:] == b"\n\n" and b"\r" not in chunk
        if whole and (self.settled or not chunk.startswith(_BYTE_ORDER_MARK)):
            return self._whole_events(chunk)
        self._buffer += chunk
        if self.settled == 0 and self._waits_for_mark():
            return []
        return self._buffered_events()

    def _whole_events(self, chunk: bytes) -> list[Event]:
        events = []
        start = self.settled
        for block in chunk[:-2].split(b"\n\n"):
            end = start + len(block) + 2
            if block.startswith(b"data: {") and b"\n" not in block:
                events.append(Event(None, block[6:], start, end))
            elif (event := self._read(block, start, end)) is not None:
                events.append(event)
            start = end
        self.settled += len(chunk)
        return events

    def _buffered_events(self) -> list[Event]:
        events: list[Event] = []
        while True:
            self._skip_ends(_end(_LEADING_ENDS.match(self._buffer)))
            found = _BLANK_LINE.search(self._buffer, self._searched)
            if found is None:
                self._searched = max(0, len(self._buffer) - _LONGEST_CUT)
                return events
            event = self._read(bytes(self._buffer[: found.start()]), self.settled, self.settled + found.end())
            if event is not None:
                events.append(event)
            self._settle(found.end())

    def _read(self, block: bytes, start: int, end: int) -> Event | None:
        event, fields = read_block(block, start, end)
        empty_until = end if event is None else event.start
        # After an id the official client sees an event at every blank line.
        if empty_until > start and (self._has_id or (event is None and fields)):
            self.hollow.append((start, empty_until))
        self._has_id = self._has_id or (event is not None and b"id" in fields)
        return event

    def _skip_ends(self, size: int) -> None:
        if size and self._has_id:
            self.hollow.append((self.settled, self.settled + size))
        self._settle(size)

    def _waits_for_mark(self) -> bool:
        if self._buffer.startswith(_BYTE_ORDER_MARK):
            self._settle(len(_BYTE_ORDER_MARK))
        return bool(self._buffer) and self.settled == 0 and _BYTE_ORDER_MARK.startswith(self._buffer)

    def _settle(self, size: int) -> None:
        if size:
            del self._buffer[:size]
            self.settled += size
            self._searched = 0


def _end(match: re.Match[bytes] | None) -> int:
    return match.end() if match else 0


def read_block(block: bytes, start: int, end: int) -> tuple[Event | None, frozenset[bytes]]:
    """The event of the lines between two blank lines, None where they hold no data; and the fields that have a value.

    An `error` that says nothing more is an event.
    """
    lines = block.lstrip(b"\r\n")
    start += len(block) - len(lines)
    name = None
    data = []
    fields = set()
    for line in _LINE_END.split(lines) if b"\r" in lines else lines.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode(errors="replace")
        if field in _FIELDS and (value.strip() or field == b"data"):
            fields.add(field)
    told = b"\n".join(data)
    is_event = bool(told.strip()) or name == "error"
    return Event(name or None, told, start, end) if is_event else None, frozenset(fields)
