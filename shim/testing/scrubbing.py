"""Takes out of a recording all that belongs to an account: keys, cookies, names of organisations, telling request ids.

Headers are kept by a list of what is harmless and useful; all others go. In URLs and bodies a credential is masked by
what it is (the request's own key, however the answer repeats it) or by what it looks like. Scrubbing what is scrubbed
changes nothing, which is how `shim cassette scrub --check` finds what is not.
"""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, quote_plus, unquote_plus

from shim._masking import SHORTEST_SECRET
from shim.testing.recording import Asked, Recording, Said

MASK = "***"
_LONG = 8
"""Characters from which on the value of a header that may be a credential is looked for elsewhere."""

_ASKED = frozenset({"accept", "content-type"})
_SAID = frozenset(
    {
        "content-encoding",  # where it could not be decoded
        "content-type",
        "location",
        "openai-model",
        "openai-processing-ms",
        "retry-after",
        "retry-after-ms",
        "server",
        "www-authenticate",
        "x-should-retry",
    }
)
_SAID_PREFIXES = ("x-ratelimit-", "ratelimit", "anthropic-ratelimit-", "x-shim-")
_CREDENTIALS = ("authorization", "api-key", "x-api-key", "x-goog-api-key", "ocp-apim-subscription-key")
_SCHEME = re.compile(r"^(?:Bearer|Basic|Token|Key)\s+", re.I)
_SECRET_QUERY = re.compile(r"key|token|secret|sig|passw|auth|session|credential|^code$", re.I)
_SECRET_HEADER = re.compile(r"key|token|secret|passw|auth|credential|cookie", re.I)

_LONG_BASE64 = re.compile(rb"([A-Za-z0-9+/=]{200,})")
"""Vectors, audio and images: noise in which something that looks like a key is none."""

_TOKEN = re.compile(rb"(?<![A-Za-z0-9_-])(?:eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{8,}){1,2}|ya29\.[A-Za-z0-9_-]{20,})")
"""Signed tokens: as long as noise, and told from it by their dots."""

