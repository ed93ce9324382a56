"""The app that LitServe serves for `scripts/record`: its embeddings endpoint over the small model of this package."""

from __future__ import annotations

import sys
from typing import Any

import litserve

from shim.local.models import WORDLLAMA, load


class Embeds(litserve.LitAPI):  # type: ignore[misc]
    """One text or several; LitServe does all that speaks HTTP."""

    def setup(self, device: str) -> None:
        self.model = load(WORDLLAMA)

    def predict(self, texts: Any) -> Any:
        vectors, _ = self.model.embed([texts] if isinstance(texts, str) else list(texts))
        return vectors


if __name__ == "__main__":
    served = litserve.LitServer(Embeds(spec=litserve.OpenAIEmbeddingSpec()), accelerator="cpu")
    served.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, num_api_servers=1)
