"""The one exception of a wrong configuration; it stands alone so that reading one does not import openai."""

from __future__ import annotations


class ConfigError(ValueError):
    """The configuration is wrong. The text lists every problem: the key's full path, the value, what is allowed."""
