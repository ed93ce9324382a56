"""Real vectors of the model that ships in the `wordllama` wheel."""

from __future__ import annotations

import base64
import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors import safe_open
from tokenizers import Tokenizer

from shim.local import models
from shim.local.provider import LocalProvider

MODEL = "wordllama-256"
CATS = "My cat sleeps all day on the sofa."
SENTENCES = [
    CATS,
    "The central bank raised interest rates again.",
    "Install the package with pip before you start.",
    "Rain is expected over the mountains tomorrow.",
    "Der Zug nach Berlin hat Verspätung.",
]


def ask(given: object, **options: object) -> dict[str, Any]:
    """The document of a successful answer."""
    body = json.dumps({"model": MODEL, "input": given, **options}).encode()
    status, _, answer = LocalProvider().handle("POST", "/embeddings", body)
    assert status == 200, answer
    document: dict[str, Any] = json.loads(answer)
    return document


def vectors(given: object, **options: object) -> NDArray[np.float32]:
    """The vectors of a successful answer, one a row."""
    return np.array([row["embedding"] for row in ask(given, **options)["data"]], np.float32)


def by_the_book(text: str) -> NDArray[np.float64]:
    """The vector as the model's README defines it, computed straight from the files in double precision."""
    spec = importlib.util.find_spec("wordllama")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    root = Path(spec.submodule_search_locations[0])
    tokenizer = Tokenizer.from_file(str(root / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    with safe_open(root / "weights" / "l2_supercat_256.safetensors", "numpy") as file:
        table = file.get_tensor("embedding.weight").astype(np.float64)
    mean = np.mean([table[i] for i in ids], axis=0)
    unit: NDArray[np.float64] = mean / np.sqrt((mean**2).sum())
    return unit


def test_the_answer_has_openais_shape() -> None:
    """Object, model, index order and usage with real token counts (of `_The cat` and `_A`)."""
    document = ask(["The cat", "A"])
    assert document["object"] == "list"
    assert document["model"] == MODEL
    assert [(row["object"], row["index"]) for row in document["data"]] == [("embedding", 0), ("embedding", 1)]
    assert document["usage"] == {"prompt_tokens": 3, "total_tokens": 3}


@pytest.mark.parametrize("text", [*SENTENCES, " ", "日本語", "word " * 9000], ids=lambda text: repr(text[:20]))
def test_vectors_equal_those_computed_by_the_definition(text: str) -> None:
    """Short, blank, unknown-script and very long texts agree with an independent computation to float32 precision."""
    np.testing.assert_allclose(vectors(text)[0], by_the_book(text), atol=2e-7)


@pytest.mark.parametrize(
    ("query", "nearest"),
    [
        ("feline pets and kittens", 0),
        ("monetary policy and inflation", 1),
        ("python library setup", 2),
        ("weather forecast", 3),
    ],
)
def test_the_nearest_sentence_is_the_one_about_it(query: str, nearest: int) -> None:
    """The vectors mean something."""
    assert int((vectors(SENTENCES) @ vectors(query)[0]).argmax()) == nearest


def test_a_batch_gives_each_text_the_bits_it_gets_alone() -> None:
    """Neither neighbours nor order change a vector, and asking again changes nothing."""
    together = vectors(SENTENCES)
    assert np.array_equal(together, np.vstack([vectors(text) for text in SENTENCES]))
    assert np.array_equal(together[::-1], vectors(SENTENCES[::-1]))


def test_the_order_of_words_plays_no_part() -> None:
    """The limit that the documentation tells."""
    np.testing.assert_allclose(vectors("dog bites man"), vectors("man bites dog"), atol=1e-6)


def test_base64_carries_the_same_floats() -> None:
    """Little-endian float32, as the official client decodes it."""
    rows = [base64.b64decode(row["embedding"]) for row in ask(SENTENCES, encoding_format="base64")["data"]]
    assert np.array_equal(np.array([np.frombuffer(row, "<f4") for row in rows]), vectors(SENTENCES))


@pytest.mark.parametrize("width", [64, 128, 256])
def test_fewer_dimensions_are_the_first_ones_at_unit_length(width: int) -> None:
    """Matryoshka: cut and renormalise."""
    full, cut = vectors(SENTENCES), vectors(SENTENCES, dimensions=width)
    assert cut.shape == (len(SENTENCES), width)
    np.testing.assert_allclose(np.linalg.norm(cut, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(cut, full[:, :width] / np.linalg.norm(full[:, :width], axis=1)[:, None], atol=1e-6)


def test_unknown_parameters_and_nulls_are_ignored() -> None:
    """As OpenAI-compatible servers do, so that a request written for another provider passes."""
    plain = vectors(CATS)
    assert np.array_equal(vectors(CATS, input_type="query", dimensions=None, user="u", encoding_format=None), plain)


def test_a_text_without_tokens_is_refused_by_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """No zero vector leaves: the refusal names the text."""
    embedder = models.load(models.WORDLLAMA)
    monkeypatch.setattr(embedder, "_tokenizer", Mute())
    body = json.dumps({"model": MODEL, "input": ["a", "b"]}).encode()
    status, _, answer = LocalProvider().handle("POST", "/embeddings", body)
    assert status == 400
    assert json.loads(answer)["error"]["param"] == "input[1]"


class Mute:
    """A tokenizer that finds nothing in `b`."""

    def encode(self, text: str, add_special_tokens: bool) -> Mute:
        self.ids = [] if text == "b" else [5]
        return self


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(min_size=1).filter(lambda text: text.isprintable()), min_size=1, max_size=5))
def test_every_vector_is_finite_and_of_unit_length(texts: list[str]) -> None:
    """Whatever the text, an answer holds one unit vector for each, and at least one token each was counted."""
    got = vectors(texts)
    assert got.shape == (len(texts), 256)
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1, atol=1e-6)
    assert ask(texts)["usage"]["prompt_tokens"] >= len(texts)


def test_threads_share_one_model_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads that begin together get equal vectors from one load."""
    expected = vectors(SENTENCES)
    loads: list[str] = []
    results: list[NDArray[np.float32]] = []
    read = models._read
    monkeypatch.setattr(models, "_loaded", {})
    gate = threading.Barrier(8)

    def counted(card: models.ModelCard) -> models.Embedder:
        loads.append(card.name)
        return read(card)

    monkeypatch.setattr(models, "_read", counted)

    def work() -> None:
        gate.wait(10)
        results.append(vectors(SENTENCES))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(loads) == 1
    assert len(results) == 8
    assert all(np.array_equal(result, expected) for result in results)


@pytest.mark.parametrize("lacking", models.WORDLLAMA.packages)
def test_a_missing_package_is_an_answer_with_the_cure(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    """501 that says what to install, and the model is not listed; nothing is raised."""
    find = importlib.util.find_spec
    monkeypatch.setattr(models, "_loaded", {})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == lacking else find(name))
    status, _, answer = LocalProvider().handle(
        "POST", "/embeddings", json.dumps({"model": MODEL, "input": "x"}).encode()
    )
    error = json.loads(answer)["error"]
    assert (status, error["type"]) == (501, "not_supported_error")
    assert error["message"] == "model 'wordllama-256' needs: pip install 'openai-shim[local]'"
    listed = json.loads(LocalProvider().handle("GET", "/models", b"")[2])["data"]
    assert MODEL not in [model["id"] for model in listed]


def test_the_models_are_listed_in_openais_shape() -> None:
    """What can be asked for, nothing else."""
    listed = json.loads(LocalProvider().handle("GET", "/models", b"")[2])
    assert listed["object"] == "list"
    assert {"id": MODEL, "object": "model", "created": 0, "owned_by": "local"} in listed["data"]


def test_import_is_light_and_the_package_itself_is_never_imported() -> None:
    """Importing the provider brings no numeric library; embedding never runs the code of `wordllama`."""
    code = """if True:
        import sys
        from shim.local.provider import LocalProvider
        heavy = {"numpy", "tokenizers", "safetensors", "onnxruntime", "msgspec", "openai", "asyncio"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
        body = b'{"model": "wordllama-256", "input": "x"}'
        assert LocalProvider().handle("POST", "/embeddings", body)[0] == 200
        assert "wordllama" not in sys.modules
    """
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
