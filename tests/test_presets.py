"""The presets: every provider and family builds, and agrees with the recorded facts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from shim._config.presets import presets
from shim.config import Config, RouteConfig
from shim.loading import load
from tests.shared_data import providers_dir

ENVIRON = {"CLOUDFLARE_ACCOUNT_ID": "abc"}
GIVEN = {
    "azure": "https://r.openai.azure.com/openai/v1",
    "databricks": "https://w.cloud.databricks.com/serving-endpoints",
}


def settings(name: str) -> dict[str, Any]:
    return {"base_url": GIVEN[name]} if name in GIVEN else {}


def built(*names: str, **families: Any) -> Config:
    environ = {**ENVIRON, **{key: "k" for name in names for key in presets().providers[name].key_variables[:1]}}
    return load({"providers": {name: settings(name) for name in names}, "families": families}, environ=environ)


@pytest.mark.parametrize("name", presets().providers)
def test_every_provider_builds_by_its_name_alone(name: str) -> None:
    """With its key where it needs one, and usable."""
    provider = built(name).providers[name]
    assert (provider.preset, provider.is_usable) == (name, True)
    assert [key.alias for key in provider.keys] == list(presets().providers[name].key_variables[:1])
    assert bool(provider.keys) is provider.needs_key
    assert "${" not in provider.base_url
    assert not provider.base_url.endswith("/") or provider.base_url == "local://"


@pytest.mark.parametrize("name", presets().families)
def test_every_family_builds_with_a_route_for_each_provider_that_serves_it(name: str) -> None:
    known = presets().families[name].routes
    config = built(*presets().providers, **{name: {}})
    family = config.families[name]
    served = [provider for provider in presets().providers if "model" in known.get(provider, {})]
    assert served
    assert [route.provider for route in family.routes] == served
    assert [route.priority for route in family.routes] == list(range(1, len(served) + 1))
    assert family.dimensions is not None
    assert family.kind.value == "embedding"


@pytest.mark.parametrize(
    ("family", "provider"), [(name, provider) for name, one in presets().families.items() for provider in one.routes]
)
def test_every_route_of_a_family_is_of_a_known_provider(family: str, provider: str) -> None:
    assert provider in presets().providers
    entry = {"provider": provider, "model": presets().families[family].routes[provider].get("model", "deployment")}
    assert built(provider, **{family: {"routes": [entry]}}).families[family].routes[0].provider == provider


def test_all_families_stand_side_by_side() -> None:
    """No word of one means another."""
    names = presets().families
    assert list(built(*presets().providers, **{name: {} for name in names}).families) == list(names)


def test_no_model_of_a_provider_is_in_two_families() -> None:
    models = [(p, r["model"]) for one in presets().families.values() for p, r in one.routes.items() if "model" in r]
    assert len(models) == len(set(models)) == len(presets().family_of)


def route(provider: str, family: str, **written: Any) -> RouteConfig:
    entry = {"provider": provider, "model": "m", **written}
    return built(provider, **{family: {"kind": "embedding", "routes": [entry]}}).families[family].routes[0]


@pytest.mark.parametrize(
    ("provider", "family", "known"),
    [
        ("openai", "text-embedding-3-small", {"dimensions_param": "dimensions", "base64": True, "max_inputs": 2048}),
        ("openai", "text-embedding-3-small", {"max_input_tokens": 8192, "max_request_tokens": 300000}),
        ("openai", "text-embedding-ada-002", {"dimensions_param": None, "max_input_tokens": 8191}),
        ("openrouter", "bge-m3", {"dimensions_param": None, "base64": False}),
        ("ollama", "bge-m3", {"dimensions_param": None, "base64": True}),
        ("ollama", "nomic-embed-text-v1.5", {"dimensions_param": "dimensions", "max_input_tokens": 2048}),
        ("mistral", "codestral-embed", {"dimensions_param": "output_dimension", "max_inputs": 256}),
        ("perplexity", "pplx-embed-v1-4b", {"int8": True}),
        ("voyage", "voyage-3-lite", {"dimensions_param": None}),
        ("voyage", "voyage-4", {"dimensions_param": "output_dimension", "max_request_tokens": 320000}),
        ("gemini", "a-family-of-ones-own", {"max_inputs": 100}),
    ],
)
def test_a_route_gets_what_is_known_of_its_provider_and_family(
    provider: str, family: str, known: dict[str, Any]
) -> None:
    assert route(provider, family).model_dump(include=set(known)) == known


def test_what_is_written_wins_over_what_is_known() -> None:
    written = route("openai", "text-embedding-3-small", dimensions_param="", max_inputs=5, base64=False)
    assert (written.dimensions_param, written.max_inputs, written.base64) == (None, 5, False)


def test_a_chat_route_gets_no_limits_of_embeddings() -> None:
    config = built("openai", fast={"kind": "chat", "routes": ["openai/m"]})
    assert config.families["fast"].routes[0] == RouteConfig(provider="openai", model="m")


def test_a_renamed_provider_keeps_what_its_preset_knows() -> None:
    mapping = {"providers": {"eu": {"preset": "openai", "api_key": "k"}}, "families": {"text-embedding-3-small": {}}}
    routes = load(mapping, environ={}).families["text-embedding-3-small"].routes
    assert [(one.route, one.dimensions_param) for one in routes] == [("eu/text-embedding-3-small", "dimensions")]


def test_input_types_are_a_parameter_or_a_prefix() -> None:
    nvidia = route("nvidia", "nv-embedqa-e5-v5").input_type
    assert (nvidia.parameter, nvidia.query, nvidia.document, nvidia.default) == (
        "input_type",
        "query",
        "passage",
        "passage",
    )
    e5 = route("deepinfra", "multilingual-e5-large").input_type
    assert (e5.parameter, e5.query_prefix, e5.document_prefix) == (None, "query: ", "passage: ")


def test_aliases_of_a_known_family_are_kept_beside_ones_own() -> None:
    family = built("openrouter", **{"bge-m3": {"aliases": ["mine"]}}).families["bge-m3"]
    assert family.aliases == ("BAAI/bge-m3", "mine")


def test_the_local_families_need_no_key_and_no_network() -> None:
    config = built("local", **{"wordllama-256": {}, "all-minilm-l6-v2": {}})
    word = config.families["wordllama-256"]
    assert (word.dimensions, word.matryoshka, word.matryoshka_sizes) == (256, True, (64, 128, 256))
    assert config.families["all-minilm-l6-v2"].aliases == ("sentence-transformers/all-MiniLM-L6-v2",)
    local = config.providers["local"]
    assert (local.base_url, local.auth, local.needs_key, local.is_private) == ("local://", "none", False, True)


# Ids that the facts give without confidence, or as no longer served: they are left out on purpose.
LEFT_OUT = {
    ("gemini-embedding-2", "venice"),
    ("multilingual-e5-large-instruct", "together"),
    ("multilingual-e5-large-instruct", "ollama"),
    ("Qwen3-Embedding-4B", "fireworks"),
    ("llama-nemotron-embed-vl-1b-v2", "venice"),
}


def facts() -> list[dict[str, Any]]:
    families: list[dict[str, Any]] = json.loads((providers_dir() / "presets.json").read_text("utf-8"))["families"]
    return families


def plain(text: str) -> str:
    return re.sub(r"\s*\(.*?\)", "", text).strip()


def test_every_recorded_model_id_is_in_the_presets_under_its_provider() -> None:
    """Each id that the facts name for a provider that we know: as a model of some family."""
    lost = []
    for fact in facts():
        for host in fact["hosts"]:
            for provider in re.split(r" / ", host["provider"]):
                if provider not in presets().providers or (plain(fact["family"]), provider) in LEFT_OUT:
                    continue
                ids = {plain(one) for one in re.split(r" ; | / ", host["model"])}
                here = {model for (of, model) in presets().family_of if of == provider}
                if not ids & here and not any(
                    word in host["model"] for word in ("<your", "local gguf", "-v3-english", "fireworks/q")
                ):
                    lost.append((fact["family"], provider, host["model"]))
    assert lost == []


def test_recorded_dimensions_agree() -> None:
    names = {name.lower() for name in presets().families}
    compared = 0
    for fact in facts():
        name = plain(fact["family"]).lower()
        if name in names and isinstance(fact["native_dims"], int):
            assert presets().families[name].settings["dimensions"] == fact["native_dims"], name
            compared += 1
    assert compared > 15