_NOT_BEFORE = rb"(?<![A-Za-z0-9])"
_LOOKS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    (
        "looks like a key",
        re.compile(
            _NOT_BEFORE
            + rb"(?:(?:sk|pk|rk|ek|gsk|hf|r8|xai|nvapi|pplx|csk|tgp|jina|ghp|glpat|xox[abp]|github_pat)"
            + rb"[-_](?=[A-Za-z_.-]*\d)[A-Za-z0-9_.-]{8,}"
            + rb"|AIza[A-Za-z0-9_-]{10,})"
        ),
    ),
    ("looks like a key", re.compile(_NOT_BEFORE + rb"AKIA[A-Z0-9]{16}(?![A-Za-z0-9])")),
    ("a bearer token", re.compile(rb"(?<=Bearer )[A-Za-z0-9._~+/=-]{8,}", re.I)),
    ("a password in a URL", re.compile(rb'(?<=://)[^/\s:@"\\]{1,200}:[^/\s@"\\]{1,200}(?=@)')),
    (
        "names an account",
        re.compile(_NOT_BEFORE + rb"(?:org|proj|user|acct|cus)[-_](?=[A-Za-z]*\d)[A-Za-z0-9]{8,}"),
    ),
    ("a request id", re.compile(_NOT_BEFORE + rb"req[-_](?=[A-Za-z-]*\d)[A-Za-z0-9-]{8,}")),
    (
        "a credential in a URL",
        re.compile(
            rb"(?<=[?&])(?P<before>[\w-]*(?:key|token|secret|signature|password)=)(?P<value>[^&#\s\"'\\<>]+)", re.I
        ),
    ),
    (
        "a field that names an account",
        re.compile(
            rb'(?<=")(?P<before>(?:user_id|account_id|org_id|organization_id|organization|project_id|api[-_]?key'
            rb"|access_token|refresh_token|id_token|client_secret|secret_key|secret_access_key|private_key|password"
            rb'|request_id)"\s*:\s*")(?P<value>(?:[^"\\]|\\.)+)(?=")',
            re.I,
        ),
    ),
)
_ACCOUNT_PATH = re.compile(r"(?:(?<=/accounts/)|(?<=/projects/)|(?<=/organizations/)|(?<=/subscriptions/))[^/?#]+")
_HIDDEN = rb"(?:[a-z_]+_)?(?:secret|passw(?:or)?d|token|assertion|api_?key)"
_FORMS = {
    "application/x-www-form-urlencoded": re.compile(
        rb"(?:(?<=^)|(?<=&))(?P<before>" + _HIDDEN + rb"=)(?P<value>[^&\s]+)", re.I
    ),
    "multipart/form-data": re.compile(rb'(?<=name=")(?P<before>' + _HIDDEN + rb'"\r\n\r\n)(?P<value>[^\r\n]+)', re.I),
}
"""Of a form: what is given for a token, and the token."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not belong into a cassette: where it is and what it is, never itself."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class Scrubber:
    """Scrubs recordings. `known` are secrets to mask wherever they stand; `keep_headers` names answer headers to keep.

    Secrets shorter than four characters are left alone: they would be found in every word.
    """

    def __init__(self, known: Iterable[str] = (), keep_headers: Collection[str] = ()) -> None:
        self._known = frozenset(known)
        self._kept = _SAID | {name.lower() for name in keep_headers}

    def scrub(self, recording: Recording) -> tuple[Recording, list[Finding]]:
        """The recording as it may be written, and what had to go. What is dropped for being useless is no finding."""
        found: list[Finding] = []
        secrets = self.secrets_of(recording.asked)
        asked = self.asked(recording.asked, found)
        said = recording.said
        headers = tuple(
            (name, self._said(name, value, secrets, found))
            for name, value in said.headers
            if self._is_kept(name, found)
        )
        body = self._bytes(said.body, secrets, "answer body", found)
        return Recording(asked, replace(said, headers=headers, body=body)), found

    def _said(self, name: str, value: str, secrets: tuple[str, ...], found: list[Finding]) -> str:
        if name == "location":
            return self._url(value, secrets, found, "answer header location")
        return self._text(value, secrets, f"answer header {name}", found)

    def asked(self, asked: Asked, found: list[Finding] | None = None) -> Asked:
        """The request as it is written, and as a new one is compared with it."""
        findings = [] if found is None else found
        secrets = self.secrets_of(asked)
        for name in asked.headers:
            if name in _CREDENTIALS or name == "cookie":
                findings.append(Finding(f"request header {name}", "a credential"))
        return Asked(
            asked.method,
            self._url(asked.url, secrets, findings),
            {name: value for name, value in asked.headers.items() if name in _ASKED},
            self._form(asked, self._bytes(asked.body, secrets, "request body", findings), findings),
        )

    def _form(self, asked: Asked, body: bytes, found: list[Finding]) -> bytes:
        """The body; of a form, without what its fields are named to hide."""
        pattern = _FORMS.get(asked.headers.get("content-type", "").partition(";")[0].strip().lower())
        return body if pattern is None else _replaced(pattern, body, "request body", "a credential", found)

    def secrets_of(self, asked: Asked) -> tuple[str, ...]:
        """What this request carried as credentials, longest first, and what is known anyway."""
        own = {one for name, value in asked.headers.items() for one in _carried(name, value)}
        own |= {unquote_plus(value) for name, value in _pairs(asked.parts.query) if _SECRET_QUERY.search(name)}
        spelt = {form for secret in own | self._known for form in _spellings(secret)}
        long_enough = {form for form in spelt if len(form) >= SHORTEST_SECRET and form != MASK}
        return tuple(sorted(long_enough, key=len, reverse=True))

    def _is_kept(self, name: str, found: list[Finding]) -> bool:
        if name in ("set-cookie", *_CREDENTIALS):
            found.append(Finding(f"answer header {name}", "a credential"))
        elif "organization" in name or "project" in name or "request-id" in name or "account" in name:
            found.append(Finding(f"answer header {name}", "names an account"))
        return name in self._kept or name.startswith(_SAID_PREFIXES)

    def _url(self, url: str, secrets: tuple[str, ...], found: list[Finding], where: str = "URL") -> str:
        before, mark, query = url.partition("?")
        before = self._text(before, secrets, where, found)
        hidden = _ACCOUNT_PATH.sub(MASK, before)
        if hidden != before:
            found.append(Finding(where, "names an account"))
        shown = []
        for name, value in _pairs(query):
            if _SECRET_QUERY.search(name) and value != MASK:
                found.append(Finding(f"query field {name}", "a credential"))
                value = MASK
            shown.append(f"{name}={self._text(value, secrets, f'query field {name}', found)}")
        return hidden + mark + "&".join(shown)

    def _text(self, text: str, secrets: tuple[str, ...], where: str, found: list[Finding]) -> str:
        return self._bytes(text.encode("utf-8", "surrogateescape"), secrets, where, found).decode(
            "utf-8", "surrogateescape"
        )

    def _bytes(self, body: bytes, secrets: tuple[str, ...], where: str, found: list[Finding]) -> bytes:
        for secret in secrets:
            raw = secret.encode()
            if raw in body:
                found.append(Finding(where, "repeats a key"))
                body = body.replace(raw, MASK.encode())
        if _TOKEN.search(body):
            found.append(Finding(where, "looks like a signed token"))
            body = _TOKEN.sub(MASK.encode(), body)
        pieces = _LONG_BASE64.split(body)
        for number in range(0, len(pieces), 2):  # the odd ones are long base64
            pieces[number] = _looked_through(pieces[number], where, found)
        return b"".join(pieces)


def _carried(name: str, value: str) -> Iterable[str]:
    """The credentials that a header of that name carries."""
    bare = _SCHEME.sub("", value)
    if name == "cookie":
        yield from (part.partition("=")[2] for part in value.split("; ") if len(part.partition("=")[2]) >= _LONG)
    elif name in _CREDENTIALS:
        yield bare
        if value[:6].lower() == "basic ":
            with contextlib.suppress(ValueError):
                yield base64.b64decode(bare, validate=True).decode().partition(":")[2]
    elif _SECRET_HEADER.search(name) and len(value) >= _LONG:
        yield bare


def _spellings(secret: str) -> tuple[str, ...]:
    return secret, quote_plus(secret), quote(secret), secret.replace("/", "\\/")


def _looked_through(piece: bytes, where: str, found: list[Finding]) -> bytes:
    for what, pattern in _LOOKS:
        piece = _replaced(pattern, piece, where, what, found)
    return piece


def _replaced(pattern: re.Pattern[bytes], piece: bytes, where: str, what: str, found: list[Finding]) -> bytes:
    def masked(match: re.Match[bytes]) -> bytes:
        named = match.groupdict()
        value = named.get("value") or match.group()
        if MASK.encode() in value:
            return match.group()
        found.append(Finding(where, what))
        return (named.get("before") or b"") + MASK.encode()

    return pattern.sub(masked, piece)


def _pairs(query: str) -> list[tuple[str, str]]:
    """The fields of a query, values as they are spelt."""
    return [(name, value) for name, _, value in (part.partition("=") for part in query.split("&") if part)]


def secrets_in(environ: Mapping[str, str]) -> set[str]:
    """The values of the variables whose names speak of a key, a token or a secret, and which look like one: what is
    an ordinary word would be masked here, and not where the variable is missing."""
    speaks = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD)(?:_|$)", re.I)
    return {value for name, value in environ.items() if speaks.search(name) and _is_random(value)}


def _is_random(value: str) -> bool:
    return len(value) >= 12 and any(letter.isdigit() for letter in value)


__all__ = ["MASK", "Finding", "Said", "Scrubber", "secrets_in"]
