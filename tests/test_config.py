"""The schema: what is built, what is refused and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scripts.defaults_table import table
from shim._addresses import is_private_host
from shim.config import ConfigError, PolicyConfig, ProviderConfig
from shim.events import Kind
from shim.loading import load

LAB = {"base_url": "http://10.0.0.5:8000/v1"}
SECRET = "sk-do-not-show-me"


def with_provider(**settings: Any) -> dict[str, Any]:
    return {"providers": {"lab": {**LAB, **settings}}}


def with_policy(**settings: Any) -> dict[str, Any]:
    return {"policy": settings}


def with_chat(routes: list[Any] | None = None, **settings: Any) -> dict[str, Any]:
    family = {"kind": "chat", "routes": ["lab/m"] if routes is None else routes, **settings}
    return {"providers": {"lab": dict(LAB)}, "families": {"fast": family}}


def with_families(**families: Any) -> dict[str, Any]:
    return {"providers": {"lab": dict(LAB), "openai": {"api_key": "k"}}, "families": families}


def chat(*routes: str, **settings: Any) -> dict[str, Any]:
    return {"kind": "chat", "routes": list(routes), **settings}


def embedding(*routes: str, **settings: Any) -> dict[str, Any]:
    return {"kind": "embedding", "routes": list(routes), **settings}


WORDS = [
    *(
        "lab",
        "openai",
        "fast",
        "bge-m3",
        "kind",
        "routes",
        "provider",
        "model",
        "policy",
        "breaker",
        "aliases",
        "fallback",
    ),
    *(
        "api_key",
        "api_keys",
        "key",
        "account",
        "base_url",
        "headers",
        "preset",
        "enabled",
        "input_type",
        "price",
        "rpm",
    ),
]
KINDS = "embedding, chat, image, speech, transcription, moderation, rerank"
ORDERS = "priority, round_robin, weighted, fastest, least_busy"
AUTHS = "bearer, api-key, x-api-key, none"

BAD: list[tuple[str, dict[str, Any], str]] = [
    # -- the whole
    ("unknown key at the top", {"polcy": {}}, "polcy: unknown key 'polcy'; did you mean 'policy'?"),
    (
        "unknown key like none",
        {"zzz": 1},
        "zzz: unknown key 'zzz'; allowed: default_chat, default_embedding, providers, families, policy",
    ),
    (
        "providers as a list",
        {"providers": [SECRET]},
        "providers: must be a table, is a list; write [providers.NAME] for each, not [[providers]]",
    ),
    (
        "default chat unknown",
        {**with_chat(), "default_chat": "fsat"},
        "default_chat: unknown family 'fsat'; did you mean 'fast'?",
    ),
    ("default without families", {"default_chat": "fast"}, "default_chat: unknown family 'fast'; configured: none"),
    (
        "default of another kind",
        {**with_chat(), "default_embedding": "fast"},
        "default_embedding: family 'fast' is of kind chat; must be of kind embedding",
    ),
    (
        "a list of families",
        {"families": [{"name": "fast"}]},
        "families: must be a table, is a list; write [families.NAME] for each, not [[families]]",
    ),
    (
        "a timeout of nothing in particular",
        {"policy": {"timeout": 30}},
        "policy.timeout: unknown key 'timeout'; write attempt_timeout for one attempt, deadline for the whole call",
    ),
    # -- providers
    (
        "provider with a slash",
        {"providers": {"a/b": dict(LAB)}},
        """providers."a/b": provider name 'a/b' may hold letters, digits, '.', '_' and '-' alone""",
    ),
    ("provider is a key", {"providers": {"openai": SECRET}}, "providers.openai: must be a table"),
    (
        "misspelt preset",
        {"providers": {"opnai": {}}},
        "providers.opnai.base_url: is missing; 'opnai' is no preset; did you mean 'openai'?",
    ),
    (
        "unknown preset",
        {"providers": {"mine": {"preset": "mistrall"}}},
        "providers.mine.preset: unknown preset 'mistrall'; did you mean 'mistral'?",
    ),
    (
        "azure without its resource",
        {"providers": {"azure": {"api_key": "k"}}},
        "providers.azure.base_url: is missing; preset 'azure' needs it, "
        "such as https://<resource>.openai.azure.com/openai/v1",
    ),
    (
        "unknown key of a provider",
        with_provider(apikey=SECRET),
        "providers.lab.apikey: unknown key 'apikey'; did you mean 'api_key'?",
    ),
    (
        "quota of a provider",
        with_provider(rpm=60),
        "providers.lab.rpm: 'rpm' is not available yet; remove it",
    ),
    (
        "auth unknown",
        with_provider(auth="baerer"),
        f"providers.lab.auth: unknown value 'baerer'; did you mean 'bearer'? (allowed: {AUTHS})",
    ),
    (
        "auth without a key",
        with_provider(auth="bearer"),
        "providers.lab.api_key: is missing; auth = 'bearer' sends one",
    ),
    (
        "no auth and a key",
        with_provider(auth="none", api_key=SECRET),
        "providers.lab.auth: is 'none' but a key is written; remove one of the two",
    ),
    (
        "enabled as a word",
        with_provider(enabled="sometimes"),
        "providers.lab.enabled: must be true or false, is 'sometimes'",
    ),
    ("headers as a string", with_provider(headers=SECRET), "providers.lab.headers: must be a table, is '***'"),
    (
        "header value of another shape",
        with_provider(headers={"X-Team": [SECRET]}),
        "providers.lab.headers.X-Team: must be a string, is '***'",
    ),
    (
        "header with a line break",
        with_provider(headers={"X-Team": "a\r\nX-Evil: b"}),
        "providers.lab.headers.X-Team: '***' holds characters that no header can carry",
    ),
    (
        "header name with a space",
        with_provider(headers={"X Team": "a"}),
        """providers.lab.headers."X Team": is not a header name (RFC 9110 section 5.6.2)""",
    ),
    (
        "forwarded header name",
        with_provider(forward_headers=["X-Ok", "no good"]),
        "providers.lab.forward_headers[1]: 'no good' is not a header name (RFC 9110 section 5.6.2)",
    ),
    # -- base URLs
    (
        "no scheme",
        with_provider(base_url="api.example.com/v1"),
        "providers.lab.base_url: has no scheme; begin it with https:// (or http:// for loopback and private hosts)",
    ),
    (
        "host and port alone",
        with_provider(base_url="localhost:8000/v1"),
        "providers.lab.base_url: has no scheme; begin it with https:// (or http:// for loopback and private hosts)",
    ),
    (
        "other scheme",
        with_provider(base_url="ftp://api.example.com"),
        "providers.lab.base_url: 'ftp://api.example.com' has scheme 'ftp'; allowed: https, http",
    ),
    (
        "plain http to the world",
        with_provider(base_url="http://api.example.com/v1"),
        "providers.lab.base_url: 'http://api.example.com/v1' is not https and api.example.com is not loopback or "
        "private; use https or allow_insecure = true",
    ),
    (
        "public address in disguise",
        with_provider(base_url="http://134744072/v1"),
        "providers.lab.base_url: 'http://134744072/v1' is not https and 134744072 is not loopback or private; "
        "use https or allow_insecure = true",
    ),
    (
        "credentials in it",
        with_provider(base_url=f"https://user:{SECRET}@api.example.com/v1"),
        "providers.lab.base_url: 'https://api.example.com/v1' has credentials in it; "
        "remove what stands before the @ and use api_key or headers",
    ),
    (
        "query in it",
        with_provider(base_url=f"https://api.example.com/v1?key={SECRET}"),
        "providers.lab.base_url: 'https://api.example.com/v1' has a query or fragment; write it as query = {...}",
    ),
    (
        "placeholder outside azure",
        with_provider(base_url="https://api.example.com/{model}"),
        "providers.lab.base_url: 'https://api.example.com/{model}' has a placeholder that is not filled here; "
        "only wire = 'azure' knows {model}",
    ),
    (
        "port that is a piece of a password",
        with_provider(base_url=f"https://user:{SECRET}/x@api.example.com"),
        "providers.lab.base_url: is not a URL: its host or port cannot be read",
    ),
    (
        "line break in it",
        with_provider(base_url="https://api.example.com/\nv1"),
        "providers.lab.base_url: a base URL may not hold spaces, control characters, backslashes or "
        "non-ASCII characters",
    ),
    (
        "local scheme elsewhere",
        with_provider(base_url="local://"),
        "providers.lab.base_url: local:// is kept for the provider in this process; use preset = 'local'",
    ),
    # -- families
    (
        "family named auto",
        {"providers": {"lab": dict(LAB)}, "families": {"auto": chat("lab/m")}},
        """families.auto: family name 'auto' is not allowed; 'auto' and "" mean the default family""",
    ),
    ("family as a list", with_families(f=[]), "families.f: must be a table"),
    (
        "kind missing",
        with_families(f={"routes": ["lab/m"]}),
        f"families.f.kind: is missing and 'f' is no known family; allowed: {KINDS}",
    ),
    (
        "known family misspelt",
        with_families(**{"bge-m4": {}}),
        f"families.bge-m4.kind: is missing and 'bge-m4' is no known family; did you mean 'bge-m3'? allowed: {KINDS}",
    ),
    (
        "kind unknown",
        with_chat(kind="chatt"),
        f"families.fast.kind: unknown value 'chatt'; did you mean 'chat'? (allowed: {KINDS})",
    ),
    (
        "unknown key of a family",
        with_chat(alias=["x"]),
        "families.fast.alias: unknown key 'alias'; did you mean 'aliases'?",
    ),
    ("aliases as a string", with_chat(aliases="x"), "families.fast.aliases: must be a list, is 'x'"),
    ("no routes", with_chat(routes=[]), "families.fast.routes: must be a list of at least one route"),
    ("routes left out", with_families(f={"kind": "chat"}), "families.f.routes: must be a list of at least one route"),
    (
        "known family that nobody serves",
        {"providers": {"lab": dict(LAB)}, "families": {"mistral-embed": {}}},
        "families.mistral-embed.routes: no configured provider is known to serve it; known: mistral",
    ),
    (
        "dimensions of a chat family",
        with_chat(dimensions=3),
        "families.fast.dimensions: is for embedding families alone; this one is of kind chat",
    ),
    (
        "dimensions below one",
        with_families(e=embedding("lab/e", dimensions=0)),
        "families.e.dimensions: must be at least 1, is 0",
    ),
    # -- routes
    (
        "provider misspelt in a table",
        with_chat(routes=["lab/m", {"provider": "lba", "model": "x"}]),
        "families.fast.routes[1].provider: unknown provider 'lba'; did you mean 'lab'?",
    ),
    (
        "provider like none",
        with_chat(routes=["zzz/m"]),
        "families.fast.routes[0].provider: unknown provider 'zzz'; configured: lab",
    ),
    (
        "preset that is not configured",
        with_chat(routes=["groq/m"]),
        "families.fast.routes[0].provider: provider 'groq' is not configured; add [providers.groq]",
    ),
    (
        "route without a provider",
        with_chat(routes=["gpt-4o"]),
        "families.fast.routes[0]: 'gpt-4o' is not of the form 'provider/model'",
    ),
    (
        "route without a model",
        with_chat(routes=["lab/"]),
        "families.fast.routes[0]: 'lab/' is not of the form 'provider/model'",
    ),
    ("route as a number", with_chat(routes=[3]), "families.fast.routes[0]: must be 'provider/model' or a table"),
    ("model missing", with_chat(routes=[{"provider": "lab"}]), "families.fast.routes[0].model: is missing"),
    ("provider missing", with_chat(routes=[{"model": "m"}]), "families.fast.routes[0].provider: is missing"),
    (
        "weight of nothing",
        with_chat(routes=[{"provider": "lab", "model": "m", "weight": 0}]),
        "families.fast.routes[0].weight: must be above 0, is 0",
    ),
    (
        "priority as a word",
        with_chat(routes=[{"provider": "lab", "model": "m", "priority": "high"}]),
        "families.fast.routes[0].priority: must be a whole number, is 'high'",
    ),
    (
        "budget of a route",
        with_chat(routes=[{"provider": "lab", "model": "m", "tpd": 5}]),
        "families.fast.routes[0].tpd: 'tpd' is not available yet; remove it",
    ),
    (
        "unknown key inside a route's table",
        with_chat(routes=[{"provider": "lab", "model": "m", "price": {"inpt": 1}}]),
        "families.fast.routes[0].price.inpt: unknown key 'inpt'; did you mean 'input'?",
    ),
    (
        "the same route twice",
        with_chat(routes=["lab/m", "lab/x", "lab/m"]),
        "families.fast.routes[2]: 'lab/m' is routes[0] already; remove one",
    ),
    (
        "two vector spaces in one family",
        with_families(mine=embedding("openai/text-embedding-3-small", "openai/text-embedding-ada-002")),
        "families.mine.routes[1]: 'openai/text-embedding-ada-002' is a model of 'text-embedding-ada-002', "
        "another vector space than 'text-embedding-3-small'; give it its own family",
    ),
    (
        "another model in a known family",
        with_families(**{"bge-m3": {"routes": ["openai/text-embedding-3-small"]}}),
        "families.bge-m3.routes[0]: 'openai/text-embedding-3-small' is a model of 'text-embedding-3-small', "
        "another vector space than 'bge-m3'; give it its own family",
    ),
    (
        "another known model behind a server of one's own",
        with_families(**{"bge-m3": {"routes": ["openai/baai/bge-m3", "lab/text-embedding-3-small"]}}),
        "families.bge-m3.routes[1]: 'lab/text-embedding-3-small' is a model of 'text-embedding-3-small', "
        "another vector space than 'bge-m3'; give it its own family",
    ),
    (
        "two known models behind a server of one's own",
        with_families(mine=embedding("lab/nomic-ai/nomic-embed-text:latest", "lab/BAAI/bge-m3:567m")),
        "families.mine.routes[1]: 'lab/BAAI/bge-m3:567m' is a model of 'bge-m3', "
        "another vector space than 'nomic-embed-text-v1.5'; give it its own family",
    ),
    (
        "a tag that is a size",
        with_families(mine=embedding("lab/qwen3-embedding:0.6b", "lab/qwen3-embedding:8b")),
        "families.mine.routes[1]: 'lab/qwen3-embedding:8b' is a model of 'qwen3-embedding-8b', "
        "another vector space than 'qwen3-embedding-0.6b'; give it its own family",
    ),
    (
        "chat by an embedding API",
        {"providers": {"cohere": {"api_key": "k"}}, "families": {"c": chat("cohere/command-a")}},
        "families.c.routes[0].provider: 'cohere' has wire = 'cohere', which is for embeddings alone; "
        "this family is of kind chat: use preset 'cohere-chat'",
    ),
    # -- fallbacks
    (
        "fallback of an embedding family",
        with_families(e=embedding("lab/e", fallback=["c"]), c=chat("lab/m")),
        "families.e.fallback: an embedding family may not fall back: another family is another vector space; remove it",
    ),
    (
        "fallback of an image family",
        with_families(i={"kind": "image", "routes": ["lab/i"], "fallback": ["c"]}, c=chat("lab/m")),
        "families.i.fallback: only chat families may fall back; this one is of kind image; remove it",
    ),
    (
        "fallback to nobody",
        with_families(a=chat("lab/a", fallback=["locla"]), local=chat("lab/b")),
        "families.a.fallback[0]: unknown family 'locla'; did you mean 'local'?",
    ),
    (
        "fallback to another kind",
        with_families(a=chat("lab/a", fallback=["e"]), e=embedding("lab/e")),
        "families.a.fallback[0]: family 'e' is of kind embedding; must be of kind chat",
    ),
    (
        "fallback to itself",
        with_families(a=chat("lab/a", fallback=["a"])),
        "families.a.fallback: goes in a circle: a -> a; remove one of them",
    ),
    (
        "fallback in a circle",
        with_families(
            b=chat("lab/b", fallback=["c"]), c=chat("lab/c", fallback=["a"]), a=chat("lab/a", fallback=["b"])
        ),
        "families.a.fallback: goes in a circle: a -> b -> c -> a; remove one of them",
    ),
    # -- words with two meanings
    (
        "model id in two families",
        with_families(a=chat("lab/m"), b=chat("openai/m")),
        "families.b: 'm' (a model id) also means family 'a' (a model id); "
        "of kind chat it may mean one alone: remove it from one, or join the two",
    ),
    (
        "alias that is another's name",
        with_families(a=chat("lab/m"), b=chat("lab/n", aliases=["a"])),
        "families.b: 'a' (an alias) also means family 'a' (its name); "
        "of kind chat it may mean one alone: remove it from one, or join the two",
    ),
    (
        "model id that reads as family/provider",
        with_families(a=chat("lab/m"), b=chat("openai/a/lab")),
        "families.b: 'a/lab' (a model id) also means family 'a' (family/provider); "
        "of kind chat it may mean one alone: remove it from one, or join the two",
    ),
    # -- policy
    ("policy as a string", {"policy": "fast"}, "policy: must be a table, is 'fast'"),
    ("family's policy as a string", with_chat(policy="fast"), "families.fast.policy: must be a table"),
    (
        "mode unknown",
        with_policy(mode="rce"),
        "policy.mode: unknown value 'rce'; did you mean 'race'? (allowed: sequential, hedged, race)",
    ),
    (
        "order unknown",
        with_policy(order="fastet"),
        f"policy.order: unknown value 'fastet'; did you mean 'fastest'? (allowed: {ORDERS})",
    ),
    (
        "headroom",
        with_policy(order="headroom"),
        f"policy.order: order 'headroom' is not available yet; available: {ORDERS}",
    ),
    (
        "cheapest",
        with_policy(order="cheapest"),
        f"policy.order: order 'cheapest' is not available yet; available: {ORDERS}",
    ),
    ("budget", with_policy(budget=5), "policy.budget: 'budget' is not available yet; remove it"),
    ("deadline of nothing", with_policy(deadline=0), "policy.deadline: must be above 0, is 0"),
    ("deadline without end", with_policy(deadline=float("inf")), "policy.deadline: must be a finite number, is inf"),
    ("timeout as a word", with_policy(attempt_timeout="soon"), "policy.attempt_timeout: must be a number, is 'soon'"),
    ("timeout as a boolean", with_policy(attempt_timeout=True), "policy.attempt_timeout: must be a number, is true"),
    ("retries below nought", with_policy(max_retries=-1), "policy.max_retries: must be at least 0, is -1"),
    ("half a retry", with_policy(max_retries=1.5), "policy.max_retries: must be a whole number, is 1.5"),
    ("race of one", with_policy(race_width=1), "policy.race_width: must be at least 2, is 1"),
    (
        "percentile unknown",
        with_policy(hedge_delay="p97"),
        "policy.hedge_delay: must be seconds of at least 0 or one of p50, p90, p95, p99, is 'p97'",
    ),
    (
        "hedge before the start",
        with_policy(hedge_delay=-1),
        "policy.hedge_delay: must be seconds of at least 0 or one of p50, p90, p95, p99, is -1",
    ),
    (
        "failure rate of nought",
        with_policy(breaker={"failure_rate": 0}),
        "policy.breaker.failure_rate: must be above 0, is 0",
    ),
    (
        "failure rate above one",
        with_policy(breaker={"failure_rate": 2}),
        "policy.breaker.failure_rate: must be at most 1, is 2",
    ),
    (
        "cooldown below nought",
        with_policy(breaker={"cooldown": -1}),
        "policy.breaker.cooldown: must be at least 0, is -1",
    ),
    (
        "longest cooldown below the first",
        with_policy(breaker={"cooldown": 60, "max_cooldown": 30}),
        "policy.breaker.max_cooldown: must be at least the cooldown of 60 s, is 30",
    ),
    (
        "unknown key of the breaker",
        with_policy(breaker={"windw": 1}),
        "policy.breaker.windw: unknown key 'windw'; did you mean 'window'?",
    ),
    (
        "family's policy",
        with_chat(policy={"deadlin": 1}),
        "families.fast.policy.deadlin: unknown key 'deadlin'; did you mean 'deadline'?",
    ),
]


@pytest.mark.parametrize(("mapping", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_configuration_is_refused_in_these_words(mapping: dict[str, Any], message: str) -> None:
    """The whole message, so that a changed word is seen; and never a key."""
    with pytest.raises(ConfigError) as caught:
        load(mapping, environ={})
    assert str(caught.value) == message
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_all_problems_are_told_at_once() -> None:
    """One line each, in the order of the configuration; a broken [policy] is not told again for each family."""
    mapping = {
        "default_chat": "x",
        "providers": {"lab": {**LAB, "enabld": True}},
        "policy": {"deadline": -1},
        "families": {"fast": chat("lab/m"), "slow": chat("lba/n")},
    }
    with pytest.raises(ConfigError) as caught:
        load(mapping, environ={})
    assert str(caught.value).splitlines() == [
        "providers.lab.enabld: unknown key 'enabld'; did you mean 'enabled'?",
        "policy.deadline: must be above 0, is -1",
        "families.slow.routes[0].provider: unknown provider 'lba'; did you mean 'lab'?",
        "default_chat: unknown family 'x'; configured: fast, slow",
    ]


def test_the_same_model_may_serve_families_of_two_kinds() -> None:
    config = load(with_families(a=chat("lab/m"), b=embedding("lab/m")), environ={})
    assert {name: family.kind for name, family in config.families.items()} == {"a": Kind.CHAT, "b": Kind.EMBEDDING}


def test_a_short_route_splits_at_the_first_slash() -> None:
    route = load(with_chat(routes=["lab/meta-llama/Llama-3.1-8B"]), environ={}).families["fast"].routes[0]
    assert (route.provider, route.model, route.route) == (
        "lab",
        "meta-llama/Llama-3.1-8B",
        "lab/meta-llama/Llama-3.1-8B",
    )


def test_a_familys_policy_lies_over_the_general_one() -> None:
    """Tables inside are merged key by key; the general policy itself stays as it is."""
    mapping = with_chat(policy={"attempt_timeout": 20, "breaker": {"failures": 7}})
    mapping["policy"] = {"max_retries": 5, "breaker": {"window": 9}}
    config = load(mapping, environ={})
    policy = config.families["fast"].policy
    assert (policy.attempt_timeout, policy.max_retries) == (20.0, 5)
    assert (policy.breaker.failures, policy.breaker.window, policy.breaker.cooldown) == (7, 9.0, 10.0)
    assert (config.policy.attempt_timeout, config.policy.breaker.failures) == (None, 3)


def test_a_cooldown_of_nought_is_allowed() -> None:
    assert load(with_policy(breaker={"cooldown": 0, "max_cooldown": 0}), environ={}).policy.breaker.cooldown == 0


@pytest.mark.parametrize(("written", "read"), [("p50", "p50"), ("p99", "p99"), (0, 0.0), (0.25, 0.25), ("0.25", 0.25)])
def test_a_hedge_delay_is_seconds_or_a_percentile(written: object, read: float | str) -> None:
    assert load(with_policy(hedge_delay=written), environ={}).policy.hedge_delay == read


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [(Kind.EMBEDDING, 30.0), (Kind.MODERATION, 30.0), (Kind.RERANK, 30.0), (Kind.CHAT, 120.0), (Kind.IMAGE, 120.0)],
)
def test_the_attempt_timeout_goes_by_kind_unless_it_is_told(kind: Kind, seconds: float) -> None:
    assert PolicyConfig().attempt_timeout_for(kind) == seconds
    assert PolicyConfig(attempt_timeout=7).attempt_timeout_for(kind) == 7.0


def test_the_first_chunk_of_a_private_server_may_take_longer() -> None:
    assert PolicyConfig().first_chunk_timeout_for(is_private=False) == 30.0
    assert PolicyConfig().first_chunk_timeout_for(is_private=True) == 120.0
    assert PolicyConfig(first_chunk_timeout=5).first_chunk_timeout_for(is_private=True) == 5.0


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("10.1.2.3", True),
        ("172.16.0.1", True),
        ("172.31.255.255", True),
        ("172.32.0.1", False),
        ("192.168.1.1", True),
        ("192.169.1.1", False),
        ("gpu-box.local", True),
        ("gpu-box", True),
        ("local.example.com", False),
        ("evil-local", True),
        ("notlocal.com", False),
        ("8.8.8.8", False),
        ("134744072", False),
        ("0x08080808", False),
        ("", False),
    ],
)
def test_which_hosts_are_private(host: str, private: bool) -> None:
    assert is_private_host(host) is private


@given(st.ip_addresses(v=4))
def test_no_global_address_is_private(address: Any) -> None:
    assert not (address.is_global and is_private_host(str(address)))


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 9)
    | st.floats()
    | st.sampled_from(["", "lab/m", "lab", "f", "${", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["providers", "families", "policy", "default_chat", "x"]), JUNK, max_size=4), JUNK
)
def test_whatever_is_written_is_built_or_refused(mapping: dict[str, Any], inner: Any) -> None:
    """Never another exception than ConfigError, and every line of it begins with a path."""
    whole = {**mapping, "providers": mapping.get("providers", {"lab": inner, "openai": {}})}
    message = ""
    try:
        load(whole, environ={})
    except ConfigError as error:
        message = str(error)
    assert all(": " in line for line in message.splitlines())


@pytest.mark.parametrize(
    ("settings", "base_url"),
    [
        ({"base_url": "https://api.example.com/v1///"}, "https://api.example.com/v1"),
        ({"base_url": "http://[::1]:8000/v1"}, "http://[::1]:8000/v1"),
        ({"base_url": "http://gpu-box:8000"}, "http://gpu-box:8000"),
        ({"base_url": "http://api.example.com", "allow_insecure": True}, "http://api.example.com"),
        ({"preset": "azure", "base_url": "https://r.openai.azure.com/"}, "https://r.openai.azure.com/openai/v1"),
        (
            {"preset": "azure", "base_url": "https://r.openai.azure.com/openai/deployments/{model}"},
            "https://r.openai.azure.com/openai/deployments/{model}",
        ),
        ({"preset": "local"}, "local://"),
        ({"preset": "local", "base_url": "local://"}, "local://"),
    ],
)
def test_base_urls_that_are_taken(settings: dict[str, Any], base_url: str) -> None:
    """Without a trailing slash; Azure's bare resource gets the path of its OpenAI-shaped API."""
    assert load({"providers": {"p": settings}}, environ={}).providers["p"].base_url == base_url


