"""A caller's request written for one route: whose key it carries, where it goes, and what of its bytes changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.outcome import Judgement
from shim._core.prepare import Lengths, Prepared, asked_dimensions
from shim._core.request import Request, read_fields
from shim.events import Kind, Verdict
from tests.core.builders import OWN_BASE, chat, config, embedding, request, states

CALLERS = [
    ("Authorization", "Bearer sk-callers"),
    ("api-key", "callers-azure"),
    ("X-Api-Key", "callers-x"),
    ("x-goog-api-key", "callers-goog"),
    ("Cookie", "session=callers"),
    ("Proxy-Authorization", "Basic callers"),
    ("OpenAI-Organization", "org-callers"),
    ("OpenAI-Project", "proj-callers"),
    ("OpenAI-Beta", "assistants=v2"),
    ("X-Stainless-Lang", "python"),
    ("X-Stainless-Retry-Count", "0"),
    ("X-Request-Source", "notebook"),
    ("Accept", "application/json"),
    ("Content-Type", "application/json"),
    ("User-Agent", "OpenAI/Python"),
    ("Idempotency-Key", "stainless-1"),
    ("Host", "own.example"),
    ("Content-Length", "99"),
    ("Connection", "keep-alive"),
    ("Accept-Encoding", "gzip, deflate"),
    ("x-shim-route", "alpha"),
    ("x-shim-fallback", "off"),
    ("x-stainless-raw-response", "stream"),
]
FAMILY = "family"


def write(
    provider: Mapping[str, object] | None = None,
    route: Mapping[str, object] | None = None,
    family: Mapping[str, object] | None = None,
    *,
    asked: Request | None = None,
    key: int | None = None,
    fit: Lengths | None = None,
    dropped: Sequence[str] = (),
    kind: Kind = Kind.EMBEDDING,
) -> Prepared | Judgement:
    """The request that the only route of a configuration sends, with its first key where there is one."""
    provided = {"base_url": "https://alpha.example/v1", **(provider or {})}
    written = {"provider": "alpha", "model": "org/m", **(route or {})}
    of_kind = embedding if kind is Kind.EMBEDDING else chat
    built = config({"alpha": provided}, {FAMILY: of_kind([written], **(family or {}))})
    state = states(built)[FAMILY].routes[0]
    index = (0 if state.provider.keys else -1) if key is None else key
    return state.writer.write(asked or request(), index, fit, dropped)


def sent(*arguments: object, **more: object) -> Prepared:
    prepared = write(*arguments, **more)  # type: ignore[arg-type]
    assert isinstance(prepared, Prepared)
    return prepared


def headers(prepared: Prepared) -> dict[str, str]:
    """The headers by lower-case name; none may come twice."""
    pairs = [(name.decode().lower(), value.decode()) for name, value in prepared.headers]
    assert len(dict(pairs)) == len(pairs), f"a header twice: {pairs}"
    return dict(pairs)


def fields(prepared: Prepared) -> dict[str, object]:
    decoded = json.loads(prepared.body)
    assert isinstance(decoded, dict)
    return decoded


# -- credentials

CARRIERS = [
    ("bearer", {"api_key": "sk-a"}, {"authorization": "Bearer sk-a"}),
    ("api-key", {"api_key": "sk-a", "auth": "api-key"}, {"api-key": "sk-a"}),
    ("x-api-key", {"api_key": "sk-a", "auth": "x-api-key"}, {"x-api-key": "sk-a"}),
    ("none", {"auth": "none"}, {}),
    ("no key configured", {}, {}),
]
SECRETS = ("authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization")


@pytest.mark.parametrize(("provider", "expected"), [c[1:] for c in CARRIERS], ids=[c[0] for c in CARRIERS])
def test_another_provider_sees_its_own_key_and_nothing_of_the_callers(
    provider: Mapping[str, object], expected: Mapping[str, str]
) -> None:
    found = headers(sent(provider, asked=request(headers=CALLERS)))
    assert found == {
        **expected,
        "accept": "application/json",
        "content-type": "application/json",
        "user-agent": "OpenAI/Python",
        "idempotency-key": "stainless-1",
    }


def test_a_key_travels_as_latin_1() -> None:
    assert (b"Authorization", b"Bearer sk-\xe9") in sent({"api_key": "sk-é"}).headers


@pytest.mark.parametrize(("index", "secret"), [(0, "sk-1"), (1, "sk-2")])
def test_each_key_in_its_turn(index: int, secret: str) -> None:
    assert headers(sent({"api_keys": ["sk-1", "sk-2"]}, key=index))["authorization"] == f"Bearer {secret}"


def test_the_callers_other_headers_go_where_they_are_allow_listed() -> None:
    provider = {"forward_headers": ["X-Request-Source", "openai-beta"]}
    found = headers(sent(provider, asked=request(headers=CALLERS)))
    assert (found["x-request-source"], found["openai-beta"]) == ("notebook", "assistants=v2")
    assert "x-stainless-lang" not in found


def test_an_allow_list_never_lets_a_secret_or_an_account_through() -> None:
    provider = {"forward_headers": [name for name, _ in CALLERS]}
    found = headers(sent(provider, asked=request(headers=CALLERS)))
    assert not {*SECRETS, "openai-organization", "openai-project", "host", "content-length", "connection"} & set(found)
    assert not {name for name in found if name.startswith("x-shim-")}
    assert "x-stainless-raw-response" not in found


@given(st.lists(st.sampled_from([name for name, _ in CALLERS])), st.sampled_from(["bearer", "api-key", "x-api-key"]))
def test_no_secret_of_the_caller_reaches_another_provider(allowed: list[str], auth: str) -> None:
    provider = {"api_key": "sk-a", "auth": auth, "forward_headers": allowed}
    prepared = sent(provider, asked=request(headers=CALLERS, query="api_key=callers&key=callers"))
    shown = repr(prepared)
    assert "callers" not in shown


def test_the_own_base_url_keeps_the_callers_headers_and_key() -> None:
    found = headers(sent({"base_url": OWN_BASE}, asked=request(headers=CALLERS)))
    assert found["authorization"] == "Bearer sk-callers"
    assert set(SECRETS) <= set(found), "whichever of them the service behind it looks at"
    kept = {"openai-organization", "openai-project", "openai-beta", "x-stainless-lang", "x-request-source"}
    assert kept <= set(found)
    assert not {"host", "content-length", "connection", "x-shim-route", "x-shim-fallback"} & set(found)


def test_a_key_configured_for_the_own_base_url_replaces_the_callers() -> None:
    found = headers(sent({"base_url": OWN_BASE, "api_key": "sk-a"}, asked=request(headers=CALLERS)))
    assert found["authorization"] == "Bearer sk-a"
    assert set(SECRETS) & set(found) == {"authorization"}
    assert found["openai-organization"] == "org-callers"


PROVIDERS_OWN = [
    ("they are added", {"headers": {"X-Team": "nlp"}}, "x-team", "nlp"),
    ("they replace the caller's", {"headers": {"user-agent": "ours"}}, "user-agent", "ours"),
    ("they replace the key", {"api_key": "sk-a", "headers": {"Authorization": "Token t"}}, "authorization", "Token t"),
    (
        "they replace the caller's at the own base URL",
        {"base_url": OWN_BASE, "headers": {"OpenAI-Organization": "org-ours"}},
        "openai-organization",
        "org-ours",
    ),
]


@pytest.mark.parametrize(
    ("provider", "name", "value"), [p[1:] for p in PROVIDERS_OWN], ids=[p[0] for p in PROVIDERS_OWN]
)
def test_headers_of_the_provider(provider: Mapping[str, object], name: str, value: str) -> None:
    assert headers(sent(provider, asked=request(headers=CALLERS)))[name] == value


@pytest.mark.parametrize("base", [OWN_BASE, "https://alpha.example/v1"])
def test_a_stream_is_asked_for_uncompressed(base: str) -> None:
    """Compression holds events back until a block is full."""
    asked = request(headers=CALLERS, is_stream=True)
    assert headers(sent({"base_url": base}, asked=asked))["accept-encoding"] == "identity"


@pytest.mark.parametrize("base", [OWN_BASE, "https://alpha.example/v1"])
def test_the_key_of_one_attempt_does_not_travel_with_the_next(base: str) -> None:
    """One request is written for several routes in turn."""
    asked = request(headers=CALLERS, is_stream=True)
    sent({"base_url": base, "api_key": "sk-first", "headers": {"X-Team": "nlp"}}, asked=asked)
    assert "sk-first" not in repr(asked)
    found = headers(sent({"base_url": "https://beta.example/v1", "api_key": "sk-second"}, asked=asked))
    assert found["authorization"] == "Bearer sk-second"
    assert "x-team" not in found


def test_the_callers_request_is_left_as_it_was() -> None:
    asked = request(headers=CALLERS)
    before, body = list(asked.headers.all), asked.body
    sent({"base_url": OWN_BASE, "api_key": "k"}, {"drop_params": ["input"]}, asked=asked)
    assert (asked.headers.all, asked.body, sorted(asked.fields)) == (before, body, ["input", "model"])


# -- the URL

URLS = [
    ("the base and the path", {}, "", "https://alpha.example/v1/embeddings"),
    ("a trailing slash", {"base_url": "https://alpha.example/v1/"}, "", "https://alpha.example/v1/embeddings"),
    ("no path at all", {"base_url": "https://alpha.example"}, "", "https://alpha.example/embeddings"),
    (
        "a query of its own",
        {"query": {"api-version": "2024-10-21", "key": "a b"}},
        "",
        "https://alpha.example/v1/embeddings?api-version=2024-10-21&key=a+b",
    ),
    ("nothing of the caller's query", {}, "a=1&api_key=callers", "https://alpha.example/v1/embeddings"),
    (
        "the caller's query at its own base, without keys where one is configured",
        {"base_url": OWN_BASE, "api_key": "k"},
        "a=1&api_key=x&KEY=x&token=x&access_token=x&b=%20",
        f"{OWN_BASE}/embeddings?a=1&b=%20",
    ),
    (
        "the caller's query at its own base, whole where none is configured",
        {"base_url": OWN_BASE},
        "a=1&api_key=x",
        f"{OWN_BASE}/embeddings?a=1&api_key=x",
    ),
    (
        "both at the own base",
        {"base_url": OWN_BASE, "query": {"q": "2"}},
        "a=1",
        f"{OWN_BASE}/embeddings?a=1&q=2",
    ),
    (
        "the model in the base",
        {
            "base_url": "https://alpha.example/openai/deployments/{model}",
            "wire": "azure",
            "auth": "api-key",
            "api_key": "k",
            "query": {"api-version": "1"},
        },
        "",
        "https://alpha.example/openai/deployments/org%2Fm/embeddings?api-version=1",
    ),
]


@pytest.mark.parametrize(("provider", "query", "url"), [u[1:] for u in URLS], ids=[u[0] for u in URLS])
def test_url(provider: Mapping[str, object], query: str, url: str) -> None:
    assert sent(provider, asked=request(query=query)).url == url


def test_urls_of_two_requests_do_not_get_mixed_up() -> None:
    """What is remembered of one URL is for the same path and query alone."""
    built = config({"own": {"base_url": OWN_BASE}}, {"f": chat(["own/m"])})
    writer = states(built)["f"].routes[0].writer
    urls = []
    for path, query in (("/responses", ""), ("/completions", ""), ("/responses", "a=1"), ("/responses", "")):
        prepared = writer.write(request(kind=Kind.CHAT, path=path, query=query), -1, None)
        assert isinstance(prepared, Prepared)
        urls.append(prepared.url.removeprefix(OWN_BASE))
    assert urls == ["/responses", "/completions", "/responses?a=1", "/responses"]


# -- the body

VERBATIM = b'{"messages":[ { "role":"user", "content":"\\u00e9\xc3\xa9 \\/" } ],"model":"fast","temperature":1.50}'


def test_renaming_touches_no_other_byte() -> None:
    asked = request(VERBATIM, kind=Kind.CHAT, path="/chat/completions")
    assert sent(asked=asked, kind=Kind.CHAT).body == VERBATIM.replace(b'"fast"', b'"org/m"')


def test_a_body_that_needs_no_change_is_passed_on_as_it_is() -> None:
    body = b'{ "model": "org/m",\n "messages": [] }'
    prepared = sent({}, {}, asked=request(body, kind=Kind.CHAT, path="/chat/completions"), kind=Kind.CHAT)
    assert prepared.body == body


def test_a_request_without_a_model_gets_the_routes() -> None:
    asked = request({"messages": []}, kind=Kind.CHAT, path="/chat/completions")
    assert fields(sent(asked=asked, kind=Kind.CHAT)) == {"messages": [], "model": "org/m"}


CHANGES = [
    ("a dropped parameter", {"drop_params": ["seed"]}, {"seed": 1, "top_p": 0.5}, (), {"top_p": 0.5}),
    ("a parameter to drop that is not there", {"drop_params": ["seed"]}, {"top_p": 0.5}, (), {"top_p": 0.5}),
    ("a parameter that the route adds", {"params": {"seed": 7}}, {}, (), {"seed": 7}),
    ("a parameter that the route overrides", {"params": {"seed": 7}}, {"seed": 1}, (), {"seed": 7}),
    (
        "an added parameter is stronger than a dropped one",
        {"drop_params": ["a"], "params": {"a": 1}},
        {"a": 0},
        (),
        {"a": 1},
    ),
    ("a nested parameter", {"params": {"provider": {"only": ["x"]}}}, {}, (), {"provider": {"only": ["x"]}}),
    ("what the route has rejected", {}, {"user": "u", "stream_options": {}}, ("user", "stream_options"), {}),
    ("what may not be left out stays", {}, {"tools": [], "n": 2}, ("tools", "n"), {"tools": [], "n": 2}),
]


@pytest.mark.parametrize(
    ("route", "body", "dropped", "expected"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_parameters(
    route: Mapping[str, object], body: Mapping[str, object], dropped: Sequence[str], expected: Mapping[str, object]
) -> None:
    asked = request({"model": "fast", **body}, kind=Kind.CHAT, path="/chat/completions")
    assert fields(sent({}, route, asked=asked, kind=Kind.CHAT, dropped=dropped)) == {"model": "org/m", **expected}


EMBEDDINGS: list[
    tuple[str, dict[str, object], dict[str, object], Lengths | None, tuple[str, ...], dict[str, object]]
] = [
    ("a plain one", {}, {}, None, (), {}),
    ("encoding_format goes through", {}, {"encoding_format": "base64"}, None, (), {"encoding_format": "base64"}),
    ("encoding_format where base64 is not answered", {"base64": False}, {"encoding_format": "base64"}, None, (), {}),
    ("encoding_format that was rejected", {}, {"encoding_format": "base64"}, None, ("encoding_format",), {}),
    ("dimensions that the route takes", {}, {"dimensions": 4}, Lengths(4, 4, None), (), {"dimensions": 4}),
    (
        "dimensions by another name",
        {"dimensions_param": "output_dimension"},
        {"dimensions": 4},
        Lengths(4, 4, None),
        (),
        {"output_dimension": 4},
    ),
    ("dimensions that are cut here", {}, {"dimensions": 4}, Lengths(None, 8, 4), (), {}),
    ("the native length is not sent", {}, {"dimensions": 8}, Lengths(None, 8, None), (), {}),
    ("user goes through", {}, {"user": "u"}, None, (), {"user": "u"}),
]


@pytest.mark.parametrize(
    ("route", "body", "fit", "dropped", "expected"), [e[1:] for e in EMBEDDINGS], ids=[e[0] for e in EMBEDDINGS]
)
def test_embeddings(
    route: Mapping[str, object],
    body: Mapping[str, object],
    fit: Lengths | None,
    dropped: Sequence[str],
    expected: Mapping[str, object],
) -> None:
    asked = request({"model": FAMILY, "input": "hi", **body})
    prepared = sent({}, route, asked=asked, fit=fit, dropped=dropped)
    assert fields(prepared) == {"model": "org/m", "input": "hi", **expected}


BY_PARAMETER = {"parameter": "task", "query": "search_query", "document": "search_document"}
INSISTING = {**BY_PARAMETER, "parameter": "input_type", "default": "search_document"}
BY_PREFIX = {"query_prefix": "query: ", "document_prefix": "passage: "}
INPUT_TYPES = [
    ("nothing said and nothing wanted", {}, None, "hi", {"input": "hi"}),
    ("a query for a route that knows no such thing", {}, "query", "hi", {"input": "hi"}),
    ("a word of the provider's own goes through", {}, "clustering", "hi", {"input": "hi", "input_type": "clustering"}),
    ("a query by parameter", BY_PARAMETER, "query", "hi", {"input": "hi", "task": "search_query"}),
    ("a document by parameter", BY_PARAMETER, "document", "hi", {"input": "hi", "task": "search_document"}),
    ("nothing said needs no parameter", BY_PARAMETER, None, "hi", {"input": "hi"}),
    ("nothing said where one is wanted", INSISTING, None, "hi", {"input": "hi", "input_type": "search_document"}),
    ("a query where one is wanted", INSISTING, "query", "hi", {"input": "hi", "input_type": "search_query"}),
    (
        "the provider's own word where one is wanted",
        INSISTING,
        "cluster",
        "hi",
        {"input": "hi", "input_type": "cluster"},
    ),
    ("a query by prefix", BY_PREFIX, "query", "hi", {"input": "query: hi"}),
    ("a document by prefix", BY_PREFIX, "document", "hi", {"input": "passage: hi"}),
    ("nothing said has no prefix", BY_PREFIX, None, "hi", {"input": "hi"}),
    ("a prefix before each text", BY_PREFIX, "query", ["a", "b"], {"input": ["query: a", "query: b"]}),
    ("an array of tokens stays", BY_PREFIX, "query", [1, 2, 3], {"input": [1, 2, 3]}),
    ("arrays of tokens stay", BY_PREFIX, "query", [[1], [2, 3]], {"input": [[1], [2, 3]]}),
    ("both at once", {**BY_PARAMETER, **BY_PREFIX}, "query", "hi", {"input": "query: hi", "task": "search_query"}),
]


@pytest.mark.parametrize(
    ("rules", "word", "given_input", "expected"), [i[1:] for i in INPUT_TYPES], ids=[i[0] for i in INPUT_TYPES]
)
def test_input_type(
    rules: Mapping[str, str], word: str | None, given_input: object, expected: Mapping[str, object]
) -> None:
    body = {"model": FAMILY, "input": given_input, **({"input_type": word} if word else {})}
    assert fields(sent({}, {"input_type": rules}, asked=request(body))) == {"model": "org/m", **expected}


@given(st.lists(st.lists(st.integers(0, 200_000), min_size=1, max_size=5), min_size=1, max_size=4))
def test_tokens_are_never_touched(tokens: list[list[int]]) -> None:
    body = {"model": FAMILY, "input": tokens, "input_type": "document"}
    assert fields(sent({}, {"input_type": BY_PREFIX}, asked=request(body)))["input"] == tokens


def test_a_lone_surrogate_reaches_the_provider_as_it_was_written() -> None:
    asked = request(b'{"model": "family", "input": "a\\ud800b"}')
    assert fields(sent(asked=asked)) == {"model": "org/m", "input": "a\ud800b"}


def test_a_form_gets_the_model_of_the_route() -> None:
    form = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nold\r\n--b\r\n\r\n\x00\xff\r\n--b--\r\n'
    asked = request(form, kind=Kind.TRANSCRIPTION, path="/audio/transcriptions", content_type="multipart/form-data")
    assert asked.fields == {}
    assert sent(asked=asked, kind=Kind.CHAT).body == form.replace(b"old", b"org/m")


def test_a_body_that_is_neither_json_nor_a_form_is_passed_on() -> None:
    asked = request(b'\x00 no json name="model"\r\n\r\nx\r\n--', kind=Kind.CHAT, content_type="text/plain")
    assert sent(asked=asked, kind=Kind.CHAT).body == asked.body


def test_method_and_path_are_the_callers() -> None:
    asked = request(kind=Kind.CHAT, path="/responses")
    asked.method = "PUT"
    prepared = sent(asked=asked, kind=Kind.CHAT)
    assert (prepared.method, prepared.url) == ("PUT", "https://alpha.example/v1/responses")


# -- other wires


def test_cohere_is_written_natively_with_the_model_of_the_route() -> None:
    prepared = sent({"wire": "cohere"}, asked=request({"model": FAMILY, "input": ["a"], "encoding_format": "base64"}))
    assert prepared.url == "https://alpha.example/v1/v2/embed"
    assert fields(prepared)["texts"] == ["a"]
    assert fields(prepared)["model"] == "org/m"


@pytest.mark.parametrize(("word", "expected"), [("query", "search_query"), ("document", "search_document")])
def test_cohere_is_told_whether_it_is_a_query_without_rules_of_the_route(word: str, expected: str) -> None:
    asked = request({"model": FAMILY, "input": ["a"], "input_type": word})
    assert fields(sent({"wire": "cohere"}, asked=asked))["input_type"] == expected


def test_a_request_that_a_wire_cannot_express_is_a_cannot() -> None:
    judged = write({"wire": "huggingface"}, asked=request({"model": FAMILY, "input": [[1, 2]]}))
    assert isinstance(judged, Judgement)
    assert judged.verdict is Verdict.CANNOT


@pytest.mark.parametrize(
    ("body", "asked"),
    [('{"dimensions": 4}', 4), ('{"dimensions": null}', None), ("{}", None), ('{"dimensions": "4"}', None)],
)
def test_asked_dimensions(body: str, asked: int | None) -> None:
    assert asked_dimensions(read_fields(body.encode()) or {}) == asked
