"""What real providers answer when they fail, row by row, and the ruling on each: data, and the search through it.

Sources: pages and recordings of the providers named. Text is matched last, by whole words, where no code tells.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

from shim.events import Scope, Verdict

BAD_KEY = 900.0
NO_CREDIT = 3600.0
GONE = 4 * 3600.0
DAY = 86_400.0
CAPACITY = 30.0

ANY: Container[int] = range(1000)
REFUSED = (400, 413, 422)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a row rules. `cooldown` is seconds, None leaves it to the breaker or to what the provider told."""

    verdict: Verdict
    scope: Scope
    reason: str
    cooldown: float | None = None
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One situation: a provider ("*" for anyone), its statuses, codes or types in lower case, text, and the ruling."""

    preset: str
    status: Container[int]
    then: Ruling
    codes: frozenset[str] = frozenset()
    text: re.Pattern[str] | None = None
    last: bool = False
    """True where the words say only that something failed upstream: asked after everybody's rows."""

    def matches(self, status: int, words: frozenset[str], message: str) -> bool:
        """True when everything the row names is there."""
        if status not in self.status or (self.codes and self.codes.isdisjoint(words)):
            return False
        return self.text is None or self.text.search(message) is not None

    @property
    def rank(self) -> int:
        """The order of asking: the provider's own codes, its text, anyone's codes, anyone's text, bare statuses."""
        if self.last:
            return 6
        if not self.codes and self.text is None:
            return 8 if self.preset == "*" else 7
        told = 0 if self.codes and self.text else 1 if self.codes else 2
        return told + (3 if self.preset == "*" else 0)


def _row(
    preset: str, status: int | Container[int], then: Ruling, codes: str = "", text: str = "", *, last: bool = False
) -> Row:
    pattern = re.compile(rf"(?<![\w-])(?:{text})(?![\w-])", re.IGNORECASE) if text else None
    statuses = (status,) if isinstance(status, int) else status
    return Row(preset, statuses, then, frozenset(codes.split()), pattern, last)


def _broken(scope: Scope, reason: str, cooldown: float) -> Ruling:
    return Ruling(Verdict.BROKEN, scope, reason, cooldown)


def _cannot(reason: str) -> Ruling:
    return Ruling(Verdict.CANNOT, Scope.REQUEST, reason)


def _transient(scope: Scope, reason: str, cooldown: float | None = None, *, counts: bool = True) -> Ruling:
    return Ruling(Verdict.TRANSIENT, scope, reason, cooldown, counts)


KEY = _broken(Scope.KEY, "bad_key", BAD_KEY)
FORBIDDEN = _broken(Scope.KEY_MODEL, "forbidden", GONE)
CREDIT = _broken(Scope.ACCOUNT, "no_credit", NO_CREDIT)
QUOTA = _broken(Scope.ACCOUNT, "quota", NO_CREDIT)
MODEL = _broken(Scope.MODEL, "model_not_found", GONE)
NO_ACCESS = _broken(Scope.KEY_MODEL, "model_not_found", GONE)
ENDPOINT = _broken(Scope.MODEL, "wrong_endpoint", GONE)
# Nothing at that address, and no word of a model: a base URL without its /v1, or a gateway whose server is away.
NO_SUCH_PATH = _broken(Scope.MODEL, "wrong_endpoint", BAD_KEY)
UNSUPPORTED = _cannot("unsupported_parameter")
LACKS = _cannot("unsupported_feature")
TOO_LONG = _cannot("context_too_long")
# The model's own window: every host of the same model would answer the same, another model may not.
BEYOND_MODEL = Ruling(Verdict.CANNOT, Scope.MODEL, "context_too_long")
TOO_MANY = _cannot("too_many_inputs")
TOO_LARGE = _cannot("request_too_large")
UNSUITED = _cannot("bad_request")
JUNK = _cannot("bad_generation")
FILTERED = Ruling(Verdict.FATAL, Scope.REQUEST, "content_filter")
BAD = Ruling(Verdict.FATAL, Scope.REQUEST, "bad_request")
# An id in the request that this account does not know: no word against the model, and nobody else knows it either.
LOST = Ruling(Verdict.FATAL, Scope.REQUEST, "state_not_found")
LIMIT = _transient(Scope.KEY_MODEL, "rate_limit", counts=False)
LIMIT_KEY = _transient(Scope.KEY, "rate_limit", counts=False)
LIMIT_ACCOUNT = _transient(Scope.ACCOUNT, "rate_limit", counts=False)
DAILY = _transient(Scope.ACCOUNT, "quota", counts=False)
CROWDED = _transient(Scope.MODEL, "overloaded", CAPACITY, counts=False)
CAPACITY_GONE = _transient(Scope.MODEL, "overloaded", CAPACITY)
OVERLOADED = _transient(Scope.MODEL, "overloaded")
SERVER = _transient(Scope.MODEL, "server_error")
GATEWAY = _transient(Scope.PROVIDER, "server_error")
LATE = _transient(Scope.MODEL, "timeout")