def test_a_configuration_cannot_be_changed() -> None:
    config = load(with_chat(), environ={})
    with pytest.raises(ValidationError, match="frozen"):
        config.families["fast"].name = "slow"


def test_neither_repr_nor_str_shows_a_secret() -> None:
    """Keys, header values and query values: what a notebook prints must be safe to share."""
    config = load(with_provider(api_key=SECRET, headers={"X-Key": SECRET}, query={"key": SECRET}), environ={})
    assert config.providers["lab"].keys[0].secret.get_secret_value() == SECRET
    assert SECRET not in repr(config) + str(config)


@pytest.mark.parametrize(
    ("settings", "usable"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"needs_key": True}, False),
        ({"needs_key": True, "keys": [{"alias": "a", "secret": "k", "account": "a"}]}, True),
    ],
)
def test_which_providers_are_usable(settings: dict[str, Any], usable: bool) -> None:
    provider = ProviderConfig.model_validate({"name": "p", "base_url": "https://x.example", **settings})
    assert provider.is_usable is usable


def test_the_table_of_defaults_has_every_key_of_a_policy() -> None:
    lines = table().splitlines()
    assert lines[:2] == ["| key | default |", "|---|---|"]
    for row in (
        '| `policy.hedge_delay` | `"p95"` |',
        "| `policy.breaker.cooldown` | `10.0` |",
        "| `policy.space_check` | `true` |",
        "| `policy.attempt_timeout` | 120 for chat, image, speech, transcription; 30 for the rest |",
        "| `route.priority` | `1` |",
    ):
        assert row in lines
    inside = {"breaker", "retry_budget"}
    assert {f"policy.{key}" for key in PolicyConfig.model_fields.keys() - inside} <= {
        line.split("`")[1] for line in lines[2:]
    }
