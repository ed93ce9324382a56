"""Reads a LiteLLM `config.yaml` (`model_list`, `router_settings`) into the mapping that `shim.loading` takes.

Where its keys are told: https://docs.litellm.ai/docs/proxy/config_settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from shim._config.litellm_router import router_settings
from shim._config.presets import presets
from shim._config.variables import escape
from shim.config_error import ConfigError

Table = dict[str, Any]

# LiteLLM's provider prefixes that name a preset otherwise than we do.
PREFIXES = {
    "ai_gateway": "vercel-gateway",
    "cohere_chat": "cohere",  # for chat it becomes cohere-chat
    "fireworks_ai": "fireworks",
    "github": "github-models",
    "hosted_vllm": "vllm",
    "jina_ai": "jina",
    "llamafile": "llama.cpp",
    "lm_studio": "lm-studio",
    "nvidia_nim": "nvidia",
    "ollama_chat": "ollama",
    "text-completion-openai": "openai",
    "together_ai": "together",
    "vercel_ai_gateway": "vercel-gateway",
}
MODES = {
    "audio_speech": "speech",
    "audio_transcription": "transcription",
    "chat": "chat",
    "completion": "chat",
    "embedding": "embedding",
    "image_generation": "image",
    "moderation": "moderation",
    "rerank": "rerank",
    "responses": "chat",
}
PARAMS = frozenset(
    {
        "dimensions",
        "frequency_penalty",
        "max_completion_tokens",
        "max_tokens",
        "presence_penalty",
        "reasoning_effort",
        "seed",
        "stop",
        "temperature",
        "top_p",
        "user",
    }
)
READ = frozenset(
    {
        "api_base",
        "api_key",
        "api_version",
        "base_url",
        "extra_headers",
        "input_cost_per_token",
        "model",
        "order",
        "organization",
        "output_cost_per_token",
        "weight",
    }
)
LOCAL_PRESETS = frozenset({"infinity", "llama.cpp", "lm-studio", "ollama", "tei", "vllm"})


@dataclass(slots=True)
class _Draft:
    providers: dict[str, Table] = field(default_factory=dict)
    families: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def convert_text(text: str, source: str = "config.yaml") -> tuple[Table, list[str]]:
    """The mapping in a YAML text, and notes on what was not carried over.

    Raises ImportError without PyYAML, ConfigError for what is not YAML or not LiteLLM's.
    """
    try:
        import yaml
    except ImportError:
        raise ImportError(f"{source} is YAML and PyYAML is not installed: pip install 'openai-shim[yaml]'") from None
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"{source}: is not YAML{where}") from None
    if not isinstance(document, Mapping):
        raise ConfigError(f"{source}: has no model_list; it is not a LiteLLM configuration")
    return convert(document, source)


def convert(document: Mapping[str, object], source: str = "config.yaml") -> tuple[Table, list[str]]:
    """The mapping that a LiteLLM configuration amounts to, and notes on what was not carried over."""
    entries = document.get("model_list")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{source}: has no model_list; it is not a LiteLLM configuration")
    draft = _Draft()
    for index, entry in enumerate(entries):
        _entry(entry, f"model_list[{index}]", draft)
    if not draft.families:
        raise ConfigError("\n".join([f"{source}: nothing in model_list can be carried over", *draft.notes]))
    policy = router_settings(document, draft.families, draft.note)
    for key in sorted(document.keys() - {"model_list", "router_settings", "litellm_settings"}):
        draft.note(f"{key}: not carried over; it belongs to LiteLLM's proxy")
    return {"providers": draft.providers, "families": draft.families, "policy": policy}, draft.notes


def _entry(entry: object, path: str, draft: _Draft) -> None:
    params = entry.get("litellm_params") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(params, Mapping):
        draft.note(f"{path}: not carried over; it has no litellm_params")
        return
    name, full = str(entry.get("model_name", "")), str(params.get("model", ""))
    if not name or not full or "*" in name + full:
        draft.note(f"{path}: not carried over; wildcards and empty names have no counterpart")
        return
    preset, model = _preset_and_model(full)
    if not preset:
        draft.note(f"{path}: not carried over; '{full}' is not of a provider that is known here")
        return
    info = entry.get("model_info")
    info = info if isinstance(info, Mapping) else {}
    kind = _kind(name, preset, model, info)
    if kind is None:
        draft.note(f"{path}: not carried over; mode '{info.get('mode')}' has no counterpart")
        return
    if kind == "chat" and f"{preset}-chat" in presets().providers:
        preset = f"{preset}-chat"
    provider = _provider(preset, params, draft)
    family = draft.families.setdefault(name, {"kind": kind, "routes": []})
    if family["kind"] != kind:
        draft.note(f"{path}: not carried over; '{name}' is of kind {family['kind']} and this entry of kind {kind}")
        return
    family["routes"].append(_route(provider, model, params, path, draft))


def _preset_and_model(full: str) -> tuple[str, str]:
    prefix, slash, model = full.partition("/")
    if not slash:
        return "openai", full
    preset = PREFIXES.get(prefix, prefix)
    return (preset, model) if preset in presets().providers else ("", "")


def _kind(name: str, preset: str, model: str, info: Mapping[str, object]) -> str | None:
    mode = info.get("mode")
    if mode is not None:
        return MODES.get(str(mode))
    is_known = (preset, model) in presets().family_of or name in presets().families
    return "embedding" if is_known or "embed" in f"{name} {model}".lower() else "chat"


def _provider(preset: str, params: Mapping[str, object], draft: _Draft) -> str:
    """The name of the provider that the entry speaks of, added where it is new. Another key is another provider."""
    table: Table = {}
    base = str(params.get("api_base") or params.get("base_url") or "")
    own = presets().providers[preset].base_url
    if base:
        table["base_url"] = _text(base.rstrip("/"))
        if preset == "azure" and params.get("api_version"):
            table["base_url"] += "/openai/deployments/{model}"
            table["query"] = {"api-version": _text(str(params["api_version"]))}
    # `openai/…` with another api_base is how LiteLLM writes any OpenAI-compatible server.
    elsewhere = bool(base) and bool(own) and urlsplit(base).netloc != urlsplit(own).netloc
    if not (elsewhere and preset == "openai"):
        table["preset"] = preset
    if params.get("api_key"):
        table["api_key"] = _text(str(params["api_key"]))
    elif elsewhere and preset != "openai" and preset not in LOCAL_PRESETS:
        table["needs_key"] = False
    if isinstance(extra := params.get("extra_headers"), Mapping):
        table["headers"] = {str(key): _text(str(value)) for key, value in extra.items()}
    if params.get("organization"):
        table.setdefault("headers", {})["OpenAI-Organization"] = _text(str(params["organization"]))
    return _named(table, preset if "preset" in table else _host(base), draft)


def _named(table: Table, name: str, draft: _Draft) -> str:
    taken = [key for key in draft.providers if re.fullmatch(re.escape(name) + r"(-\d+)?", key)]
    for key in taken:
        if {"preset": table.get("preset"), **draft.providers[key]} == {"preset": table.get("preset"), **table}:
            return key
    key = f"{name}-{len(taken) + 1}" if taken else name
    draft.providers[key] = table
    return key


def _host(base: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", urlsplit(base).netloc.rpartition("@")[2]).strip("-") or "server"


def _route(provider: str, model: str, params: Mapping[str, object], path: str, draft: _Draft) -> Table:
    route: Table = {"provider": provider, "model": model}
    for ours, theirs in (("priority", "order"), ("weight", "weight")):
        if params.get(theirs) is not None:
            route[ours] = params[theirs]
    price = {
        ours: float(cost) * 1_000_000
        for ours, theirs in (("input", "input_cost_per_token"), ("output", "output_cost_per_token"))
        if isinstance(cost := params.get(theirs), int | float)
    }
    if price:
        route["price"] = price
    sent = {key: params[key] for key in sorted(params.keys() & PARAMS)}
    if sent:
        route["params"] = sent
    for key in sorted(params.keys() - PARAMS - READ):
        draft.note(f"{path}.litellm_params.{key}: not carried over; it has no counterpart for one route")
    return route


def _text(value: str) -> str:
    """`os.environ/NAME` as `${NAME}`, anything else as itself."""
    name = value.removeprefix("os.environ/")
    return f"${{{name}}}" if name != value else escape(value)
