"""The model `wordllama-256`: a table of token vectors, whose mean is the text's vector.

The table and its tokenizer are read from the folder of the installed `wordllama` package, which is never imported: its
own loader looks in a folder that the wheel does not have and then tries to download, and its import configures logging.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from shim.local.models import WORDLLAMA, Embedded, LocalModelMissing, NoTokens, package_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PIECE = 8192
"""Tokens gathered at once, so that a very long text takes 8 MB and not a gigabyte."""


class WordLlama:
    """Mean pooling over a static table of shape (tokens, 256). Order of words plays no part."""

    def __init__(self, table: NDArray[np.float32], tokenizer: Tokenizer) -> None:
        self._table = table
        self._tokenizer = tokenizer

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Embeds the texts; each row depends on its own text alone, to the last bit. Raises `NoTokens`."""
        vectors = np.empty((len(texts), self._table.shape[1]), np.float32)
        tokens = []
        for index, text in enumerate(texts):
            # One text at a time is as fast as a batch, and starts no thread pool that a later fork would trip over.
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids
            total = self._sum(np.asarray(ids, np.int64))
            length = float(np.sqrt(total @ total))
            if not length:
                raise NoTokens(index)
            # The mean is the sum divided by a number, and the norm takes that number out again.
            vectors[index] = total / length
            tokens.append(len(ids))
        return Embedded(vectors, tokens)

    def _sum(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        total = np.zeros(self._table.shape[1], np.float64)
        for start in range(0, len(ids), _PIECE):
            total += self._table.take(ids[start : start + _PIECE], axis=0).sum(axis=0)
        return total


def load() -> WordLlama:
    """Reads the model: 32 MB of memory, about a tenth of a second. Raises `LocalModelMissing`."""
    weights = package_file(WORDLLAMA, "wordllama", "weights", "l2_supercat_256.safetensors")
    vocabulary = package_file(WORDLLAMA, "wordllama", "tokenizers", "l2_supercat_tokenizer_config.json")
    table = load_file(weights)["embedding.weight"].astype(np.float32)
    tokenizer = Tokenizer.from_file(vocabulary)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if table.shape != (tokenizer.get_vocab_size(), WORDLLAMA.dimensions):
        raise LocalModelMissing(WORDLLAMA)
    return WordLlama(table, tokenizer)
