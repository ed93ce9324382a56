"""A LiteLLM configuration comes over, and what cannot is told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from shim._config.litellm import convert, convert_text
from shim.config import ConfigError
from shim.loading import load


def entry(model: str, name: str = "gpt-4o", info: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"model_name": name, "litellm_params": {"model": model, **params}}
    return {**found, "model_info": info} if info else found


def converted(*entries: dict[str, Any], **sections: Any) -> tuple[dict[str, Any], list[str]]:
    return convert({"model_list": list(entries), **sections})


YAML = """
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: openai/gpt-4o
      api_key: os.environ/OPENAI_API_KEY
      order: 1
      rpm: 480
  - model_name: gpt-4o
    litellm_params:
      model: azure/my-deployment
      api_base: https://r.openai.azure.com/
      api_version: "2024-10-21"
      api_key: os.environ/AZURE_KEY
      order: 2
      weight: 3
      temperature: 0.2
      input_cost_per_token: 0.0000025
  - model_name: small
    litellm_params: {model: groq/llama-3.1-8b-instant}
  - model_name: lab
    litellm_params: {model: openai/llama, api_base: "http://10.0.0.5:8000/v1"}
  - model_name: text-embedding-3-small
    litellm_params: {model: openai/text-embedding-3-small, api_key: os.environ/OPENAI_API_KEY}
router_settings:
  routing_strategy: simple-shuffle
  num_retries: 4
  timeout: 30
  stream_timeout: 10
  allowed_fails: 2
  cooldown_time: 15
  fallbacks: [{"gpt-4o": ["small", "nobody"]}, {"text-embedding-3-small": ["small"]}]
  model_group_alias: {"gpt-4": "gpt-4o"}
  redis_host: localhost
litellm_settings:
  num_retries: 1
  drop_params: true
