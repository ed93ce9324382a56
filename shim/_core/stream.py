"""Watches one streamed answer: when it holds content, when it is complete, and when it turns out to be an error.

Bytes go in and come out untouched and in order, but for blocks without data, on which the official client fails. Before
the first content-bearing event all are held; after it each event is passed on when complete, except an error event,
which the caller raises instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from shim._core.answers import has_content, read_json, tokens
from shim._core.sse import Event, SSEParser, read_block

_CHOICES = ("/chat/completions", "/completions")
_RESPONSES = "/responses"

# What a Responses stream sends before the model has said anything (OpenAI API reference, "Streaming events").
_PREAMBLE = frozenset(
    {
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_summary_part.added",
    }
)

_KEEP_ALIVES = frozenset({"ping", "keepalive"})

EMPTY = "empty"
NO_FINISH = "no finish"
HALF_EVENT = "half event"
ERROR_EVENT = "error event"
NOT_JSON = "not JSON"


@dataclass(frozen=True, slots=True)
class StreamError:
    """What broke a stream: an `error event`, an event that is `not JSON`, or `empty`, a [DONE] before any content.

    `data` is the event's data; of an error that lies deeper (`response.failed`, a choice's own) it is `{"error": …}`.
    """

    data: bytes
    event: str | None
    reason: str


class StreamWatch:
    """Watches the body of one streamed answer to `endpoint`, the path below the base URL.

    `/chat/completions`, `/completions` and `/responses` are read as server-sent events; of anything else the first byte
    is content and the end of the body its finish, or where events were announced, the first of them that is no error.
    """

    # fmt: off
    __slots__ = (
        "_done", "_ended", "_held", "_is_other", "_is_responses", "_open", "_parser", "_seen", "_sent", "_tail",
        "_text", "_unread", "committed", "error", "events", "input_tokens", "output_tokens", "response_id",
    )
    # fmt: on

    def __init__(self, endpoint: str) -> None:
        self.committed = False
        self.error: StreamError | None = None
        self.events = 0
        """Events with data so far; comments and pings do not count."""
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.response_id: str | None = None
        """The id under which the provider keeps a streamed response, once it was told."""
        self._is_responses = endpoint == _RESPONSES
        self._is_other = False
        self._unread = endpoint not in _CHOICES and not self._is_responses
        self._parser = SSEParser()
        self._held: list[bytes] = []
        self._seen = 0
        self._sent = 0
        self._tail = b""
        """What the last event lacks, where the body ended before its blank line."""
        self._text: list[str] = []
        self._open: set[int] = set()
        self._ended: set[int] = set()
        self._done = False

    @property
    def takes_anything(self) -> bool:
        """Whether the endpoint's answers are not server-sent events: the first byte of whatever comes is content."""
        return self._unread and not self._done

    def expect_events(self) -> None:
        """Of an endpoint that takes anything: what comes are events all the same (images, transcripts, speech)."""
        self._unread, self._is_other = False, True

    @property
    def finished(self) -> bool:
        """Whether [DONE] or the response's last event came, or every choice seen so far has its finish_reason."""
        return self._done or (bool(self._ended) and not self._open)

    @property
    def partial(self) -> str:
        """The text of the first choice (of a response: all its output text) so far."""
        text = "".join(self._text)
        # Half a surrogate pair may end one chunk and its other half begin the next: join them.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes of the body and return those that may be passed on now; none once `error` is set."""
        if self.error is not None:
            return b""
        self._seen += len(chunk)
        limit = self._read(chunk)
        if not self.committed:
            self._held.append(chunk)
            return b""
        if limit == self._seen and not self._held and not self._parser.hollow:
            self._sent = limit
            return chunk
        return self._release(chunk, limit)

    def unsent(self) -> bytes:
        """Return what was taken and not passed on: all before commitment, later an unfinished event or an error event.

        Pass it on when `close` finds the stream complete, so that the body stays whole to the byte.
        """
        return self._without_hollow(b"".join(self._held)) + self._tail

    def close(self) -> str | None:
        """At the end of the body, return None if the answer is complete, else why not.

        The reasons: that of `error`, `empty` (no event at all), `half event`, `no finish`.
        """
        if self._unread and not self._done:
            return None if self.committed else EMPTY
        self._read_unended()
        if self.error is not None:
            return self.error.reason
        if self.finished or (self._is_other and self.committed and not self._parser.pending.strip()):
            return None
        pending = self._parser.pending.strip()
        if self.committed and pending.removeprefix(b"data:").lstrip().startswith(b"[DONE]"):
            return None
        if not pending:
            return NO_FINISH if self.events else EMPTY
        return HALF_EVENT

    def _read(self, chunk: bytes) -> int:
        """Read the events that `chunk` completes and return the offset up to which bytes may be passed on."""
        if self._unread:
            self.committed = self.committed or bool(chunk)
            return self._seen
        for event in self._parser.feed(chunk):
            self.events += 1
            if not self._note(event):
                return self._seen if self.error is None else event.start
        return self._parser.settled

    def _read_unended(self) -> None:
        """Take note of a last event whose blank line is missing, if it is whole: many servers end so, and the official
        client would overlook it."""
        pending = self._parser.pending
        if self._done or self._tail or self.error is not None or not pending.strip():
            return
        event, _ = read_block(pending, self._parser.settled, self._seen)
        if event is None or event.data.startswith(b"[DONE]"):
            return
        try:
            read_json(event.data)
        except ValueError:
            return
        self._tail = b"\n\n"
        self.events += 1
        self._note(event)

    def _without_hollow(self, held: bytes) -> bytes:
        """The bytes that begin at what was passed on last, without blocks that hold no data."""
        for start, end in reversed(self._parser.hollow):
            if self._sent <= start < self._sent + len(held):
                held = held[: start - self._sent] + held[end - self._sent :]
        return held

    def _release(self, chunk: bytes, limit: int) -> bytes:
        self._held.append(chunk)
        if limit <= self._sent:
            return b""
        whole = b"".join(self._held)
        cut = limit - self._sent
        self._held = [whole[cut:]] if cut < len(whole) else []
        out = self._without_hollow(whole[:cut])
        self._parser.hollow = [place for place in self._parser.hollow if place[0] >= limit]
        self._sent = limit
        return out

    def _note(self, event: Event) -> bool:
        """Take note of one event and say whether the next one is to be read."""
        if event.data.startswith(b"[DONE]"):  # as the official client tests it
            self._note_done(event)
            return False
        try:
            body = read_json(event.data)
        except ValueError:
            self.error = StreamError(event.data, event.event, NOT_JSON)
            return False
        if _is_error(body, event.event):
            self.error = StreamError(event.data, event.event, ERROR_EVENT)
        elif isinstance(body, dict):
            if event.event in _KEEP_ALIVES or body.get("type") in _KEEP_ALIVES:
                self.events -= 1  # a comment by another name
            elif self._is_other:
                self.committed = True
            elif self._is_responses:
                self._note_response(event, body)
            else:
                self._note_chunk(event, body)
        return self.error is None

    def _note_done(self, event: Event) -> None:
        if not self.committed:
            self.error = StreamError(event.data, event.event, EMPTY)
            return
        self._done = True
        self._unread = True  # what follows the end is passed on and means nothing

    def _note_chunk(self, event: Event, body: Mapping[str, object]) -> None:
        if usage := body.get("usage"):
            self._note_usage(usage)
        elif isinstance(groq := body.get("x_groq"), dict):
            self._note_usage(groq.get("usage"))
        choices = body.get("choices")
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict):
                    self._note_choice(event, choice)

    def _note_choice(self, event: Event, choice: Mapping[str, object]) -> None:
        finish, delta, index = choice.get("finish_reason"), choice.get("delta"), choice.get("index")
        if finish == "error" or choice.get("error"):
            self.error = StreamError(_envelope(choice.get("error"), event.data), event.event, ERROR_EVENT)
            return
        if not isinstance(delta, dict):
            delta = {"content": choice.get("text")}
        text = delta.get("content")
        if not self.committed:
            self.committed = bool(finish) or has_content(delta)
        number = index if isinstance(index, int) else 0
        if text and number == 0 and isinstance(text, str):
            self._text.append(text)
        if finish:
            self._ended.add(number)
            self._open.discard(number)
        elif number not in self._ended:
            self._open.add(number)

    def _note_response(self, event: Event, body: Mapping[str, object]) -> None:
        kind = body.get("type") or event.event
        if not isinstance(kind, str):
            return
        delta, response = body.get("delta"), body.get("response")
        if isinstance(response, dict) and isinstance(told := response.get("id"), str):
            self.response_id = told or None
        if kind == "response.failed":
            inner = response.get("error") if isinstance(response, dict) else None
            self.error = StreamError(_envelope(inner, event.data), event.event, ERROR_EVENT)
            return
        if kind in ("response.completed", "response.incomplete"):
            self.committed = self._done = True
            self._note_usage(response.get("usage") if isinstance(response, dict) else None)
        elif kind == "response.output_text.delta" and isinstance(delta, str):
            self._text.append(delta)
        if not self.committed and kind.startswith("response.") and kind not in _PREAMBLE:
            self.committed = bool(delta) or not kind.endswith(".delta")

    def _note_usage(self, usage: object) -> None:
        given, made = tokens(usage)
        self.input_tokens = self.input_tokens if given is None else given
        self.output_tokens = self.output_tokens if made is None else made


def _is_error(body: object, name: str | None) -> bool:
    if name == "error":
        return True
    if isinstance(body, dict):
        return bool(body.get("error")) or body.get("type") == "error" or body.get("object") == "error"
    # Gemini wraps its errors in a list.
    return isinstance(body, list) and bool(body) and isinstance(body[0], dict) and bool(body[0].get("error"))


def _envelope(error: object, otherwise: bytes) -> bytes:
    return json.dumps({"error": error}).encode() if error else otherwise
