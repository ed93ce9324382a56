"""Asks the judge about a reply: a failure by status or envelope, then whether the answer is what its kind must be."""

from __future__ import annotations

import re
from dataclasses import replace

from shim._core import answers, dialects, judge, vectors
from shim._core.outcome import Judgement, Outcome
from shim._core.plan import Slot
from shim._core.request import Request, count_inputs, has_blank, text_of
from shim._core.vectors_faults import NO_VECTOR, SPOILT
from shim._core.wording import mask_secrets
from shim._run.exchange import Reply
from shim.events import Kind, Scope, Verdict

OK = Judgement(Verdict.OK, Scope.REQUEST, "ok", "")
NOTHING = Outcome()
MISCONFIGURED_FOR = 86_400.0
"""Seconds that a route of another vector length or space is left alone: until the configuration changes, in effect."""

_NOT_JSON = (Kind.SPEECH, Kind.TRANSCRIPTION)
_MISPLACED = frozenset({"wrong_endpoint", "html"})
_VERSION = re.compile(r"/v\d")


def malformed(message: str) -> Judgement:
    """An answer that is none."""
    return Judgement(Verdict.TRANSIENT, Scope.MODEL, "malformed", message, 502, counts=True)


def judge_reply(
    slot: Slot,
    request: Request,
    reply: Reply,
    *,
    now: float,
    known: tuple[str, ...],
    reader: vectors.Reader = vectors.read,
) -> Judgement | vectors.Embedded:
    """The judgement on a reply to `request` from this slot's route; the vectors of a good embeddings answer.

    `now` is unix seconds; `known` are the secrets to mask in messages; `reader` reads an embeddings answer.
    """
    preset = slot.route.provider.preset
    if reply.error is not None:
        data, event = reply.error
        found = judge.payload_failure(data, event=event, preset=preset, now=now, known=known)
        return found or malformed("the stream began with an event that is no answer")
    if reply.live is not None:
        return OK
    failed = judge.failure(
        reply.outcome, preset=preset, now=now, known=known, expects_json=request.kind not in _NOT_JSON
    )
    if failed is not None:
        return _located(failed, slot, request, known) if failed.reason in _MISPLACED else failed
    if request.kind is Kind.EMBEDDING:
        return _read_vectors(slot, request, reply.outcome.body, reader)
    if request.is_stream and request.kind not in _NOT_JSON:
        return malformed("a whole answer came where a stream was asked for")
    answer = answers.read(request.endpoint, reply.outcome)
    if isinstance(answer, Judgement):
        return answer
    reply.answer = answer
    return OK


def _located(failed: Judgement, slot: Slot, request: Request, known: tuple[str, ...]) -> Judgement:
    """With the address that was asked, without its query: a base URL is mistyped more often than a server is wrong."""
    provider = slot.route.provider
    base_url = provider.base_url
    path = request.path if provider.wire in ("openai", "azure") else ""
    hint = "" if path == "" or _VERSION.search(base_url) else "; does base_url lack /v1?"
    asked = mask_secrets(f"(asked {base_url}{path}{hint})", known)
    return replace(failed, message=f"{failed.message} {asked}")


def judge_stream(slot: Slot, outcome: Outcome, event: str | None, *, now: float, known: tuple[str, ...]) -> Judgement:
    """The judgement on a stream that failed after its first content; `outcome.body` is the data of an error event."""
    preset = slot.route.provider.preset
    found = None
    if outcome.fault is not None:
        found = judge.failure(outcome, preset=preset, now=now, known=known)
    else:
        found = judge.payload_failure(outcome.body, event=event, preset=preset, now=now, known=known)
    return found or malformed("the stream broke off")


def excused(judgement: Judgement, *, is_rushed: bool, is_job: bool) -> Judgement:
    """What a failure says of the route, in view of the call.

    Nothing, where the caller's own deadline left less time than the route needs. Nothing that a breaker should count,
    where the batch of a dataset job may be at fault: a text that makes a server answer 500 or a bad vector is asked for
    again and again until it is found, and would keep the route out for all. A job slows down by rules of its own.
    """
    if is_rushed:
        return replace(judgement, counts=False, moot=True)
    may_be_the_batch = judgement.reason in SPOILT or (judgement.status == 500 and judgement.scope is Scope.MODEL)
    if is_job and may_be_the_batch and not judgement.told:
        return replace(judgement, counts=False, scope=Scope.REQUEST)
    return judgement


def _read_vectors(slot: Slot, request: Request, body: bytes, reader: vectors.Reader) -> Judgement | vectors.Embedded:
    wire = slot.route.provider.wire
    if wire in ("huggingface", "cohere"):
        decoded = dialects.decode(dialects.Wire(wire), body, model=slot.route.config.model)
        if isinstance(decoded, Judgement):
            return decoded
        body = decoded
    fit = slot.lengths
    wanted = vectors.Wanted(
        count=count_inputs(request.fields.get("input")),
        dimensions=fit.expect if fit is not None else None,
        truncate_to=fit.truncate_to if fit is not None else None,
        int8=slot.route.config.int8,
    )
    read = reader(body, wanted)
    if isinstance(read, Judgement) and read.reason in NO_VECTOR and has_blank(request.fields.get("input")):
        # What a blank text means is for each model to say; that it says nothing is no fault of the route.
        text = f"{read.message}; an input is blank"
        return Judgement(Verdict.CANNOT, Scope.REQUEST, "blank_input", text)
    if isinstance(read, Judgement) and read.reason == "no_vectors" and _asked_for_base64(slot, request):
        text = f"{read.message}, base64 was asked for"
        return Judgement(Verdict.CANNOT, Scope.REQUEST, read.reason, text, rejects="encoding_format")
    if isinstance(read, Judgement) and read.reason == "wrong_length" and fit is not None and fit.send is not None:
        # The route ignored `dimensions`: it cannot serve this request, and is as good as before for the others.
        return Judgement(Verdict.CANNOT, Scope.REQUEST, read.reason, read.message, rejects="dimensions")
    return read


def _asked_for_base64(slot: Slot, request: Request) -> bool:
    """Whether the SDK's base64 may be why there is no vector: some hosts know none, and say so by an empty list."""
    if "encoding_format" in slot.route.health.dropped or slot.route.config.base64 is False:
        return False
    return text_of(request.fields.get("encoding_format")) == "base64"


def check_length(slot: Slot, embedded: vectors.Embedded) -> Judgement | None:
    """The first length seen fixes the family's; another length is a misconfigured route. The board's lock is held."""
    fit = slot.lengths
    if fit is None or fit.send is not None or fit.truncate_to is not None or embedded.count == 0:
        return None
    family = slot.family
    if family.config.dimensions is None and family.locked is None:
        family.locked = embedded.dimensions
    expected = family.config.dimensions or family.locked
    if embedded.dimensions == expected:
        return None
    text = f"vectors of {embedded.dimensions} numbers where the family has {expected}"
    return Judgement(Verdict.BROKEN, Scope.MODEL, "wrong_length", text, cooldown=MISCONFIGURED_FOR)
