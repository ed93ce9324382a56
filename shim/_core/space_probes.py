"""The texts that routes of an embedding family embed so that their vector spaces can be compared."""

from __future__ import annotations

from hashlib import blake2b

PROBES: tuple[str, ...] = (
    "The ferry leaves at noon, unless the fog has not lifted by then.",
    "Warm the butter slowly, take it off the heat, and only then stir in the flour.",
    "def area(width, height):\n    return width * height if width > 0 else None",
    "SELECT city, COUNT(*) FROM visits WHERE year >= 2019 GROUP BY city;",
    "https://example.org/archive/2021/07/report.pdf?page=3#table-2",
    "3.14159 2.71828 1.41421 0.57721 -40 6.02e23",
    "Die Brücke über den Fluss wurde im Frühjahr gesperrt.",
    "図書館は毎週月曜日に休みます。",
    "Поезд опоздал на двадцать минут из-за снега.",
    "المطر يبدأ عادة في أواخر الخريف",
    "🌧️☕📚 → 😌",
    "WARNING: DO NOT OPEN THE VALVE WHILE THE PUMP IS RUNNING",
    "query",
    "passage: interest rates rose by a quarter of a percentage point in March",
    "Her fever broke on the third day, and the cough a week later.",
    '{"id": 17, "tags": ["oak", "maple"], "open": true, "owner": null}',
)
"""Sixteen short texts: prose, code, a URL, numbers, several scripts, emoji, capitals, one word, a prompt prefix, JSON.
"""

_PLACES = ("harbour", "valley", "market", "orchard", "lighthouse", "quarry", "meadow", "canal", "village", "forest")
_WEATHERS = ("after the rain", "before sunrise", "in deep snow", "under low cloud", "on a windless day")
_PARTS = (
    "bearing",
    "gearbox",
    "piston",
    "governor",
    "crankshaft",
    "turbine",
    "condenser",
    "flywheel",
    "valve",
    "boiler",
)
_TESTS = ("at full load", "without lubricant", "at half speed", "under high pressure", "from a cold start")


def _long_probe() -> str:
    """About 700 words whose second half speaks of something else: a route that cuts the text embeds another subject."""
    outdoors = [
        f"We walked past the {place} {weather} and drew what we saw." for place in _PLACES for weather in _WEATHERS
    ]
    engines = [f"The {part} was measured {test} and failed early." for part in _PARTS for test in _TESTS]
    return " ".join(outdoors[:30] + engines[:38])


LONG_PROBE: str = _long_probe()
"""One text beyond a context of 512 tokens: it finds routes that cut long texts in silence, or elsewhere than others do.
"""

FINGERPRINT: str = blake2b("\x00".join((*PROBES, LONG_PROBE)).encode(), digest_size=8).hexdigest()
"""Names this set of texts: readings of other texts must never be compared with these."""
