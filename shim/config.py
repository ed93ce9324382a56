"""The schema of a configuration: frozen models, fully expanded, with nothing left to look up.

`shim.loading` makes them from a mapping or a file. Durations are float seconds, prices US dollars per million tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from shim._addresses import is_private_url
from shim.config_error import ConfigError as ConfigError
from shim.events import Kind

ORDERS = ("priority", "round_robin", "weighted", "fastest", "least_busy")
NOT_YET_ORDERS = ("cheapest", "headroom")
NOT_YET_KEYS = ("rpm", "rpd", "tpm", "tpd", "budget")
PERCENTILES = ("p50", "p90", "p95", "p99")

SLOW_KINDS = frozenset({Kind.CHAT, Kind.IMAGE, Kind.SPEECH, Kind.TRANSCRIPTION})
SLOW_ATTEMPT = 120.0
QUICK_ATTEMPT = 30.0
FIRST_CHUNK = 30.0
FIRST_CHUNK_PRIVATE = 120.0


def _not_a_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, is {str(value).lower()}")
    return value


def _empty_is_none(value: object) -> object:
    """TOML has no null: an empty string says that there is none."""
    return None if value == "" else value


Number = Annotated[float, BeforeValidator(_not_a_boolean)]
Count = Annotated[int, BeforeValidator(_not_a_boolean)]
Seconds = Annotated[Number, Field(gt=0)]
Name = Annotated[str, Field(min_length=1)]
OptionalText = Annotated[str | None, BeforeValidator(_empty_is_none)]
OptionalCount = Annotated[Annotated[Count, Field(ge=1)] | None, Field()]
Auth = Literal["bearer", "api-key", "x-api-key", "none"]
Wire = Literal["openai", "huggingface", "cohere", "azure"]


class _Frozen(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )


class KeyConfig(_Frozen):
    """One key. `alias` (the variable it came from, else `key1`, …) stands for it wherever something is shown.

    Keys with the same `account` share what befalls an account (no credit, a daily limit); by default each is its own.
    """

    alias: str
    secret: SecretStr
    account: str


class ProviderConfig(_Frozen):
    """One OpenAI-compatible service.

    `auth` says in which header a key goes, where there is one. `wire` says how requests are written: `openai` as they
    are; `azure` the same with `{model}` in the URL; `cohere` and `huggingface` natively, and for embeddings alone.
    `missing` names the variable without which a provider that needs a key has none: calls pass it by.
    """

    name: str
    preset: str = ""
    base_url: str
    keys: tuple[KeyConfig, ...] = ()
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    query: dict[str, str] = Field(default_factory=dict, repr=False)
    enabled: bool = True
    auth: Auth = "bearer"
    wire: Wire = "openai"
    forward_headers: tuple[str, ...] = ()
    allow_insecure: bool = False
    needs_key: bool = False
    missing: str = ""

    @property
    def is_private(self) -> bool:
        """Whether the base URL is loopback or private: models there are slow to start."""
        return is_private_url(self.base_url)

    @property
    def is_usable(self) -> bool:
        """Whether a call may go there: enabled, and with a key where it needs one."""
        return self.enabled and (bool(self.keys) or not self.needs_key)


class Price(_Frozen):
    """US dollars per million tokens."""

    input: Annotated[Number, Field(ge=0)] = 0.0
    output: Annotated[Number, Field(ge=0)] = 0.0


class InputTypeConfig(_Frozen):
    """How a route is told whether a text is a query or a document.

    Either a request `parameter` with a value for each (`default` is sent when the caller says nothing, for routes that
    insist on one), or text set before the input, or both.
    """

    parameter: OptionalText = None
    query: OptionalText = None
    document: OptionalText = None
    default: OptionalText = None
    query_prefix: str = ""
    document_prefix: str = ""


class RouteConfig(_Frozen):
    """One provider serving one model of a family.

    `dimensions_param` is the name under which the route takes a shorter length (None: it takes none). `base64` says
    whether it answers `encoding_format="base64"` (None: unknown), `int8` that it answers one signed byte per dimension.
    `space_check` None is what the family's policy says.
    """

    provider: Name
    model: Name
    priority: Count = 1
    weight: Annotated[Number, Field(gt=0)] = 1.0
    enabled: bool = True
    drop_params: tuple[str, ...] = ()
    params: dict[str, object] = Field(default_factory=dict)
    dimensions_param: Annotated[Literal["dimensions", "output_dimension"] | None, BeforeValidator(_empty_is_none)] = (
        "dimensions"
    )
    base64: bool | None = None
    int8: bool = False
    max_inputs: OptionalCount = None
    max_input_tokens: OptionalCount = None
    max_request_tokens: OptionalCount = None
    input_type: InputTypeConfig = InputTypeConfig()
    price: Price | None = None
    space_check: bool | None = None

    @field_validator("params")
    @classmethod
    def _can_be_sent(cls, value: dict[str, object]) -> dict[str, object]:
        for name, one in value.items():
            try:
                msgspec.json.encode(one)
            except (TypeError, ValueError):
                raise ValueError(f"'{name}' is of type {type(one).__name__}, which JSON cannot hold") from None
        return value

    @property
    def route(self) -> str:
        """The short form `provider/model`."""
        return f"{self.provider}/{self.model}"


class BreakerConfig(_Frozen):
    """When a route is left alone. `cooldown` 0 means not at all."""

    failures: Annotated[Count, Field(ge=1)] = 3
    failure_rate: Annotated[Number, Field(gt=0, le=1)] = 0.5
    window: Seconds = 60.0
    window_min: Annotated[Count, Field(ge=1)] = 10
    cooldown: Annotated[Number, Field(ge=0)] = 10.0
    max_cooldown: Annotated[Number, Field(ge=0)] = 300.0
    probes: Annotated[Count, Field(ge=1)] = 1

    @field_validator("max_cooldown")
    @classmethod
    def _not_below_cooldown(cls, value: float, info: ValidationInfo) -> float:
        cooldown = info.data.get("cooldown", 0.0)
        if value < cooldown:
            raise ValueError(f"must be at least the cooldown of {cooldown:g} s, is {value:g}")
        return value


class RetryBudgetConfig(_Frozen):
    """Each first attempt earns `share` of a further attempt; `minimum` are there from the start."""

    share: Annotated[Number, Field(ge=0, le=1)] = 0.2
    minimum: Annotated[Count, Field(ge=0)] = 10


class PolicyConfig(_Frozen):
    """How calls are carried out. `attempt_timeout` and `first_chunk_timeout` None go by kind and place."""

    mode: Literal["sequential", "hedged", "race"] = "sequential"
    order: Literal["priority", "round_robin", "weighted", "fastest", "least_busy"] = "priority"
    attempt_timeout: Seconds | None = None
    first_chunk_timeout: Seconds | None = None
    idle_timeout: Seconds = 60.0
    connect_timeout: Seconds = 5.0
    deadline: Seconds = 600.0
    max_retries: Annotated[Count, Field(ge=0)] = 2
    hedge_delay: float | Literal["p50", "p90", "p95", "p99"] = "p95"
    race_width: Annotated[Count, Field(ge=2)] = 2
    when_exhausted: Literal["fail", "wait"] = "fail"
    space_check: bool = True
    hedge_budget: Annotated[Number, Field(ge=0, le=1)] = 0.05
    retry_budget: RetryBudgetConfig = RetryBudgetConfig()
    breaker: BreakerConfig = BreakerConfig()

    @field_validator("order", mode="before")
    @classmethod
    def _available(cls, value: object) -> object:
        if value in NOT_YET_ORDERS:
            raise ValueError(f"order {value!r} is not available yet; available: {', '.join(ORDERS)}")
        return value

    @field_validator("hedge_delay", mode="wrap")
    @classmethod
    def _seconds_or_percentile(cls, value: object, _: object) -> float | str:
        if value in PERCENTILES:
            return str(value)
        try:
            seconds = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1.0
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"must be seconds of at least 0 or one of {', '.join(PERCENTILES)}, is {value!r}")
        return seconds

    def attempt_timeout_for(self, kind: Kind) -> float:
        """Seconds that one attempt may take, body included."""
        if self.attempt_timeout is not None:
            return self.attempt_timeout
        return SLOW_ATTEMPT if kind in SLOW_KINDS else QUICK_ATTEMPT

    def first_chunk_timeout_for(self, *, is_private: bool) -> float:
        """Seconds until the first content of a stream; longer where the base URL is loopback or private."""
        if self.first_chunk_timeout is not None:
            return self.first_chunk_timeout
        return FIRST_CHUNK_PRIVATE if is_private else FIRST_CHUNK


class FamilyConfig(_Frozen):
    """Models that may stand in for one another. An embedding family is one vector space of `dimensions` numbers.

    A `matryoshka` family may be shortened by cutting and renormalising; `matryoshka_sizes` are the lengths it is known
    to be good at (empty: any). `normalised` says whether full-length vectors have norm 1 (None: unknown).
    """

    name: str
    kind: Kind
    dimensions: OptionalCount = None
    aliases: tuple[str, ...] = ()
    routes: tuple[RouteConfig, ...]
    fallback: tuple[str, ...] = ()
    policy: PolicyConfig = PolicyConfig()
    matryoshka: bool = False
    matryoshka_sizes: tuple[int, ...] = ()
    normalised: bool | None = None


class Config(_Frozen):
    """A whole configuration. `source` says where it was read, `notes` what could not be carried over from there."""

    default_chat: str | None = None
    default_embedding: str | None = None
    providers: dict[str, ProviderConfig] = Field(default_factory=dict)
    families: dict[str, FamilyConfig] = Field(default_factory=dict)
    policy: PolicyConfig = PolicyConfig()
    source: str = "a mapping"
    notes: tuple[str, ...] = ()
    _raw: Mapping[str, object] = PrivateAttr(default_factory=dict)

    @property
    def raw(self) -> Mapping[str, object]:
        """The mapping that it was made from, `${VAR}` unresolved: what a pickle of it may carry."""
        return self._raw