_SAYS_OVER_CONTEXT = (
    r"too large to process|Context size has been exceeded"
    r"|exceeds? the (?:available )?context size"
)
_SAYS_TOO_MANY = (
    r"Too many inputs|batch size|at most \d+ (?:requests|inputs)|array too long"
    r"|number of (?:inputs|texts|documents|items|strings)[\w ]{0,30}(?:exceeds?|at most|more than|maximum)[\w ]*"
    r"|inputs? (?:array|list) (?:is )?too (?:long|large)"
)
_SAYS_TOO_LARGE = (
    r"tokens per (?:submitted )?(?:request|batch)|Request too large|payload too large|request entity too large"
)
_SAYS_TOO_LONG = (
    r"context (?:length|window|size)|too many tokens|maximum (?:input|sequence|prompt) length"
    r"|(?:input|prompt|messages) (?:is |are )?too long|max_new_tokens`? must be"
    r"|(?:less|fewer) than \d+ tokens|(?:cannot|can't|must not|may not) exceed \d+ tokens"
    r"|input length \d+ exceeds?|string too long|exceeds? (?:the )?maximum (?:allowed )?(?:token|input|sequence) [\w ]*"
)
_SAYS_BAD_KEY = (
    r"(?:invalid|incorrect|expired|missing|malformed) API[ _-]?key"
    r"|API[ _-]?key (?:is |was |has )?(?:not valid|invalid|incorrect|expired|missing|revoked|been revoked)"
)
_SAYS_NO_CREDIT = (
    r"credit balance is too low|balance (?:is )?(?:insufficient|not enough)|余额不足\w*"
    r"|insufficient (?:account )?(?:balance|credits?|funds)"
)
_SAYS_NO_MODEL = (
    r"(?:unknown|invalid) model(?: name| id)?|not a valid model(?: name| id)?"
    r"|model ['\"`]?[\w./:@-]{1,100}['\"`]? (?:was |is )?(?:not found|does not exist|not available)"
)
_SAYS_LIMITED = r"rate[ -]limit(?:ed|s)?(?: has been| was)? (?:exceeded|reached|hit)|Too many requests|rate limited"
_SAYS_UNSUPPORTED = (
    r"matryoshka|extra_forbidden|Extra inputs are not permitted|unexpected keyword argument|does not support parameter"
    r"|extra fields not permitted|Additional properties are not allowed|Unrecogni[sz]ed keys?"
    # What the SDKs add of themselves, however a server words that it does not take it.
    r"|encoding[_ ]formats?|stream_options"
    r"|(?:unknown|unsupported|unrecogni[sz]ed) (?:parameter|value|request argument|name|field)"
)
_SAYS_LACKS = (
    r"(?:is|are) (?:not (?:yet |currently )?supported|unsupported)"
    r"|(?:does|do) not support|(?:is|are) not a multimodal model|not enabled for (?:this )?models?[\w/.-]*"
    r"|(?:is|are) not (?:supported|enabled) (?:with|for|by|on|in) (?:this|the|models?)[\w/ .-]*"
)
_CODES_LOST = (
    "previous_response_not_found response_not_found conversation_not_found item_not_found vector_store_not_found"
    " container_not_found container_expired prompt_not_found"
)
# Only with an id behind it: a server that lacks the file of a model says "file not found" as well.
_SAYS_LOST = (
    r"No such File object"
    r"|(?:response|conversation|item|file|vector store|container|prompt|audio)s? "
    r"(?:with ids? \S{1,130}|[^\w\s]{0,3}(?:resp|conv|msg|rs|fc|file|vs|cntr|pmpt|audio)[_-][\w-]{1,120}[^\w\s]{0,3})"
    r" (?:(?:was|were|is|has|does|could) )?(?:not (?:be )?(?:found|exist)|expired)"
)
# The whole message: FastAPI, Go, Express, Kong, ingress-nginx and llama.cpp on a path that they do not know.
_SAYS_NO_SUCH_PATH = (
    r"\A(?:(?:404:? |File )?Not Found|404 page not found|HTTP 404 without a body|Cannot POST \S{1,200}"
    r"|no Route matched with those values|default backend - 404)\.?\Z"
)

