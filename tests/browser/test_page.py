"""The panel's page by itself: what it shows, what its buttons send, in light, dark and narrow, for everybody."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.axe import violations
from tests.browser.pages import DARK, LIGHT, mount, update
from tests.notebook import scene
from tests.notebook.test_snapshot import EVIL, evil

REHEARSALS = {"lab/bge-m3": "HTTP 429 for 2 more attempts, all as before at 14:03:22"}


def shown(**more: Any) -> dict[str, Any]:
    return scene.snapshot(**more).to_builtins()


def row(page: Any, provider: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader").filter(has_text=provider))


def sent(page: Any) -> list[dict[str, Any]]:
    return [message for message in page.evaluate("sent") if message["type"] != "hello"]


def acked(*pairs: tuple[str, str], **more: Any) -> dict[str, Any]:
    return shown(acks=pairs, seq=2, **more)


@pytest.mark.parametrize(
    ("style", "width"),
    [(LIGHT, 1200), (DARK, 1200), (LIGHT, 820), (LIGHT, 480), (DARK, 480), (LIGHT, 320)],
    ids=["light", "dark", "middle", "narrow", "narrow and dark", "a telephone"],
)
def test_everybody_can_read_and_use_it(page: Any, style: str, width: int) -> None:
    mount(page, shown(rehearsals=REHEARSALS), style=style, width=width)

    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it does not scroll sideways"
    small = page.eval_on_selector_all(
        ".shim-panel button, .shim-panel select",
        "all => all.map(one => one.getBoundingClientRect()).filter(box => box.height < 24 || box.width < 24).length",
    )
    assert small == 0, "every control can be hit (WCAG 2.5.8: 24 pixels)"


def test_the_check_can_fail(page: Any) -> None:
    mount(page, shown())
    page.add_style_tag(content=".shim-panel .badge { color: #eee !important }")

    assert any("color-contrast" in one for one in violations(page))


def test_at_a_glance(page: Any) -> None:
    mount(page, shown())
    text = page.locator(".shim-panel").inner_text()
    for expected in (
        "4 of 6 routes can serve",
        "1024 dimensions",
        "calls never leave this family",
        "Embedding with bge-m3: 61,240 of 250,000 rows (24.5 %)",
        "same space (0.004)",
        "Stopping now keeps",
        "fix the configuration",
    ):
        assert expected in text, expected
    assert row(page, "groq").locator(".badge").inner_text() == "open 23 s"
    assert row(page, "openrouter").locator(".badge").inner_text() == "half-open"
    assert "off by hand" in row(page, "mistral").inner_text()
    assert page.get_by_role("progressbar").get_attribute("aria-valuenow") == "24"
    line = page.get_by_role("img", name="groq: 429 rate_limit after 310 ms; mistral: 401 invalid_key after 100 ms")
    assert line.count() == 2


def test_an_open_breaker_counts_down_by_itself(page: Any) -> None:
    page.clock.install()
    mount(page, shown())
    badge = row(page, "groq").locator(".badge")
    assert badge.inner_text() == "open 23 s"
    page.clock.fast_forward(10_000)
    assert badge.inner_text() == "open 13 s"


def test_a_hedge_stands_beside_and_not_after(page: Any) -> None:
    mount(page, shown())
    bars = page.locator(".line").nth(3).locator("i")
    tops = [bars.nth(place).evaluate("bar => bar.getBoundingClientRect().top") for place in range(2)]

    assert bars.count() == 2
    assert tops[1] > tops[0] + 5


BUTTONS = [
    ("Reset groq in fast", {"action": "reset", "name": "groq/llama-3.1-8b-instant"}),
    ("Switch off groq in fast", {"action": "off", "name": "groq/llama-3.1-8b-instant"}),
    ("Switch on mistral in fast", {"action": "on", "name": "mistral/ministral-8b"}),
    ("Pin lab in bge-m3", {"action": "pin", "family": "bge-m3", "name": "lab/bge-m3"}),
    ("end rehearsal", {"action": "end rehearsal"}),
]


@pytest.mark.parametrize(("name", "request_sent"), BUTTONS, ids=[name for name, _ in BUTTONS])
def test_a_button_says_requested_until_it_is_done(page: Any, name: str, request_sent: dict[str, str]) -> None:
    mount(page, shown(rehearsals=REHEARSALS))
    button = page.get_by_role("button", name=name)
    before = button.inner_text()
    button.focus()
    page.keyboard.press("Enter")

    assert button.inner_text() == "requested…"
    message = sent(page)[0]
    assert {key: value for key, value in message.items() if key not in ("type", "id")} == request_sent
    page.keyboard.press("Enter")
    assert len(sent(page)) == 1, "asked once"

    update(page, shown(rehearsals=REHEARSALS, seq=2))
    assert button.inner_text() == "requested…", "another snapshot is no answer"
    update(page, acked((message["id"], ""), rehearsals=REHEARSALS))
    assert button.inner_text() == before
    assert f"done: {request_sent['action']}" in page.get_by_role("status").first.inner_text()
    assert button.evaluate("button => button === document.activeElement"), "the keyboard stays where it was"


def test_what_went_wrong_is_said(page: Any) -> None:
    mount(page, shown())
    page.get_by_role("button", name="Reset lab in bge-m3").click()
    update(page, acked((sent(page)[0]["id"], "no route or provider 'lab/bge-m3'")))

    assert "no route or provider 'lab/bge-m3'" in page.locator(".told").inner_text()


def test_a_kernel_that_is_busy_is_said_to_be(page: Any) -> None:
    page.clock.install()
    mount(page, shown())
    page.get_by_role("button", name="Reset lab in bge-m3").click()
    page.clock.fast_forward(3000)

    assert "when its cell ends or awaits" in page.locator(".told").inner_text()


def test_a_rehearsal_is_chosen_and_shown(page: Any) -> None:
    mount(page, shown())
    page.get_by_role("combobox", name="Rehearse a fault of lab in bge-m3").select_option("429")
    message = sent(page)[0]

    assert (message["action"], message["name"], message["fault"]) == ("rehearse", "lab/bge-m3", "429")
    assert not page.locator(".rehearsals").is_visible()
    update(page, acked((message["id"], ""), rehearsals=REHEARSALS))
    assert "Rehearsal, not real: lab/bge-m3: HTTP 429 for 2 more attempts" in page.locator(".rehearsals").inner_text()


def test_a_pinned_route_is_marked(page: Any) -> None:
    from dataclasses import replace

    told = scene.status()
    routes = (replace(told.routes[0], is_pinned=True), *told.routes[1:])
    mount(page, shown(status=replace(told, routes=routes)))

    assert "pinned to lab/bge-m3" in page.locator(".shim-panel").inner_text()
    button = page.get_by_role("button", name="Unpin lab in bge-m3")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert sent(page)[0]["action"] == "unpin"


def test_a_silent_kernel_is_called_silent(page: Any) -> None:
    page.clock.install()
    mount(page, shown())
    page.clock.fast_forward(10_000)
    page.evaluate("model.set('beats', 1)")
    page.clock.fast_forward(10_000)
    assert not page.locator(".stale").is_visible(), "a sign of life came"
    page.clock.fast_forward(10_000)

    assert "No update since" in page.locator(".stale").inner_text()
    page.get_by_role("button", name="Reset lab in bge-m3").evaluate("button => button.click()")
    assert sent(page) == [], "nobody would hear it"
    update(page, shown(seq=2))
    assert not page.locator(".stale").is_visible()


def test_a_closed_comm_is_seen_at_once(page: Any) -> None:
    mount(page, shown())
    page.evaluate("model.tell('comm_live_update')")

    assert page.locator(".stale").is_visible()


def test_a_change_is_spoken_once(page: Any) -> None:
    from dataclasses import replace

    from shim.events import BreakerState

    mount(page, shown())
    assert page.locator(".spoken").inner_text() == "", "what is there from the start is not news"
    told = scene.status()
    opened = replace(told.routes[4], breaker=BreakerState.OPEN, open_for=10.0)
    update(page, shown(status=replace(told, routes=(*told.routes[:4], opened, told.routes[5])), seq=2))

    assert page.locator(".spoken").inner_text() == "cerebras: breaker open"


def test_markup_of_others_is_text(page: Any) -> None:
    mount(page, evil().to_builtins())

    assert page.locator(".shim-panel script, .shim-panel img[src]").count() == 0
    assert EVIL[:20] in page.locator(".shim-panel").inner_text()


def test_it_leaves_nothing_behind(page: Any) -> None:
    mount(page, shown())
    before = page.evaluate("model.listeners()")
    page.evaluate("leave()")

    assert before > 0
    assert page.evaluate("model.listeners()") == 0


def test_rows_come_and_go_in_order(page: Any) -> None:
    mount(page, shown())
    whole = page.locator(".provider").all_inner_texts()
    snapshot = shown()
    snapshot["families"] = snapshot["families"][1:]
    update(page, snapshot)
    assert page.locator(".provider").all_inner_texts() == whole[3:]
    snapshot = shown()
    snapshot["families"][1]["routes"] = snapshot["families"][1]["routes"][::-1]
    update(page, snapshot)
    assert page.locator(".provider").all_inner_texts() == whole[3:][::-1] + whole[:3]


def test_painting_is_fast_and_keeps_the_heap(page: Any) -> None:
    """Fifty thousand paintings an hour are what ten a second come to."""
    mount(page, shown())
    paint = """(snapshot) => {
      const begun = performance.now();
      for (let seq = 0; seq < 500; seq++) model.set("snapshot", { ...snapshot, seq, at: snapshot.at + seq / 10 });
      return (performance.now() - begun) / 500;
    }"""
    count = "document.querySelectorAll('.shim-panel *').length"
    before = page.evaluate(count)
    milliseconds = page.evaluate(paint, shown())

    assert milliseconds < 10
    assert page.evaluate(count) == before
