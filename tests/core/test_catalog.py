"""Which family a name means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.catalog import Catalog
from shim.events import Kind
from tests.core.builders import chat, config, embedding, providers

BUILT = config(
    providers("alpha", "beta"),
    {
        "space": embedding(["alpha/vec-a", "beta/vec-b"], aliases=["org/space"]),
        "other": embedding(["alpha/vec-o"]),
        "fast": chat(["alpha/gpt", "beta/llama"], aliases=["small"]),
        "slow": chat(["beta/big"]),
    },
    default_chat="fast",
    default_embedding="space",
)
CATALOG = Catalog(BUILT)

NAMES = [
    ("space", Kind.EMBEDDING, "space", None),
    ("org/space", Kind.EMBEDDING, "space", None),
    ("vec-a", Kind.EMBEDDING, "space", None),
    ("vec-b", Kind.EMBEDDING, "space", None),
    ("vec-o", Kind.EMBEDDING, "other", None),
    ("space/beta", Kind.EMBEDDING, "space", "beta"),
    ("auto", Kind.EMBEDDING, "space", None),
    ("", Kind.EMBEDDING, "space", None),
    ("auto", Kind.CHAT, "fast", None),
    ("", Kind.CHAT, "fast", None),
    ("fast", Kind.CHAT, "fast", None),
    ("small", Kind.CHAT, "fast", None),
    ("fast/alpha", Kind.CHAT, "fast", "alpha"),
    ("llama", Kind.CHAT, "fast", None),
    ("big", Kind.CHAT, "slow", None),
]


@pytest.mark.parametrize(
    ("model", "kind", "family", "pinned"), NAMES, ids=[f"{m or 'empty'}-{k}" for m, k, *_ in NAMES]
)
def test_a_name_means_a_family(model: str, kind: Kind, family: str, pinned: str | None) -> None:
    found = CATALOG.resolve(model, kind)
    assert found is not None
    assert (found.family.name, found.pinned) == (family, pinned)


NOT_OURS = [
    ("gpt-4o", Kind.CHAT),
    ("space", Kind.CHAT),
    ("fast", Kind.EMBEDDING),
    ("auto", Kind.IMAGE),
    ("", Kind.SPEECH),
    ("other/beta", Kind.EMBEDDING),
    ("SPACE", Kind.EMBEDDING),
    ("alpha/vec-a", Kind.EMBEDDING),
    ("org/space/alpha", Kind.EMBEDDING),
]


@pytest.mark.parametrize(("model", "kind"), NOT_OURS, ids=[f"{m or 'empty'}-{k}" for m, k in NOT_OURS])
def test_anything_else_is_not_ours(model: str, kind: Kind) -> None:
    assert CATALOG.resolve(model, kind) is None


@given(st.text(max_size=12), st.sampled_from(list(Kind)))
def test_a_name_is_found_only_in_its_own_kind(model: str, kind: Kind) -> None:
    found = CATALOG.resolve(model, kind)
    assert found is None or found.family.kind is kind


def test_without_a_default_auto_is_not_ours() -> None:
    catalog = Catalog(config(providers("alpha"), {"space": embedding(["alpha/m"])}))
    assert catalog.resolve("auto", Kind.EMBEDDING) is None
    assert catalog.resolve("", Kind.EMBEDDING) is None


def test_no_configuration_has_no_names() -> None:
    assert Catalog(config({}, {})).is_empty
    assert not CATALOG.is_empty


def test_the_provider_of_a_route() -> None:
    assert CATALOG.provider(BUILT.families["space"].routes[1]).name == "beta"


@pytest.mark.parametrize(
    ("model", "kind", "nearest"),
    [("spaec", Kind.EMBEDDING, "space"), ("fsat", Kind.CHAT, "fast"), ("lama", Kind.CHAT, "llama")],
)
def test_the_closest_names_of_a_kind(model: str, kind: Kind, nearest: str) -> None:
    assert CATALOG.closest(model, kind)[0] == nearest


def test_names_of_another_kind_are_not_close() -> None:
    assert CATALOG.closest("space", Kind.CHAT) == []
