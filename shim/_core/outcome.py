"""What an attempt brought, and the judgement of it: plain data, no decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from shim.events import Scope, Verdict


class Fault(str, Enum):
    """What went wrong beneath HTTP. The words are shown to users."""

    CONNECT = "connection failed"
    CONNECT_TIMEOUT = "connect timeout"
    TLS = "TLS failed"
    RESET = "connection reset"
    TIMEOUT = "timeout"
    FIRST_CHUNK_TIMEOUT = "no content in time"
    STALL = "stream stalled"
    PROTOCOL = "broken HTTP"
    DECODING = "undecodable body"
    TOO_LARGE = "answer too large"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One exchange as it ended. `headers` has lower-case names; `body` is decoded (no content-encoding)."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    fault: Fault | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on an outcome and what follows from it.

    `cooldown` is seconds to leave `scope` alone; `told` says that the provider named it (authoritative: never probed
    early, never shortened). `cooldown` None leaves the length to the breaker. `counts` says whether the attempt counts
    as a failure on the breaker. `rejects` names a request parameter that the provider refused to know.
    `status` is the status that the failure amounts to (an error object inside a 200 has its own). A `moot` one says
    nothing of the route: the caller left it less time than it is known to need.
    """

    verdict: Verdict
    scope: Scope
    reason: str
    message: str
    status: int | None = None
    cooldown: float | None = None
    told: bool = False
    counts: bool = False
    rejects: str | None = None
    moot: bool = False
