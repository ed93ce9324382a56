"""How numbers, durations, money and texts of others are written: one place for the panel, the tables and the magics."""

from __future__ import annotations

from datetime import datetime

from shim._masking import mask_secrets

LONGEST = 300
"""Characters of a text of others (an error, a model's name) that are shown."""


def seconds(value: float | None) -> str:
    """`12 ms`, `1.5 s`, `2 min 5 s`, `1 h 4 min`; a dash for None."""
    if value is None:
        return "–"
    if value < 0.9995:
        return f"{max(0.0, value) * 1000:.0f} ms"
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def count(value: int) -> str:
    """`9,120`, `41.2k`, `1.25M`."""
    if value < 10_000:
        return f"{value:,}"
    return f"{value / 1e3:.1f}k" if value < 1_000_000 else f"{value / 1e6:.2f}M"


def money(dollars: float | None) -> str:
    """`USD 0.0012`: a dollar sign would be set as a formula by a notebook. A dash where no route has a price."""
    if dollars is None:
        return "–"
    return f"USD {dollars:.2f}" if dollars >= 1 or dollars == 0 else f"USD {dollars:.4f}"


def clock(at: float | None) -> str:
    """The local time of day of an instant in unix seconds."""
    return "–" if at is None else datetime.fromtimestamp(at).strftime("%H:%M:%S")


def plural(number: int, noun: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"


def clean(text: object, longest: int = LONGEST) -> str:
    """A text of others on one line: no control characters, nothing that looks like a key, not longer than shown."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in str(text)).split())
    masked = mask_secrets(line)
    return masked if len(masked) <= longest else masked[: longest - 1] + "…"
