"""What a base URL may look like, and which hosts are loopback or private. No look-ups, only the text."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

# RFC 1918, RFC 1122 (loopback) and RFC 4291 section 2.5.3.
_PRIVATE = tuple(ip_network(net) for net in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "::1/128"))
# `http://134744072` is 8.8.8.8 to most resolvers: a label must read as a name to be one.
_LABEL = re.compile(r"(?!0x)[a-z0-9_-]*[a-z][a-z0-9_-]*", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
LOCAL = "local://"
_ENDPOINT = re.compile(r"/(?:chat/completions|completions|embeddings|responses|models|rerank|moderations)$")


def is_private_host(host: str) -> bool:
    """Whether a host is loopback or private: by its number, or `localhost`, `*.local` or a name without a dot."""
    host = host.rstrip(".").lower()
    try:
        number = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".local") or _LABEL.fullmatch(host) is not None
    return any(number in net for net in _PRIVATE)


def is_private_url(url: str) -> bool:
    """Whether a base URL names a loopback or private host, or the provider inside this process."""
    return url == LOCAL or is_private_host(urlsplit(url).hostname or "")


def check_base_url(url: str, *, allow_insecure: bool, placeholders: frozenset[str]) -> tuple[str, str]:
    """The URL without a trailing slash, and what is wrong with it ("" when nothing is).

    The text of a problem never repeats credentials or a query.
    """
    if not url.isascii() or re.search(r"[\x00-\x20\x7f\\]", url):
        return url, "a base URL may not hold spaces, control characters, backslashes or non-ASCII characters"
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        # The text of the error may repeat a piece of a password.
        return url, "is not a URL: its host or port cannot be read"
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return url.rstrip("/"), _problem(parts, host, shown, allow_insecure, placeholders)


def _problem(parts: SplitResult, host: str, shown: str, allow_insecure: bool, placeholders: frozenset[str]) -> str:
    if parts.scheme not in {"http", "https"} or not host:
        return _no_scheme(parts, shown)
    if "@" in parts.netloc:
        return f"'{shown}' has credentials in it; remove what stands before the @ and use api_key or headers"
    if parts.query or parts.fragment:
        return f"'{shown}' has a query or fragment; write it as query = {{...}}"
    endpoint = _ENDPOINT.search(parts.path.rstrip("/"))
    if endpoint is not None:
        return f"'{shown}' ends in the endpoint {endpoint.group()}, which is added to it; leave that out"
    unknown = [name for name in _PLACEHOLDER.findall(parts.path) if name not in placeholders]
    if unknown or "{" in host:
        return f"'{shown}' has a placeholder that is not filled here; only wire = 'azure' knows {{model}}"
    if parts.scheme == "http" and not allow_insecure and not is_private_host(host):
        return f"'{shown}' is not https and {host} is not loopback or private; use https or allow_insecure = true"
    return ""


def _no_scheme(parts: SplitResult, shown: str) -> str:
    if parts.scheme == "local":
        return "local:// is kept for the provider in this process; use preset = 'local'"
    if parts.scheme and parts.netloc:
        return f"'{shown}' has scheme '{parts.scheme}'; allowed: https, http"
    return "has no scheme; begin it with https:// (or http:// for loopback and private hosts)"
