"""The mock API's bodies fit the types that they are made from."""

from __future__ import annotations

import pytest
from openai.types import CreateEmbeddingResponse, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from pydantic import BaseModel

from tests.official.mock_schema import minimal


@pytest.mark.parametrize("model", [Model, CreateEmbeddingResponse, ChatCompletion, ChatCompletionChunk, Response])
def test_the_smallest_body_validates(model: type[BaseModel]) -> None:
    """The package's own validation accepts what was made from its annotations."""
    model.model_validate(minimal(model))