general_settings: {master_key: sk-1234}
"""


def test_a_whole_file_comes_over(tmp_path: Path) -> None:
    """Through `load`, as a user would; notes say what stayed behind."""
    (tmp_path / "config.yaml").write_text(YAML, encoding="utf-8")
    environ = {"OPENAI_API_KEY": "o", "AZURE_KEY": "a", "GROQ_API_KEY": "g"}
    config = load(tmp_path / "config.yaml", environ=environ)
    assert {name: one.base_url for name, one in config.providers.items()} == {
        "openai": "https://api.openai.com/v1",
        "azure": "https://r.openai.azure.com/openai/deployments/{model}",
        "groq": "https://api.groq.com/openai/v1",
        "10.0.0.5-8000": "http://10.0.0.5:8000/v1",
    }
    assert config.providers["azure"].query == {"api-version": "2024-10-21"}
    family = config.families["gpt-4o"]
    assert [(one.route, one.priority, one.weight) for one in family.routes] == [
        ("openai/gpt-4o", 1, 1.0),
        ("azure/my-deployment", 2, 3.0),
    ]
    assert family.routes[1].params == {"temperature": 0.2}
    assert family.routes[1].price is not None
    assert family.routes[1].price.input == pytest.approx(2.5)
    assert (family.aliases, family.fallback) == (("gpt-4",), ("small",))
    assert config.families["text-embedding-3-small"].dimensions == 1536
    policy = config.policy
    assert (policy.order, policy.max_retries, policy.attempt_timeout, policy.first_chunk_timeout) == (
        "weighted",
        4,
        30.0,
        10.0,
    )
    assert (policy.breaker.failures, policy.breaker.cooldown) == (3, 15.0)
    assert config.notes == (
        "model_list[0].litellm_params.rpm: not carried over; it has no counterpart for one route",
        "litellm_settings.drop_params: not carried over",
        "router_settings.fallbacks: 'nobody' is not carried over; it is no chat model of model_list",
        "router_settings.fallbacks: 'text-embedding-3-small' is not carried over; "
        "embeddings of another family are of another vector space",
        "router_settings.redis_host: not carried over",
        "general_settings: not carried over; it belongs to LiteLLM's proxy",
    )


@pytest.mark.parametrize(
    ("model", "preset", "served"),
    [
        ("gpt-4o", "openai", "gpt-4o"),
        ("openai/gpt-4o", "openai", "gpt-4o"),
        ("together_ai/meta/llama", "together", "meta/llama"),
        ("fireworks_ai/accounts/fireworks/models/x", "fireworks", "accounts/fireworks/models/x"),
        ("openrouter/openai/gpt-4o", "openrouter", "openai/gpt-4o"),
        ("hosted_vllm/x", "vllm", "x"),
        ("jina_ai/x", "jina", "x"),
        ("cohere_chat/command-a", "cohere-chat", "command-a"),
        ("huggingface/meta/llama", "huggingface-chat", "meta/llama"),
        ("nvidia_nim/meta/llama", "nvidia", "meta/llama"),
    ],
)
def test_prefixes_are_providers(model: str, preset: str, served: str) -> None:
    mapping, notes = converted(entry(model))
    assert mapping["providers"] == {preset: {"preset": preset}}
    assert mapping["families"]["gpt-4o"]["routes"] == [{"provider": preset, "model": served}]
    assert notes == []


@pytest.mark.parametrize(
    ("name", "model", "mode", "kind"),
    [
        ("a", "openai/gpt-4o", None, "chat"),
        ("a", "openai/gpt-4o", "completion", "chat"),
        ("a", "openai/x", "embedding", "embedding"),
        ("a", "openai/text-embedding-3-small", None, "embedding"),
        ("bge-m3", "deepinfra/BAAI/bge-m3", None, "embedding"),
        ("my-embedder", "openai/x", None, "embedding"),
        ("a", "openai/x", "image_generation", "image"),
        ("a", "openai/x", "audio_transcription", "transcription"),
    ],
)
def test_the_kind_is_the_mode_or_known_or_read_off_the_name(name: str, model: str, mode: str | None, kind: str) -> None:
    mapping, _ = converted(entry(model, name, {"mode": mode} if mode else None))
    assert mapping["families"][name]["kind"] == kind


def test_each_key_of_a_provider_is_a_provider_of_its_own() -> None:
    """So that order and weight keep their meaning for each; the same key is the same provider."""
    mapping, _ = converted(
        entry("openai/gpt-4o", api_key="os.environ/A"),
        entry("openai/gpt-4o", api_key="os.environ/B"),
        entry("openai/gpt-4o-mini", "mini", api_key="os.environ/A"),
    )
    assert mapping["providers"] == {
        "openai": {"preset": "openai", "api_key": "${A}"},
        "openai-2": {"preset": "openai", "api_key": "${B}"},
    }
    assert [one["provider"] for one in mapping["families"]["gpt-4o"]["routes"]] == ["openai", "openai-2"]
    assert mapping["families"]["mini"]["routes"][0]["provider"] == "openai"


def test_a_literal_key_stays_what_it_is() -> None:
    mapping, _ = converted(entry("openai/gpt-4o", api_key="sk-${x}", extra_headers={"X-A": "b"}, organization="org"))
    config = load(mapping, environ={})
    assert config.providers["openai"].keys[0].secret.get_secret_value() == "sk-${x}"
    assert config.providers["openai"].headers == {"X-A": "b", "OpenAI-Organization": "org"}


def test_an_openai_server_elsewhere_never_gets_the_openai_key() -> None:
    mapping, _ = converted(entry("openai/llama", api_base="https://llm.example.com/v1/"))
    assert mapping["providers"] == {"llm.example.com": {"base_url": "https://llm.example.com/v1"}}
    assert load(mapping, environ={"OPENAI_API_KEY": "o"}).providers["llm.example.com"].keys == ()


@pytest.mark.parametrize(
    ("bad", "note"),
    [
        ({"model_name": "x"}, "model_list[1]: not carried over; it has no litellm_params"),
        (entry("openai/*", "*"), "model_list[1]: not carried over; wildcards and empty names have no counterpart"),
        (
            entry("bedrock/claude", "x"),
            "model_list[1]: not carried over; 'bedrock/claude' is not of a provider that is known here",
        ),
        (
            entry("openai/x", "x", {"mode": "video"}),
            "model_list[1]: not carried over; mode 'video' has no counterpart",
        ),
        (
            entry("openai/x", "gpt-4o", {"mode": "embedding"}),
            "model_list[1]: not carried over; 'gpt-4o' is of kind chat and this entry of kind embedding",
        ),
    ],
)
def test_an_entry_that_cannot_come_over_is_noted(bad: dict[str, Any], note: str) -> None:
    mapping, notes = converted(entry("openai/gpt-4o"), bad)
    assert (list(mapping["families"]), notes) == (["gpt-4o"], [note])
    assert len(mapping["families"]["gpt-4o"]["routes"]) == 1


@pytest.mark.parametrize(
    ("strategy", "order", "notes"),
    [
        ("simple-shuffle", "weighted", []),
        ("least-busy", "least_busy", []),
        ("latency-based-routing", "fastest", []),
        (
            "usage-based-routing-v2",
            "weighted",
            [
                "router_settings.routing_strategy: 'usage-based-routing-v2' would be order 'headroom', "
                "which is not available yet; weighted stands in"
            ],
        ),
        ("odd", "weighted", ["router_settings.routing_strategy: 'odd' has no counterpart; weighted stands in"]),
    ],
)
def test_routing_strategies_are_orders(strategy: str, order: str, notes: list[str]) -> None:
    mapping, told = converted(entry("openai/gpt-4o"), router_settings={"routing_strategy": strategy})
    assert (mapping["policy"]["order"], told) == (order, notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: ]", "c.yaml: is not YAML (line 2)"),
        ("- a", "c.yaml: has no model_list; it is not a LiteLLM configuration"),
        ("model_list: []", "c.yaml: has no model_list; it is not a LiteLLM configuration"),
        (
            "model_list: [{model_name: a, litellm_params: {model: bedrock/x}}]",
            "c.yaml: nothing in model_list can be carried over\n"
            "model_list[0]: not carried over; 'bedrock/x' is not of a provider that is known here",
        ),
    ],
)
def test_what_is_not_litellms_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert_text(text, "c.yaml")
    assert str(caught.value) == message


def test_without_pyyaml_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError) as caught:
        convert_text("a: 1", "c.yaml")
    assert str(caught.value) == "c.yaml is YAML and PyYAML is not installed: pip install 'openai-shim[yaml]'"
