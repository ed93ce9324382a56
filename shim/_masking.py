"""Takes out of a text whatever is, or looks like, a credential."""

from __future__ import annotations

import re
from collections.abc import Iterable

SHORTEST_SECRET = 4
"""Shorter keys (servers on loopback take any) are not masked: they would be found in every word."""

_SECRETS = (
    re.compile(r"\b(Bearer |Basic )\s*[A-Za-z0-9._~+/=*-]{8,}", re.I),
    re.compile(r"((?:key|token|secret|password)[\"']?\s?=\s?[\"']?)[^\s\"'&,;)]{4,}", re.I),
    re.compile(r"((?:key|token|secret|password)[\"']?\s?:\s?[\"']?)(?=[^\s\"'&,;)]{0,80}\d)[^\s\"'&,;)]{8,}", re.I),
    re.compile(r"(://)[^/\s:@]{1,200}:[^/\s@]{1,200}(?=@)"),
    re.compile(
        r"(?<![A-Za-z0-9])()(?:(?:sk|pk|gsk|hf|xai|nvapi|pplx|csk|tgp|ghp|github_pat)[-_]|AIza)[A-Za-z0-9_*.\-]{6,}"
    ),
)


def mask_secrets(text: str, known: Iterable[str] = ()) -> str:
    """`text` with every known key, and whatever looks like a credential, replaced by `***`."""
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "***")
    for pattern in _SECRETS:
        text = pattern.sub(r"\1***", text)
    return text
