"""The judgement on faults, statuses and error objects of every shape."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.judge import failure, mask_secrets, payload_failure
from shim._core.outcome import Fault, Judgement, Outcome
from shim._core.taxonomy import BAD_KEY, CAPACITY, DAY, GONE, NO_CREDIT, ROWS, Row, find
from shim.events import Scope, Verdict

NOW = 1_768_478_400.0
TRANSIENT, CANNOT, BROKEN, FATAL = Verdict.TRANSIENT, Verdict.CANNOT, Verdict.BROKEN, Verdict.FATAL
HTML = b"<!DOCTYPE html>\n<html><head><title>502 Bad\n Gateway</title></head><body>sk-secret-12345678</body></html>"


def _bytes(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def _judge(
    status: int | None, body: object = b"", preset: str = "*", headers: Mapping[str, str] | None = None
) -> Judgement:
    judgement = failure(Outcome(status=status, headers=headers or {}, body=_bytes(body)), preset=preset, now=NOW)
    assert judgement is not None
    return judgement


def _error(message: str = "x", **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


FAULTS = [
    (Fault.CONNECT, None, Scope.PROVIDER, "connect"),
    (Fault.CONNECT_TIMEOUT, None, Scope.PROVIDER, "connect_timeout"),
    (Fault.TLS, None, Scope.PROVIDER, "tls"),
    (Fault.RESET, None, Scope.PROVIDER, "reset"),
    (Fault.RESET, 200, Scope.MODEL, "reset"),
    (Fault.PROTOCOL, None, Scope.PROVIDER, "protocol"),
    (Fault.PROTOCOL, 200, Scope.MODEL, "protocol"),
    (Fault.TIMEOUT, None, Scope.MODEL, "timeout"),
    (Fault.TIMEOUT, 200, Scope.MODEL, "timeout"),
    (Fault.TIMEOUT, 400, Scope.MODEL, "timeout"),
    (Fault.FIRST_CHUNK_TIMEOUT, 200, Scope.MODEL, "first_chunk_timeout"),
    (Fault.STALL, 200, Scope.MODEL, "stall"),
    (Fault.DECODING, 200, Scope.MODEL, "malformed"),
    (Fault.TOO_LARGE, 200, Scope.MODEL, "answer_too_large"),
]


@pytest.mark.parametrize(("fault", "status", "scope", "reason"), FAULTS, ids=[f"{f.name}-{s}" for f, s, *_ in FAULTS])
def test_a_fault_is_transient_and_counts(fault: Fault, status: int | None, scope: Scope, reason: str) -> None:
    judged = failure(Outcome(status=status, fault=fault, detail="after 3 s", body=b'{"a":1}'), preset="openai", now=NOW)
    assert judged is not None
    assert (judged.verdict, judged.scope, judged.reason, judged.counts) == (TRANSIENT, scope, reason, True)
    assert judged.message == f"{fault.value}: after 3 s"


def test_every_fault_is_judged() -> None:
    assert {row[0] for row in FAULTS} == set(Fault)


@pytest.mark.parametrize(("status", "verdict"), [(401, BROKEN), (429, TRANSIENT), (503, TRANSIENT)])
def test_a_status_stands_though_its_body_broke_off(status: int, verdict: Verdict) -> None:
    judged = failure(Outcome(status=status, fault=Fault.RESET, body=b'{"er'), preset="*", now=NOW)
    assert judged is not None
    assert (judged.verdict, judged.status) == (verdict, status)


BARE = [
    (100, TRANSIENT, Scope.MODEL, "malformed", None, True),
    (302, TRANSIENT, Scope.PROVIDER, "redirect", None, True),
    (400, FATAL, Scope.REQUEST, "bad_request", None, False),
    (401, BROKEN, Scope.KEY, "bad_key", BAD_KEY, False),
    (402, BROKEN, Scope.ACCOUNT, "no_credit", NO_CREDIT, False),
    (403, BROKEN, Scope.KEY_MODEL, "forbidden", GONE, False),
    (404, BROKEN, Scope.MODEL, "model_not_found", GONE, False),
    (405, BROKEN, Scope.MODEL, "wrong_endpoint", GONE, False),
    (408, TRANSIENT, Scope.MODEL, "timeout", None, True),
    (409, TRANSIENT, Scope.MODEL, "conflict", None, True),
    (410, BROKEN, Scope.MODEL, "model_not_found", GONE, False),
    (413, CANNOT, Scope.REQUEST, "request_too_large", None, False),
    (422, FATAL, Scope.REQUEST, "bad_request", None, False),
    (424, TRANSIENT, Scope.MODEL, "server_error", None, True),
    (425, TRANSIENT, Scope.MODEL, "overloaded", None, True),
    (429, TRANSIENT, Scope.KEY_MODEL, "rate_limit", None, False),
    (498, TRANSIENT, Scope.MODEL, "overloaded", None, True),
    (499, TRANSIENT, Scope.MODEL, "server_error", None, True),
    (500, TRANSIENT, Scope.MODEL, "server_error", None, True),
    (502, TRANSIENT, Scope.MODEL, "server_error", None, True),
    (503, TRANSIENT, Scope.MODEL, "overloaded", None, True),
    (504, TRANSIENT, Scope.MODEL, "timeout", None, True),
    (529, TRANSIENT, Scope.MODEL, "overloaded", None, True),
    (999, TRANSIENT, Scope.MODEL, "malformed", None, True),
]


@pytest.mark.parametrize("body", [b"", b"oops", {"error": {"message": "x", "type": "error", "code": None}}], ids=repr)
@pytest.mark.parametrize(
    ("status", "verdict", "scope", "reason", "cooldown", "counts"), BARE, ids=[str(r[0]) for r in BARE]
)
def test_a_status_alone_has_a_verdict(
    status: int, verdict: Verdict, scope: Scope, reason: str, cooldown: float | None, counts: bool, body: object
) -> None:
    if (status, body) == (404, b""):
        reason, cooldown = "wrong_endpoint", BAD_KEY  # nothing that would tell of a model
    judged = _judge(status, body)
    assert (judged.verdict, judged.scope, judged.reason) == (verdict, scope, reason)
    assert (judged.cooldown, judged.counts, judged.told) == (cooldown, counts, False)


NO_SUCH_PATH = [
    ("FastAPI", {"detail": "Not Found"}),
    ("Spring", {"timestamp": 1, "status": 404, "error": "Not Found", "path": "/embeddings"}),
    ("llama.cpp", {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}),
    ("Go", b"404 page not found\n"),
    ("Express", b"<!DOCTYPE html><html><head><title>Error</title></head><pre>Cannot POST /embeddings</pre></html>"),
    ("nginx", b"<html><head><title>404 Not Found</title></head></html>"),
    ("Kong", {"message": "no Route matched with those values"}),
    ("nobody", b""),
]


@pytest.mark.parametrize("body", [row[1] for row in NO_SUCH_PATH], ids=[row[0] for row in NO_SUCH_PATH])
def test_a_path_that_is_not_there_says_nothing_of_a_model(body: object) -> None:
    judged = _judge(404, body)
    assert (judged.verdict, judged.scope, judged.reason) == (BROKEN, Scope.MODEL, "wrong_endpoint")
    assert judged.cooldown == BAD_KEY


# name, preset, status, body, verdict, scope, reason
ROW_CASES = [
    ("no money at OpenAI is a 429", "openai", 429, _error(code="insufficient_quota"), BROKEN, Scope.ACCOUNT, "quota"),
    (
        "Gemini's quota text is a rate limit",
        "gemini",
        429,
        _error("You exceeded your current quota", status="RESOURCE_EXHAUSTED"),
        TRANSIENT,
        Scope.KEY_MODEL,
        "rate_limit",
    ),
    (
        "one request over the TPM limit",
        "openai",
        429,
        _error("Request too large for gpt-4o. Limit 1, Requested 30", code="rate_limit_exceeded"),
        CANNOT,
        Scope.REQUEST,
        "request_too_large",
    ),
    (
        "Groq says the same with a 413",
        "groq",
        413,
        _error("Request too large for model x. TPM: Limit 6000", code="rate_limit_exceeded"),
        CANNOT,
        Scope.REQUEST,
        "request_too_large",
    ),
    (
        "Azure's code is a string number",
        "azure",
        401,
        _error("Access denied", code="401"),
        BROKEN,
        Scope.KEY,
        "bad_key",
    ),
    ("Azure's deployment", "azure", 404, _error(code="DeploymentNotFound"), BROKEN, Scope.MODEL, "model_not_found"),
    (
        "Azure's content filter",
        "azure",
        400,
        _error(code="content_filter", innererror={"code": "ResponsibleAIPolicyViolation"}),
        FATAL,
        Scope.REQUEST,
        "content_filter",
    ),
    (
        "OpenAI's model is missing for this key",
        "openai",
        404,
        _error(code="model_not_found"),
        BROKEN,
        Scope.KEY_MODEL,
        "model_not_found",
    ),
    ("anyone's model is missing", "lab", 404, _error(code="model_not_found"), BROKEN, Scope.MODEL, "model_not_found"),
    ("model_not_found with a 400", "lab", 400, _error(code="model_not_found"), BROKEN, Scope.MODEL, "model_not_found"),
    (
        "Gemini's bad key is a 400",
        "gemini",
        400,
        [_error("API key not valid", details=[{"reason": "API_KEY_INVALID"}])],
        BROKEN,
        Scope.KEY,
        "bad_key",
    ),
    (
        "xAI's bad key is a 400 with a string",
        "xai",
        400,
        {"code": "invalid-argument", "error": "Incorrect API key provided"},
        BROKEN,
        Scope.KEY,
        "bad_key",
    ),
    (
        "xAI's credits",
        "xai",
        429,
        {"error": "Your team has either used all available credits or reached its monthly spending limit"},
        BROKEN,
        Scope.ACCOUNT,
        "no_credit",
    ),
    (
        "Cohere's long text",
        "cohere",
        400,
        {"id": "1", "message": "too many tokens", "error_type": "TOO_MANY_TOKENS"},
        CANNOT,
        Scope.REQUEST,
        "context_too_long",
    ),
    ("context code", "lab", 400, _error(code="context_length_exceeded"), CANNOT, Scope.MODEL, "context_too_long"),
    (
        "DeepSeek tells by text",
        "deepseek",
        400,
        _error("This model's maximum context length is 1 tokens", code="invalid_request_error"),
        CANNOT,
        Scope.REQUEST,
        "context_too_long",
    ),
    (
        "tokens per request",
        "openai",
        400,
        _error("Requested 309209 tokens, max 300000 tokens per request", code="max_tokens_per_request"),
        CANNOT,
        Scope.REQUEST,
        "request_too_large",
    ),
    (
        "Mistral's batch",
        "mistral",
        400,
        {"object": "error", "message": "Too many inputs in request", "code": "3210"},
        CANNOT,
        Scope.REQUEST,
        "too_many_inputs",
    ),
    (
        "TEI's batch",
        "tei",
        422,
        {"message": "batch size 5 > maximum allowed batch size 4", "code": 422, "type": "Validation"},
        CANNOT,
        Scope.REQUEST,
        "too_many_inputs",
    ),
    (
        "Gemini's batch",
        "lab",
        400,
        [_error("at most 100 requests can be in one batch", code=400)],
        CANNOT,
        Scope.REQUEST,
        "too_many_inputs",
    ),
    (
        "DashScope's batch",
        "lab",
        400,
        _error("batch size is invalid, it should not be larger than 10"),
        CANNOT,
        Scope.REQUEST,
        "too_many_inputs",
    ),
    (
        "llama.cpp's 500 of validation kind",
        "lab",
        500,
        _error("input (4002 tokens) is too large to process. increase the physical batch size", code=500),
        CANNOT,
        Scope.REQUEST,
        "context_too_long",
    ),
    (
        "llama.cpp's context",
        "llama.cpp",
        400,
        _error("x", code=400, type="exceed_context_size_error"),
        CANNOT,
        Scope.REQUEST,
        "context_too_long",
    ),
    (
        "llama.cpp is not built for it",
        "llama.cpp",
        501,
        _error("x", code=501, type="not_supported_error"),
        BROKEN,
        Scope.MODEL,
        "unsupported_feature",
    ),
    (
        "NVIDIA's sick function is no request error",
        "nvidia",
        400,
        {"status": 400, "title": "Bad Request", "detail": "Function id 'a': DEGRADED function cannot be invoked"},
        TRANSIENT,
        Scope.MODEL,
        "overloaded",
    ),
    (
        "NVIDIA's account",
        "nvidia",
        404,
        {"status": 404, "title": "Not Found", "detail": "Function 'a': Not found for account 'b'"},
        BROKEN,
        Scope.KEY_MODEL,
        "model_not_found",
    ),
    (
        "Cloudflare's key",
        "cloudflare",
        400,
        {"success": False, "errors": [{"code": 10001, "message": "x"}]},
        BROKEN,
        Scope.KEY,
        "bad_key",
    ),
    (
        "Cloudflare's daily allocation",
        "cloudflare",
        429,
        {"errors": [{"code": 4006, "message": "x"}]},
        TRANSIENT,
        Scope.ACCOUNT,
        "quota",
    ),
    (
        "OpenRouter's free models share an account",
        "openrouter",
        429,
        _error("Rate limit exceeded: free-models-per-min. ", code=429),
        TRANSIENT,
        Scope.ACCOUNT,
        "rate_limit",
    ),
    (
        "OpenRouter's upstream is busy",
        "openrouter",
        429,
        _error("Provider returned error", code=429, metadata={"raw": "m is temporarily rate-limited upstream."}),
        TRANSIENT,
        Scope.MODEL,
        "overloaded",
    ),
    (
        "OpenRouter relays a 400",
        "openrouter",
        400,
        _error("Provider returned error", code=400, metadata={"raw": '{"error":{"message":"no"}}'}),
        CANNOT,
        Scope.REQUEST,
        "bad_request",
    ),
    (
        "OpenRouter relays a long context",
        "openrouter",
        400,
        _error("Provider returned error", code=400, metadata={"raw": '{"error":{"code":"context_length_exceeded"}}'}),
        CANNOT,
        Scope.MODEL,
        "context_too_long",
    ),
    ("Hugging Face's gateway", "huggingface", 502, HTML, TRANSIENT, Scope.PROVIDER, "server_error"),
    ("a proxy's HTML keeps its status", "lab", 502, HTML, TRANSIENT, Scope.MODEL, "server_error"),
    ("a key refused in HTML", "perplexity", 401, HTML, BROKEN, Scope.KEY, "bad_key"),
    (
        "OpenAI's junk is the request's",
        "openai",
        500,
        _error(type="model_error"),
        TRANSIENT,
        Scope.REQUEST,
        "bad_generation",
    ),
    ("Fireworks' suspension", "fireworks", 412, _error(code="PRECONDITION_FAILED"), BROKEN, Scope.ACCOUNT, "no_credit"),
    (
        "a body damaged on its way",
        "lab",
        400,
        _error("We could not parse the JSON body of your request."),
        CANNOT,
        Scope.REQUEST,
        "bad_request",
    ),
    (
        "a lacking feature",
        "lab",
        400,
        _error("`tool calling` is not supported with this model"),
        CANNOT,
        Scope.REQUEST,
        "unsupported_feature",
    ),
    (
        "402 in a token count",
        "lab",
        500,
        _error("used 402 tokens of 429, 401 left"),
        TRANSIENT,
        Scope.MODEL,
        "server_error",
    ),
    ("402 in a 400's text", "openai", 400, _error("invalid value: 402 tokens"), FATAL, Scope.REQUEST, "bad_request"),
    (
        "a provider's text is not another's",
        "lab",
        400,
        {"error": "Incorrect API key provided"},
        CANNOT,  # another host may serve, but whoever else's text benches no key
        Scope.REQUEST,
        "bad_request",
    ),
    (
        "Gemini's bad key without details",
        "gemini",
        400,
        [_error("API key not valid. Please pass a valid API key.", code=400, status="INVALID_ARGUMENT")],
        BROKEN,
        Scope.KEY,
        "bad_key",
    ),
    (
        "Gemini does not serve this place",
        "gemini",
        400,
        [_error("User location is not supported for the API use.", code=400, status="FAILED_PRECONDITION")],
        BROKEN,
        Scope.ACCOUNT,
        "forbidden",
    ),
    (
        "Azure's gateway has no calls left",
        "azure",
        403,
        {"statusCode": 403, "message": "Out of call volume quota. Quota will be replenished in 00:26:27."},
        TRANSIENT,
        Scope.ACCOUNT,
        "quota",
    ),
    (
        "Groq's JSON that is none",
        "groq",
        400,
        _error(code="json_validate_failed"),
        CANNOT,
        Scope.REQUEST,
        "bad_generation",
    ),
    (
        "no balance",
        "siliconflow",
        403,
        {"code": 30001, "message": "Sorry, your account balance is insufficient"},
        BROKEN,
        Scope.ACCOUNT,
        "no_credit",
    ),
    (
        "a model that fell out of memory",
        "lm-studio",
        400,
        {"error": "Model unloaded."},
        TRANSIENT,
        Scope.MODEL,
        "server_error",
    ),
    ("a budget is spent", "lab", 400, _error(type="budget_exceeded", code="400"), BROKEN, Scope.ACCOUNT, "no_credit"),
    (
        "a rate limit under a 403",
        "lab",
        403,
        _error("API rate limit exceeded"),
        TRANSIENT,
        Scope.KEY_MODEL,
        "rate_limit",
    ),
    ("throttled under a 400", "lab", 400, _error(type="ThrottlingException"), TRANSIENT, Scope.KEY_MODEL, "rate_limit"),
    (
        "not implemented",
        "ollama",
        501,
        _error("this model does not support embeddings"),
        BROKEN,
        Scope.MODEL,
        "unsupported_feature",
    ),
    (
        "too many inputs by code",
        "openai",
        400,
        _error("array too long.", code="array_above_max_length"),
        CANNOT,
        Scope.REQUEST,
        "too_many_inputs",
    ),
    (
        "too many inputs in words",
        "cohere",
        400,
        {"message": "invalid request: total number of texts must be at most 96"},
        CANNOT,
        Scope.REQUEST,
        "too_many_inputs",
    ),
    (
        "too many tokens in a batch",
        "voyage",
        400,
        {"detail": "The max allowed tokens per submitted batch is 120000."},
        CANNOT,
        Scope.REQUEST,
        "request_too_large",
    ),
    (
        "one text too long at TEI",
        "tei",
        413,
        {"error": "`inputs` must have less than 512 tokens. Given: 800"},
        CANNOT,
        Scope.REQUEST,
        "context_too_long",
    ),
    (
        "one text too long at NVIDIA",
        "nvidia",
        400,
        {"error": "Input length 600 exceeds maximum allowed token size 512"},
        CANNOT,
        Scope.REQUEST,
        "context_too_long",
    ),
    (
        "one text too long at Jina",
        "jina",
        422,
        {"detail": "Single text cannot exceed 8192 tokens. 9000 tokens given."},
        CANNOT,
        Scope.REQUEST,
        "context_too_long",
    ),
    (
        "no such model in words",
        "lab",
        400,
        _error("Invalid model name passed in model=x"),
        CANNOT,
        Scope.REQUEST,
        "bad_request",
    ),
    ("no credit in words", "lab", 400, _error("Your credit balance is too low"), CANNOT, Scope.REQUEST, "bad_request"),
    ("a word within a word", "xai", 400, {"error": "xIncorrect API keyx"}, FATAL, Scope.REQUEST, "bad_request"),
]


@pytest.mark.parametrize(
    ("preset", "status", "body", "verdict", "scope", "reason"),
    [r[1:] for r in ROW_CASES],
    ids=[r[0] for r in ROW_CASES],
)
def test_the_taxonomy_rules(
    preset: str, status: int, body: object, verdict: Verdict, scope: Scope, reason: str
) -> None:
    judged = _judge(status, body, preset)
    assert (judged.verdict, judged.scope, judged.reason, judged.status) == (verdict, scope, reason, status)


LOST = [
    ("OpenAI's code", 404, "*", _error("gone", code="previous_response_not_found")),
    ("the same with a 400", 400, "*", _error("gone", code="previous_response_not_found")),
    ("the same at OpenAI", 404, "openai", _error("gone", code="previous_response_not_found")),
    ("a previous response in prose", 404, "*", _error("Previous response with id 'resp_1' not found.")),
    ("a conversation", 404, "openai", _error("Conversation with id 'conv_1' not found.")),
    ("an item", 404, "openai", _error("Item with id 'rs_1' not found. Items are not persisted.")),
    ("a file", 404, "*", _error("No such File object: file-abc")),
    ("files", 400, "*", _error("Files [file-abc] were not found")),
    ("a vector store", 404, "*", _error("Vector store with id ['vs_1'] not found.")),
    ("a container that ran out", 404, "*", _error("Container cntr_1 has expired")),
    ("a stored prompt", 404, "*", _error("Prompt with id 'pmpt_1' not found.")),
]


@pytest.mark.parametrize(("status", "preset", "body"), [r[1:] for r in LOST], ids=[r[0] for r in LOST])
def test_an_id_that_nobody_knows_is_the_requests_fault(status: int, preset: str, body: object) -> None:
    """It must not bench the route for everybody."""
    judged = _judge(status, body, preset)
    assert (judged.verdict, judged.scope, judged.reason) == (FATAL, Scope.REQUEST, "state_not_found")
    assert judged.cooldown is None


MODELS = [
    "The model `gpt-9` does not exist or you do not have access to it.",
    "model 'response-writer' not found",
    "file not found",
    "File Not Found",
    "[Errno 2] No such file or directory: 'model.gguf'",
    "file model.gguf not found",
    "The audio model whisper-9 does not exist",
]


@pytest.mark.parametrize("message", MODELS)
def test_a_model_that_is_missing_still_benches_its_route(message: str) -> None:
    assert (_judge(404, _error(message)).verdict, _judge(404, _error(message)).scope) == (BROKEN, Scope.MODEL)


REJECTS = [
    ("code and param", 400, _error(code="unsupported_parameter", param="top_p"), "top_p"),
    ("unsupported value", 400, _error(code="unsupported_value", param="reasoning.effort"), "reasoning.effort"),
    ("unknown parameter in prose", 400, _error("Unknown parameter: 'encoding_format'."), "encoding_format"),
    ("unrecognized argument", 400, _error("Unrecognized request argument supplied: logprobs"), "logprobs"),
    ("pydantic's list", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "user"], "msg": "no"}]}, "user"),
    ("pydantic in prose", 400, _error("[{'type': 'extra_forbidden', 'loc': ('body', 'dimensions')}]"), "dimensions"),
    ("name after", 400, _error("Extra inputs are not permitted: stream_options"), "stream_options"),
    ("name before", 400, _error("stream_options: Extra inputs are not permitted"), "stream_options"),
    ("xAI", 400, {"error": "Model x does not support parameter reasoningEffort."}, "reasoningEffort"),
    ("Gemini", 400, [_error('Invalid JSON payload received. Unknown name "foo": Cannot find field.')], "foo"),
    ("vLLM", 400, {"object": "error", "message": "Model x does not support matryoshka representation"}, "dimensions"),
    ("a value of ours", 400, _error("encoding_format: base64 is not supported"), "encoding_format"),
    ("a choice of values", 400, _error("Invalid value for 'encoding_format'. Allowed: ['float']"), "encoding_format"),
    ("in plain words", 422, _error("Only float encoding format is supported"), "encoding_format"),
    ("zod", 400, _error("Unrecognized key(s) in object: 'stream_options'"), "stream_options"),
    ("JSON schema", 400, _error("Additional properties are not allowed ('encoding_format')"), "encoding_format"),
    (
        "pydantic's list of one value",
        422,
        {"detail": [{"type": "literal_error", "loc": ["body", "encoding_format"], "msg": "Input should be 'float'"}]},
        "encoding_format",
    ),
]


@pytest.mark.parametrize(("status", "body", "name"), [r[1:] for r in REJECTS], ids=[r[0] for r in REJECTS])
def test_a_refused_parameter_is_named(status: int, body: object, name: str) -> None:
    judged = _judge(status, body)
    assert (judged.verdict, judged.scope, judged.rejects) == (CANNOT, Scope.REQUEST, name)


@pytest.mark.parametrize(
    "said", ["property 'top_k' is unsupported", "logit_bias is not supported", "extra fields not permitted"]
)
def test_what_one_host_does_not_take_another_may(said: str) -> None:
    judged = _judge(400, _error(said))
    assert (judged.verdict, judged.scope, judged.rejects) == (CANNOT, Scope.REQUEST, None)


@pytest.mark.parametrize("status", [400, 422])
def test_a_page_is_a_gateways_word_and_not_the_requests_fault(status: int) -> None:
    assert _judge(status, b"<html><title>400 Bad Request</title></html>").verdict is CANNOT


@pytest.mark.parametrize(
    "body", [_error("-1 is less than the minimum of 1 - 'dimensions'"), _error("bad", param="input")]
)
def test_a_bad_value_names_no_parameter_to_drop(body: object) -> None:
    judged = _judge(400, body)
    assert (judged.verdict, judged.rejects) == (FATAL, None)


SHAPES = [
    {"error": {"message": "told so"}},
    {"error": "told so"},
    {"message": "told so", "code": "x", "type": "y"},
    {"detail": "told so"},
    {"detail": {"error": {"message": "told so"}}},
    {"errors": [{"code": 1, "message": "told so"}]},
    {"errors": ["told so"]},
    [{"error": {"message": "told so"}}],
    {"object": "error", "message": "told so"},
    {"type": "error", "error": {"type": "x", "message": "told so"}},
    {"error": {"code": 5, "message": "told so", "metadata": {"raw": '{"error":{"message":"told so"}}'}}},
    "told so",
    b"told  so\n",
]


@pytest.mark.parametrize("body", SHAPES, ids=[str(index) for index in range(len(SHAPES))])
def test_every_shape_gives_its_own_words(body: object) -> None:
    assert _judge(503, body).message == "told so"


@pytest.mark.parametrize(
    "code", [None, [], {}, 1.5, True, int("9" * 40), -3, "", "x" * 500, "provider_error", float("nan")], ids=repr
)
def test_an_odd_code_is_no_obstacle(code: object) -> None:
    assert _judge(503, _error(code=code)).status == 503
    inside = _judge(200, _error(code=code))
    assert (inside.verdict, inside.status) == (TRANSIENT, 502)


def test_a_rate_limit_never_counts_though_its_words_say_overloaded() -> None:
    judged = _judge(429, _error(type="overloaded_error"))
    assert (judged.verdict, judged.reason, judged.counts) == (TRANSIENT, "overloaded", False)


INSIDE = [
    ("a code that is no error's status", _error(code=200), TRANSIENT, 502),
    ("code is the status", _error(code=429), TRANSIENT, 429),
    ("code as text", _error(code="503"), TRANSIENT, 503),
    ("none: 502", _error(), TRANSIENT, 502),
    ("a string", {"error": "Model x is currently loading"}, TRANSIENT, 502),
    ("in a list", [{"error": "Model x is currently loading", "estimated_time": 20.0}], TRANSIENT, 502),
    ("by word", _error(code="insufficient_quota"), BROKEN, 429),
    ("top-level", {"object": "error", "message": "dead", "code": 503}, TRANSIENT, 503),
    ("after whitespace", b"\n   \n" * 2000 + b'{"error": {"code": 502}}', TRANSIENT, 502),
    ("at the end of a long body", b'{"pad": "' + b"x" * 9000 + b'", "error": {"code": 504}}', TRANSIENT, 504),
    ("Azure's filter", _error(code="content_filter", status=400), FATAL, 400),
    ("Cloudflare's", {"success": False, "errors": [{"code": 3043, "message": "x"}]}, TRANSIENT, 502),
    (
        "a failed response",
        {"object": "response", "status": "failed", "error": {"code": "server_error"}},
        TRANSIENT,
        502,
    ),
]


@pytest.mark.parametrize(("body", "verdict", "status"), [r[1:] for r in INSIDE], ids=[r[0] for r in INSIDE])
def test_an_error_inside_a_200_is_found(body: object, verdict: Verdict, status: int) -> None:
    judged = _judge(200, body)
    assert (judged.verdict, judged.status) == (verdict, status)


def test_a_200_headers_tell_no_cooldown() -> None:
    judged = _judge(200, _error("slow down", code=429), headers={"retry-after": "1"})
    assert (judged.cooldown, judged.told, judged.counts) == (None, False, False)
    told = _judge(200, _error("try again in 7s", code=429))
    assert (told.cooldown, told.told) == (7.0, True)


FINE = [
    b'{"object":"list","data":[]}',
    b' \n{"id":"x","choices":[]}',
    b'{"error": null, "output": []}',
    b'{"errors": [], "x": 1}',
    b'{"note": "error", "x": 1}',
    b'{"detail": "content", "message": "hello"}',
    b"[[0.1, 0.2]]",
    b'{"data": [{"embedding": "' + b"A" * 100_000 + b'"}]}',
    b'{"data": [1, 2',
]


@pytest.mark.parametrize("body", FINE, ids=[body[:30].decode() for body in FINE])
def test_json_without_an_error_is_left_to_its_kind(body: bytes) -> None:
    headers = {"content-type": "application/octet-stream"}
    assert failure(Outcome(status=200, headers=headers, body=body), preset="openai", now=NOW) is None


def test_a_large_success_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: bytes) -> object:
        pytest.fail("a success was parsed")

    monkeypatch.setattr("shim._core.judge.parse_json", refuse)
    body = b'{"error": null, "data": [' + b"0.25," * 500_000 + b"1]}"
    assert failure(Outcome(status=200, body=body), preset="openai", now=NOW) is None


@pytest.mark.parametrize(
    ("status", "body", "scope", "reason"),
    [
        (200, b"", Scope.MODEL, "malformed"),
        (200, b"  \n", Scope.MODEL, "malformed"),
        (200, b"ok", Scope.MODEL, "malformed"),
        (200, b'"ok"', Scope.MODEL, "malformed"),
        (200, b'{"error": {"code"', Scope.MODEL, "malformed"),
        (200, HTML, Scope.PROVIDER, "html"),
        (202, b'{"id": 1}', Scope.MODEL, "malformed"),
        (204, b"", Scope.MODEL, "malformed"),
    ],
)
def test_what_stands_in_place_of_an_answer_is_malformed(status: int, body: bytes, scope: Scope, reason: str) -> None:
    judged = _judge(status, body)
    assert (judged.verdict, judged.scope, judged.reason, judged.counts) == (TRANSIENT, scope, reason, True)


def test_speech_and_plain_text_are_answers_where_they_are_asked_for() -> None:
    audio = Outcome(status=200, headers={"content-type": "audio/mpeg"}, body=b"ID3\x00")
    assert failure(audio, preset="openai", now=NOW) is None
    text = Outcome(status=200, headers={"content-type": "text/plain"}, body=b"hello world")
    assert failure(text, preset="openai", now=NOW, expects_json=False) is None
    page = failure(Outcome(status=200, body=HTML), preset="openai", now=NOW, expects_json=False)
    assert page is not None
    assert page.reason == "html"


def test_html_is_named_never_shown() -> None:
    assert _judge(200, HTML).message == "HTML page instead of JSON (title '502 Bad Gateway')"
    assert _judge(503, HTML).message == "HTML page instead of JSON (title '502 Bad Gateway')"
    assert _judge(503, b"<html><body>down</body></html>").message == "HTML page instead of JSON"


def test_a_redirect_says_where_to_without_its_query() -> None:
    judged = _judge(307, headers={"location": "https://user:pw12@new.example/v1/x?key=abcdef123"})
    assert "https://new.example/v1/x" in judged.message
    assert "abcdef123" not in judged.message
    assert "pw12" not in judged.message


COOLDOWNS = [
    ("told by a 429", "*", 429, {"retry-after": "7"}, {}, 7.0, True, False),
    ("zero is told", "*", 429, {"retry-after": "0"}, {}, 0.0, True, False),
    ("told by a 503", "*", 503, {"retry-after": "7"}, {}, 7.0, True, True),
    ("not read on a 500", "together", 500, {"retry-after": "7"}, {}, None, False, True),
    (
        "no credit outlasts retry-after",
        "openai",
        429,
        {"retry-after": "7"},
        _error(code="insufficient_quota"),
        NO_CREDIT,
        False,
        False,
    ),
    ("untold capacity", "mistral", 429, {}, {"code": "3505", "message": "x"}, CAPACITY, False, False),
    ("told capacity", "mistral", 429, {"retry-after": "2"}, {"code": "3505", "message": "x"}, 2.0, True, False),
    ("Hugging Face's month", "huggingface", 402, {}, {"error": "depleted"}, DAY, False, False),
    ("cannot has none", "*", 413, {"retry-after": "2"}, {}, None, False, False),
]


@pytest.mark.parametrize(
    ("preset", "status", "headers", "body", "cooldown", "told", "counts"),
    [r[1:] for r in COOLDOWNS],
    ids=[r[0] for r in COOLDOWNS],
)
def test_the_cooldown_is_the_providers_where_it_tells(
    preset: str, status: int, headers: dict[str, str], body: object, cooldown: float | None, told: bool, counts: bool
) -> None:
    judged = _judge(status, body, preset, headers)
    assert (judged.cooldown, judged.told, judged.counts) == (cooldown, told, counts)


def test_a_message_is_one_line_of_bounded_length() -> None:
    message = _judge(500, _error("a\n\n  b\t" + "c" * 5000)).message
    assert message.startswith("a b ccc")
    assert len(message) == 300
    assert message.endswith("…")


SECRETS = [
    ("Incorrect API key provided: sk-test-abcdefgh12345678.", "abcdefgh"),
    ("sent Bearer abcdefghijklmnop1 here", "abcdefghijklmnop1"),
    ("GET /v1?key=zzzz9999yyyy&x=1", "zzzz9999yyyy"),
    ("api_key='zzzz9999yyyy'", "zzzz9999yyyy"),
    ("x-api-key: zzzz9999yyyy", "zzzz9999yyyy"),
    ("https://me:hunter22@host/v1", "hunter22"),
    ("AIzaSyA1234567890", "SyA1234567890"),
    ("gsk_abcdef123456", "abcdef123456"),
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_what_looks_like_a_credential_is_masked(text: str, secret: str) -> None:
    masked = mask_secrets(text)
    assert secret not in masked
    assert "***" in masked


def test_known_keys_are_masked_before_the_message_is_cut() -> None:
    known = "plain" + "q" * 40
    text = "w" * 280 + " " + known
    judged = failure(Outcome(status=500, body=_bytes(_error(text))), preset="*", now=NOW, known=[known])
    assert judged is not None
    assert judged.message == "w" * 280 + " ***"
    assert mask_secrets("abcd-longer and abcd", ["abcd", "abcd-longer"]) == "*** and ***"


@pytest.mark.parametrize(
    "text", ["Missing key: none given", "max_tokens=4096", "the task-runner said so", "no key at all"]
)
def test_ordinary_words_are_left_alone(text: str) -> None:
    assert mask_secrets(text) == text


PAYLOADS = [
    ("content", b'{"choices":[{"delta":{"content":"say \\"error\\""}}]}', None, None, None),
    ("error null", b'{"type":"response.created","response":{"error":null}}', "response.created", None, None),
    ("done", b"[DONE]", None, None, None),
    ("object with a code", _bytes(_error("Overloaded", code=529)), None, TRANSIENT, 529),
    ("object without", _bytes(_error("oops")), None, TRANSIENT, 502),
    ("chunk and error", b'{"id":"x","choices":[],"error":{"code":400,"message":"bad"}}', None, FATAL, 400),
    ("event named error", b'{"message":"rate limited","type":"rate_limit"}', "error", TRANSIENT, 429),
    ("event named error, no JSON", b"boom", "error", TRANSIENT, 502),
    ("event named error, empty", b"", "error", TRANSIENT, 502),
    ("type error", b'{"type":"error","code":"insufficient_quota","message":"x"}', None, BROKEN, 429),
    ("Anthropic", b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', "error", TRANSIENT, 529),
    (
        "response.failed",
        b'{"type":"response.failed","response":{"error":{"code":"insufficient_quota"}}}',
        None,
        BROKEN,
        429,
    ),
    ("response.failed, untold", b'{"type":"response.failed","response":{"error":null}}', None, TRANSIENT, 502),
    ("tool call at Groq", _bytes(_error(code="tool_use_failed", status_code=400)), "error", CANNOT, 400),
    (
        "over the TPM in a stream",
        _bytes(_error("Request too large for gpt-4o", code="rate_limit_exceeded")),
        None,
        CANNOT,
        429,
    ),
    ("broken JSON", b'{"error": {', None, None, None),
]


@pytest.mark.parametrize(
    ("payload", "event", "verdict", "status"), [r[1:] for r in PAYLOADS], ids=[r[0] for r in PAYLOADS]
)
def test_an_event_is_judged(payload: bytes, event: str | None, verdict: Verdict | None, status: int | None) -> None:
    preset = "groq" if b"tool_use" in payload else "openai"
    judged = payload_failure(payload, event=event, preset=preset, now=NOW)
    assert (judged and judged.verdict, judged and judged.status) == (verdict, status)


@pytest.mark.parametrize("status", range(400, 600))
def test_a_rate_limit_never_counts_and_only_transient_does(status: int) -> None:
    for preset in {row.preset for row in ROWS}:
        judged = _judge(status, b"", preset)
        assert not judged.counts or (judged.verdict is TRANSIENT and status != 429)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.preset}-{row.then.reason}" for row in ROWS])
def test_no_row_is_hidden_behind_another(row: Row) -> None:
    """No row is hidden behind another: its statuses and codes are ruled as it says, where it asks for no text."""
    if row.text is not None:
        return
    statuses = [status for status in range(400, 600) if status in row.status]
    for word in row.codes or {""}:
        assert any(find(row.preset, status, frozenset({word}), "") == row.then for status in statuses)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "errors", "message", "code", "type", "status", "detail", "loc", "param", "raw", "metadata"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    status=st.none() | st.integers(100, 999) | st.sampled_from([200, 400, 422, 429, 503]),
    body=st.binary(max_size=60) | _JSON.map(_bytes),
    fault=st.none() | st.sampled_from(Fault),
    preset=st.sampled_from(sorted({row.preset for row in ROWS})),
)
def test_no_answer_raises(status: int | None, body: bytes, fault: Fault | None, preset: str) -> None:
    judged = failure(Outcome(status=status, body=body, fault=fault), preset=preset, now=NOW)
    payload_failure(body, event="error", preset=preset, now=NOW)
    assert judged is not None or (status is not None and 200 <= status < 300)
    if judged is not None:
        assert len(judged.message) <= 300
        assert judged.message == " ".join(judged.message.split())


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"error":' * 50_000, b'{"error": "\\ud83d"}', b'{"error": NaN}'])
def test_hostile_bodies_are_judged(body: bytes) -> None:
    for status in (200, 429):
        judged = _judge(status, body) if status == 429 else failure(Outcome(status=200, body=body), preset="*", now=NOW)
        assert judged is None or judged.message.encode("utf-8")
