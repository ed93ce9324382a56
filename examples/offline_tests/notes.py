"""Finds the note that is nearest to a question, and lets a model answer from it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from shim import OpenAI, Router

BASE_URL = os.environ.get("NOTES_BASE_URL", "https://notes.invalid/v1")


def configuration(base_url: str = BASE_URL) -> dict[str, object]:
    """One embedding family on one server, as a `shim.toml` would say it."""
    return {
        "providers": {"lab": {"base_url": base_url, "api_key": os.environ.get("NOTES_KEY", "none")}},
        "families": {"notes": {"kind": "embedding", "routes": ["lab/wordllama-256"]}},
    }


def nearest(client: OpenAI, question: str, notes: Sequence[str]) -> str:
    """The note whose vector points most nearly where the question's does."""
    rows = client.embeddings.create(model="notes", input=[question, *notes]).data
    asked, *others = [row.embedding for row in rows]
    scores = [sum(a * b for a, b in zip(asked, other, strict=True)) for other in others]
    return notes[scores.index(max(scores))]


def answer(client: OpenAI, question: str, note: str) -> str:
    """What the model says to the question when it is shown the note."""
    messages = [{"role": "system", "content": f"Answer from this note: {note}"}, {"role": "user", "content": question}]
    said = client.chat.completions.create(model="test", messages=messages)  # type: ignore[arg-type]
    return said.choices[0].message.content or ""


def client_for(base_url: str = BASE_URL) -> OpenAI:
    """The client of the program."""
    return OpenAI(router=Router(configuration(base_url)))
