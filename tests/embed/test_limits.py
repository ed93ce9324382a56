"""What a route takes in one request: configured, or learnt from its refusals."""

from __future__ import annotations

import pytest

from shim.config import RouteConfig
from shim.embed.limits import Limits


def _route(**given: int) -> RouteConfig:
    return RouteConfig.model_validate({"provider": "p", "model": "m", **given})


@pytest.mark.parametrize(
    ("route", "batch_size", "inputs", "tokens"),
    [
        pytest.param({}, None, 256, 300_000, id="nothing known"),
        pytest.param({"max_inputs": 96}, None, 96, 300_000, id="a small limit"),
        pytest.param({"max_inputs": 2048}, 1000, 1000, 300_000, id="the caller wants less"),
        pytest.param({"max_inputs": 96}, 1000, 96, 300_000, id="the caller cannot have more"),
        pytest.param({}, 1000, 1000, 300_000, id="the caller knows better than nobody"),
        pytest.param({"max_request_tokens": 8000}, None, 256, 8000, id="tokens"),
    ],
)
def test_limits_of_a_route(route: dict[str, int], batch_size: int | None, inputs: int, tokens: int) -> None:
    found = Limits.of(_route(**route), batch_size)
    assert (found.inputs, found.request_tokens) == (inputs, tokens)


@pytest.mark.parametrize(
    ("message", "inputs", "tokens"),
    [
        pytest.param("at most 3 requests can be in one batch", 3, None, id="Gemini"),
        pytest.param("Invalid 'input': maximum array length is 50, got 100", 50, None, id="an array length"),
        pytest.param("batch size 100 > maximum allowed batch size 32", 32, None, id="TEI"),
        pytest.param("total number of texts must be at most 96", 96, None, id="Cohere"),
        pytest.param("batch size is invalid, it should not be larger than 10.", 10, None, id="DashScope"),
        pytest.param("maximum request size is 5000 tokens", None, 5000, id="tokens of a request"),
        pytest.param("Requested 9000 tokens, max 6000 tokens per request", None, 6000, id="tokens after the number"),
        pytest.param("batch of 9000 tokens exceeds the maximum of 8000 tokens", None, 8000, id="tokens of a batch"),
        pytest.param(
            "This model's maximum context length is 8192 tokens, however you requested 9000 tokens",
            None,
            None,
            id="the length of one text, as OpenAI says it",
        ),
        pytest.param("Input 3 has 600 tokens, more than the maximum of 512 tokens", None, None, id="one text too long"),
        pytest.param("something is wrong with 7 of them", None, None, id="a number that is no limit"),
        pytest.param("at most 2048 inputs", None, None, id="a limit that was not passed"),
        pytest.param("", None, None, id="no message"),
    ],
)
def test_a_refusal_teaches(message: str, inputs: int | None, tokens: int | None) -> None:
    """100 texts with 9,000 tokens were refused."""
    learnt = Limits(256, 300_000).learnt(message, 100, 9000)
    if inputs is None and tokens is None:
        assert learnt is None
    else:
        assert learnt == Limits(inputs or 256, tokens or 300_000)
