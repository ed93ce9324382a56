"""What a route takes in one request: from the configuration and the presets, and learnt from its refusals. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from shim.config import RouteConfig

UNKNOWN_INPUTS = 256
"""Texts a request for a host whose limit nobody told: measured hosts take 10 (DashScope) to 2,048 (OpenAI)."""
UNKNOWN_TOKENS = 300_000
"""Tokens a request where nothing is known: OpenAI's limit."""

_COUNTED = re.compile(
    r"(?:at most|maximum|max|limit|up to|exceeds?|(?:great|larg)er than|more than|<=|less than or equal to)"
    r"[^\d\n]{0,60}?(\d{1,7})\b",
    re.IGNORECASE,
)
_ABOUT_TOKENS = re.compile(r"token|context", re.IGNORECASE)
_ABOUT_ALL = re.compile(r"\b(?:requests?|batch(?:es)?|total|combined|altogether)\b", re.IGNORECASE)
_ABOUT_ONE = re.compile(r"context|sequence|prompt|\b(?:an?|each|per|this) (?:input|text)\b", re.IGNORECASE)
"""How long one text may be says nothing of a request: learnt as its limit, it would make many requests of one."""
_ABOUT_INPUTS = re.compile(r"batch|inputs?\b|items?|texts?|requests?|documents?|array|list|instances?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Limits:
    """Most inputs and tokens of a request, and most tokens of one input (None: unknown)."""

    inputs: int = UNKNOWN_INPUTS
    request_tokens: int = UNKNOWN_TOKENS
    input_tokens: int | None = None

    @classmethod
    def of(cls, route: RouteConfig, batch_size: int | None) -> Limits:
        """The limits of a route; `batch_size` is the most that the caller wants in a request."""
        inputs = route.max_inputs or batch_size or UNKNOWN_INPUTS
        return cls(
            min(inputs, batch_size or inputs), route.max_request_tokens or UNKNOWN_TOKENS, route.max_input_tokens
        )

    def learnt(self, message: str, inputs: int, tokens: int) -> Limits | None:
        """Smaller limits that a refusal of `inputs` texts with `tokens` tokens tells of; None when it tells of none."""
        for sentence in re.split(r"(?<=[a-z])[.;]\s|\n", message):
            for found in _COUNTED.finditer(sentence):
                number = int(found[1])
                if 0 < number < inputs and _ABOUT_INPUTS.search(sentence) and not _is_of_tokens(sentence, found):
                    return replace(self, inputs=min(self.inputs, number))
                is_of_all = _ABOUT_ALL.search(sentence) and not _ABOUT_ONE.search(sentence)
                if is_of_all and inputs > 1 and 16 <= number < tokens and _is_of_tokens(sentence, found):
                    return replace(self, request_tokens=min(self.request_tokens, number))
        return None


def _is_of_tokens(sentence: str, found: re.Match[str]) -> bool:
    """Whether the number is of tokens: the nearest word around it says so."""
    around = sentence[max(0, found.start(1) - 40) : found.end(1) + 20]
    return bool(_ABOUT_TOKENS.search(around))
