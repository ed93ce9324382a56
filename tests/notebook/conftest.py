"""The fixtures of `tests.support` for this folder."""

from tests.support.fixtures import face, flavour, plain, serve

__all__ = ["face", "flavour", "plain", "serve"]
