"""What a provider said, fit to be shown: one line, no credentials, no HTML, of a bounded length."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shim._masking import SHORTEST_SECRET, mask_secrets

__all__ = ["SHORTEST_SECRET", "describe_body", "is_html", "mask_secrets", "one_line"]

LONGEST_MESSAGE = 300
_LONGEST_READ = 4000
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,500}?-->\s*)?<(?:!doctype|html|head|body|h1|center|title)\b", re.I | re.S
)
_TITLE = re.compile(r"<title[^>]{0,100}>([^<]{1,200})", re.I)


def one_line(text: str, known: Iterable[str] = ()) -> str:
    """`text` masked, with its whitespace squeezed, cut to 300 characters with an ellipsis."""
    line = " ".join(text[:_LONGEST_READ].encode("utf-8", "replace").decode("utf-8").split())
    line = mask_secrets(line, known)
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 1].rstrip() + "…"


def is_html(body: bytes) -> bool:
    """True where the body begins as a page does, whatever its content type claims."""
    return _HTML.match(body[:2048]) is not None


def describe_body(body: bytes, status: int) -> str:
    """Words for a body that is no JSON: the page's title, the text itself, or that there is none."""
    if is_html(body):
        title = _TITLE.search(body[:_LONGEST_READ].decode("utf-8", "replace"))
        return "HTML page instead of JSON" + (f" (title {' '.join(title.group(1).split())!r})" if title else "")
    text = body[:_LONGEST_READ].decode("utf-8", "replace").strip()
    if not text:
        return f"HTTP {status} without a body"
    return text if text.isprintable() or "\ufffd" not in text else f"HTTP {status} with a binary body"