ROWS: tuple[Row, ...] = (
    _row("openai", (400, 404), LACKS, "model_not_found", r"not supported with the Responses API"),
    _row("openai", 404, MODEL, "model_not_found", r"has been deprecated"),
    _row("openai", (400, 403, 404), NO_ACCESS, "model_not_found"),
    _row("openai", 400, NO_ACCESS, text=r"invalid model ID"),
    _row("openai", 401, _broken(Scope.KEY, "forbidden", GONE), text=r"insufficient permissions for this operation"),
    _row("openai", 403, NO_ACCESS, text=r"not allowed to (?:sample|generate embeddings) from this model"),
    _row("openai", 404, ENDPOINT, text=r"not a chat model|Invalid URL"),
    _row("openai", 502, BAD, "invalid_request_error", r"Could not finish the message because max_tokens"),
    _row("azure", 404, MODEL, "deploymentnotfound"),
    _row("azure", 404, ENDPOINT, text=r"Resource not found"),
    _row("azure", 422, UNSUITED),
    _row("azure", 403, _transient(Scope.ACCOUNT, "quota", 900.0, counts=False), text=r"Out of call volume quota"),
    _row("gemini", 403, KEY, "permission_denied"),
    _row("gemini", (400, 404), MODEL, "not_found"),
    _row("gemini", 400, KEY, text=r"API key (?:not valid|expired)"),
    _row("gemini", 400, _broken(Scope.ACCOUNT, "forbidden", GONE), "failed_precondition"),
    _row("gemini", 400, MODEL, text=r"unexpected model name format"),
    _row("gemini", (429, 503), CROWDED, text=r"Resource exhausted\. Please try again later\.?"),
    _row("gemini", 503, CAPACITY_GONE, "unavailable"),
    _row("openrouter", 403, FILTERED, text=r"SAFETY_CHECK\w*|violates usage guidelines|flagged|moderation"),
    _row("openrouter", 404, LACKS, text=r"No endpoints found that (?:can )?(?:support|handle)[\w ]*"),
    _row("openrouter", 404, _broken(Scope.KEY_MODEL, "forbidden", GONE), text=r"matching your data policy"),
    _row("openrouter", 400, MODEL, text=r"does not exist|not a valid model ID"),
    _row("openrouter", 400, UNSUITED, text=r"Provider returned error", last=True),
    _row("openrouter", 429, LIMIT_ACCOUNT, text=r"free-models-per-(?:min|day)(?:-[\w-]+)?"),
    _row("openrouter", 429, LIMIT, text=r"limit_rpm"),
    _row("openrouter", 429, CROWDED, text=r"rate-limited upstream|Provider returned error"),
    _row("groq", (400, 404), MODEL, "model_not_found model_decommissioned"),
    _row("groq", (400, 422, 500), JUNK, "tool_use_failed json_validate_failed"),
    _row("groq", (498, 503), CAPACITY_GONE, "capacity_exceeded"),
    _row("groq", (424, 498, 499, 500, 502, 503), CAPACITY_GONE),
    _row("mistral", 400, MODEL, "invalid_model 1500"),
    _row("mistral", 400, TOO_MANY, "3210"),
    _row("mistral", 400, UNSUPPORTED, "3051"),
    _row("mistral", (429, 503), CROWDED, "3505"),
    _row("mistral", 429, _transient(Scope.KEY_MODEL, "rate_limit", 60.0, counts=False)),
    _row("mistral", 422, UNSUITED),
    _row("deepseek", 400, MODEL, text=r"Model Not Exist|supported API model names are"),
    _row("deepseek", 400, UNSUITED, text=r"Failed to deserialize"),
    _row("deepseek", 422, UNSUITED),
    _row("deepseek", 429, LIMIT_KEY),
    _row("together", (404, 400), MODEL, "model_not_available"),
    _row("together", (403, 422), TOO_LONG, text=r"tokens`? \+ `?max_new_tokens`? must be"),
    _row("huggingface", 402, _broken(Scope.ACCOUNT, "no_credit", DAY)),
    _row("huggingface", 502, GATEWAY, "html"),
    _row("cerebras", 403, LACKS, "multimodal_not_enabled"),
    _row("cerebras", 429, LIMIT, "request_quota_exceeded token_quota_exceeded"),
    _row("xai", 400, KEY, text=r"Incorrect API key"),
    _row("xai", (400, 404), MODEL, text=r"Model not found|was deprecated on"),
    _row("xai", (403, 429), CREDIT, text=r"used all available credits|monthly spending limit"),
    _row("xai", 403, FILTERED, text=r"SAFETY_CHECK\w*|violates usage guidelines"),
    _row("perplexity", 400, MODEL, "invalid_model"),
    _row("cloudflare", (400, 401, 403), KEY, "10000 10001"),
    _row("cloudflare", (400, 404), MODEL, "7000"),
    _row("cloudflare", 403, LACKS, "5023 5025"),
    _row("cloudflare", 429, DAILY, "4006"),
    _row("cloudflare", 429, CROWDED, "3040"),
    _row("nvidia", 404, NO_ACCESS, text=r"Not found for account"),
    _row("nvidia", 410, MODEL),
    _row("nvidia", 429, CROWDED, text=r"Worker local total request limit reached"),
    _row("nvidia", 400, _cannot("missing_parameter"), text=r"input_type' parameter is required"),
    _row("fireworks", (402, 412), CREDIT),
    _row("fireworks", 429, CROWDED, text=r"first token before the given deadline"),
    _row("github-models", 429, _transient(Scope.KEY_MODEL, "rate_limit", 60.0, counts=False)),
    _row("dashscope", (400, 422), UNSUPPORTED, "invalidparameter invalid_parameter_error"),
    _row("voyage", 400, MODEL, text=r"Model [\w./-]+ is not supported"),
    _row("siliconflow", 403, CREDIT, text=_SAYS_NO_CREDIT),
    _row("lm-studio", 400, SERVER, text=r"Model (?:is |was )?unloaded|model has crashed"),
    _row("xiaomi", 400, MODEL, text=r"Not supported model"),
    _row("xiaomi", 404, LACKS),
    _row("baseten", 403, KEY, text=r"api-key"),
    _row("doubleword", 403, _broken(Scope.KEY, "forbidden", BAD_KEY), "forbidden"),
    _row("doubleword", 400, UNSUITED),
    _row("pollinations", (400, 500), UNSUITED, text=r"400 Bad Request", last=True),
    _row("ollama", 500, LACKS, text=r"failed to process inputs"),
    _row("llamacpp", 400, LACKS, text=r"Pooling type"),
    # Codes and types that mean the same wherever they stand.
    _row("*", ANY, QUOTA, "insufficient_quota billing_hard_limit_reached billing_not_active"),
    _row("*", (402, 403, 429), CREDIT, "insufficient_balance payment_required insufficient_credits"),
    _row("*", ANY, CREDIT, "exceeded_current_quota_error budget_exceeded"),
    _row("*", (400, 401, 403), KEY, "invalid_api_key api_key_invalid wrong_api_key"),
    _row("*", (400, 404, 410), LOST, _CODES_LOST),
    _row("*", (400, 404, 410), MODEL, "model_not_found model_not_available model_decommissioned deploymentnotfound"),
    _row("*", (400, 403), FILTERED, "content_filter content_policy_violation responsibleaipolicyviolation"),
    _row("*", ANY, BEYOND_MODEL, "context_length_exceeded"),
    _row("*", ANY, TOO_LONG, "exceed_context_size_error too_many_tokens too_many_prompt_tokens"),
    _row("*", REFUSED, TOO_LARGE, "max_tokens_per_request request_too_large"),
    _row("*", REFUSED, TOO_MANY, "array_above_max_length"),
    _row("*", REFUSED, TOO_LONG, "string_above_max_length"),
    _row("*", (400, 403), LIMIT, "rate_limit_exceeded rate_limit_error too_many_requests throttlingexception"),
    _row("*", (413, 429), TOO_LARGE, text=r"Request too large for"),
    _row("*", (400, 422), UNSUPPORTED, "unsupported_parameter unsupported_value unknown_parameter extra_forbidden"),
    _row("*", 500, _transient(Scope.REQUEST, "bad_generation", counts=False), "model_error"),
    _row("*", 501, _broken(Scope.MODEL, "unsupported_feature", GONE), "not_supported_error"),
    _row("*", (429, 503), OVERLOADED, "overloaded_error"),
    _row("*", range(520, 531), GATEWAY, "html"),
    # Texts that servers behind any name send: llama.cpp, vLLM, TEI, NVIDIA NIM, and relays that pass them on.
    _row("*", 400, OVERLOADED, text=r"DEGRADED function"),
    _row("*", 403, LIMIT, text=_SAYS_LIMITED),
    # Under a 400, words that speak of this host alone: another may serve, but mere text benches nobody.
    _row("*", 400, UNSUITED, text=_SAYS_BAD_KEY),
    _row("*", 400, UNSUITED, text=_SAYS_NO_CREDIT),
    _row("*", 400, UNSUITED, text=_SAYS_NO_MODEL),
    _row("*", 400, UNSUITED, text=_SAYS_LIMITED),
    _row("*", 400, UNSUITED, text=r"Model (?:is |was )?unloaded|model has crashed"),
    _row("*", (500, 503), TOO_LONG, text=_SAYS_OVER_CONTEXT),
    _row("*", 500, LACKS, text=r"image input is not supported"),
    _row("*", (400, 422), UNSUITED, "html"),  # a page is a gateway's word, not the provider's
    _row("*", 400, UNSUITED, text=r"could not parse the JSON body"),
    _row("*", (400, 404, 410), LOST, text=_SAYS_LOST),
    _row("*", REFUSED, TOO_MANY, text=_SAYS_TOO_MANY),
    _row("*", REFUSED, TOO_LARGE, text=_SAYS_TOO_LARGE),
    _row("*", REFUSED, TOO_LONG, text=_SAYS_TOO_LONG),
    _row("*", (400, 422), UNSUPPORTED, text=_SAYS_UNSUPPORTED),
    _row("*", (400, 422), LACKS, text=_SAYS_LACKS),
    _row("*", 404, NO_SUCH_PATH, "html"),
    _row("*", 404, NO_SUCH_PATH, text=_SAYS_NO_SUCH_PATH),
    # What a status alone means.
    _row("*", 401, KEY),
    _row("*", 402, CREDIT),
    _row("*", (403, 451), FORBIDDEN),
    _row("*", (404, 410), MODEL),
    _row("*", 405, ENDPOINT),
    _row("*", 407, _broken(Scope.PROVIDER, "proxy_auth", BAD_KEY)),
    _row("*", (408, 504), LATE),
    _row("*", (413, 414, 431), TOO_LARGE),
    _row("*", 409, _transient(Scope.MODEL, "conflict")),
    _row("*", 429, LIMIT),
    _row("*", (425, 498, 503, 529), OVERLOADED),
    _row("*", 501, _broken(Scope.MODEL, "unsupported_feature", GONE)),
    _row("*", range(400, 424), BAD),
    _row("*", (424, 499), SERVER),
    _row("*", range(425, 500), BAD),
    _row("*", range(500, 600), SERVER),
)

