"""Judgements of an embeddings answer that came with status 200 and yet cannot be used."""

from __future__ import annotations

from shim._core.outcome import Judgement
from shim.events import Scope, Verdict

SPOILT = frozenset(
    {
        "null_vector", "zero_vector", "not_finite", "implausible", "undecodable", "token_matrix", "ragged",
        "no_vectors", "short_answer", "long_answer", "bad_index",
    }
)  # fmt: skip
"""The reasons for which an answer of vectors is no good, whatever the server's health: one text may be at fault."""
NO_VECTOR = frozenset({"null_vector", "zero_vector", "not_finite"})
"""Those of one row that no glitch on the way makes: the model itself gave nothing for a text."""
MISFIT_COOLDOWN = 24 * 3600.0
"""Seconds. A wrong vector length does not heal by itself: only another configuration mends it."""


def spoilt(reason: str, message: str) -> Judgement:
    """A transient judgement: this answer is unusable, the next one of the same model may be good."""
    return Judgement(Verdict.TRANSIENT, Scope.MODEL, reason, message, counts=True)


def misfit(message: str) -> Judgement:
    """A broken judgement: the vectors are well formed, of a length or number type that the family cannot take."""
    return Judgement(Verdict.BROKEN, Scope.MODEL, "wrong_length", message, cooldown=MISFIT_COOLDOWN)


def token_matrix(row: int) -> Judgement:
    """A model without pooling answers one vector per token (llama.cpp does so for causal models)."""
    return spoilt(
        "token_matrix",
        f"row {row} is a matrix of one vector per token, not one vector per text; "
        "start the server with a pooling type (mean, cls or last), or choose an embedding model",
    )
