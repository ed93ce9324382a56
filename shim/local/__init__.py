"""The zero-key provider: real embedding models that ship inside a wheel, run in process, without a network."""

from shim.local.models import LocalModelMissing
from shim.local.provider import LocalProvider

__all__ = ["LocalModelMissing", "LocalProvider"]