UNKNOWN = _transient(Scope.MODEL, "malformed")

_STATUS_OF_CODE: tuple[tuple[int, frozenset[str]], ...] = (
    (429, frozenset({"insufficient_quota", "rate_limit_exceeded", "rate_limit_error", "rate_limit", "rate_limited"})),
    (429, frozenset({"too_many_requests", "too_many_requests_error", "model_rate_limit", "resource_exhausted"})),
    (401, frozenset({"invalid_api_key", "authentication_error", "wrong_api_key"})),
    (403, frozenset({"permission_error", "permission_denied"})),
    (404, frozenset({"model_not_found", "not_found_error"})),
    (402, frozenset({"billing_error", "insufficient_balance"})),
    (529, frozenset({"overloaded_error"})),
    (504, frozenset({"timeout_error"})),
    (400, frozenset({"context_length_exceeded", "content_filter", "tool_use_failed"})),
    (400, frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})),
)


def normalise_preset(preset: str) -> str:
    """The spelling that rows use: lower case, no dots (`llama.cpp` is `llamacpp`)."""
    return preset.lower().replace(".", "")


def find(preset: str, status: int, words: frozenset[str], message: str) -> Ruling:
    """The ruling of the first row that matches, the provider's own and the more exact first; `UNKNOWN` without one."""
    for row in _BY_PRESET.get(normalise_preset(preset), _GENERIC):
        if row.matches(status, words, message):
            return row.then
    return UNKNOWN


def status_of_code(words: frozenset[str]) -> int | None:
    """The status that an error's codes stand for where none is told, as inside a 200; None when they tell none."""
    return next((status for status, codes in _STATUS_OF_CODE if not codes.isdisjoint(words)), None)


def _ranked(preset: str) -> tuple[Row, ...]:
    return tuple(sorted((row for row in ROWS if row.preset in (preset, "*")), key=lambda row: row.rank))


_GENERIC = _ranked("*")
_BY_PRESET = {preset: _ranked(preset) for preset in {row.preset for row in ROWS} - {"*"}}
