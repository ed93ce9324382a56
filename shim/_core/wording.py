"""What a provider said, fit to be shown: one line, no credentials, no HTML, of a bounded length."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST_MESSAGE = 300
_LONGEST_READ = 4000
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,500}?-->\s*)?<(?:!doctype|html|head|body|h1|center|title)\b", re.I | re.S
)
_TITLE = re.compile(r"<title[^>]{0,100}>([^<]{1,200})", re.I)
_SECRETS = (
    re.compile(r"\b(Bearer |Basic )\s*[A-Za-z0-9._~+/=*-]{8,}", re.I),
    re.compile(r"((?:key|token|secret|password)[\"']?\s?=\s?[\"']?)[^\s\"'&,;)]{4,}", re.I),
    re.compile(r"((?:key|token|secret|password)[\"']?\s?:\s?[\"']?)(?=[^\s\"'&,;)]{0,80}\d)[^\s\"'&,;)]{8,}", re.I),
    re.compile(r"(://)[^/\s:@]{1,200}:[^/\s@]{1,200}(?=@)"),
    re.compile(
        r"(?<![A-Za-z0-9])()(?:(?:sk|pk|gsk|hf|xai|nvapi|pplx|csk|tgp|ghp|github_pat)[-_]|AIza)[A-Za-z0-9_*.\-]{6,}"
    ),
)


def mask_secrets(text: str, known: Iterable[str] = ()) -> str:
    """`text` with every known key, and whatever looks like a credential, replaced by `***`."""
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    for pattern in _SECRETS:
        text = pattern.sub(r"\1***", text)
    return text


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
