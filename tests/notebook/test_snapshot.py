"""What a panel shows: the headline, each route's standing, calls as time lines, errors by verdict, jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from notebook_ext import calls, jobs, render, words
from notebook_ext.model import RouteView, Snapshot
from shim.events import BreakerState, CallFinished, Ending, JobState, Purpose, Verdict
from shim.router import ProviderStatus, RouteStatus, SpaceStatus, Status
from tests.notebook import scene
from tests.notebook.scene import NOW, attempt, call, failure, finished

KEY = "sk-proj-0123456789abcdefghij"


def with_route(place: int, **more: Any) -> Status:
    told = scene.status()
    routes: list[RouteStatus] = list(told.routes)
    routes[place] = replace(routes[place], **more)
    return replace(told, routes=tuple(routes))


def with_provider(name: str, **more: Any) -> Status:
    told = scene.status()
    providers: list[ProviderStatus] = [replace(one, **more) if one.name == name else one for one in told.providers]
    return replace(told, providers=tuple(providers))


def row(snapshot: Snapshot, route: str) -> RouteView:
    return next(one for family in snapshot.families for one in family.routes if one.route == route)


LAB = "lab/bge-m3"


@pytest.mark.parametrize(
    ("status", "breaker", "state", "back_at"),
    [
        (scene.status(), "closed", "", None),
        (with_route(0, breaker=BreakerState.HALF_OPEN), "half-open", "", None),
        (with_route(0, breaker=BreakerState.OPEN, open_for=9.0), "open", "breaker open after timeout", NOW + 9),
        (with_route(0, breaker=BreakerState.OPEN, open_for=0.0), "open", "", None),
        (with_route(0, breaker=BreakerState.FORCED_OPEN), "forced open", "forced open, until it is reset", None),
        (with_provider("lab", breaker=BreakerState.OPEN, open_for=4.0), "open", "breaker open after timeout", NOW + 4),
        (with_route(0, cooldown=30.0, told=True), "closed", "cooling: timeout, as it was told", NOW + 30),
        (with_route(0, cooldown=86_400.0, misconfigured="512 numbers"), "closed", "misconfigured: 512 numbers", None),
        (with_provider("lab", cooldown=7.0), "closed", "the provider is cooling: timeout", NOW + 7),
        (with_provider("lab", keys=(), missing="LAB_KEY"), "closed", "no key: set LAB_KEY", None),
        (with_route(0, enabled=False), "closed", "off in the configuration", None),
        (with_route(0, is_off=True), "closed", "off by hand", None),
        (with_route(0, cooldown=float("inf")), "closed", "cooling: timeout", None),
    ],
    ids=[
        "all well",
        "on probation",
        "breaker open",
        "breaker open, probe due",
        "forced open",
        "breaker of the provider open",
        "told to wait",
        "misconfigured",
        "provider cooling",
        "key missing",
        "off in the configuration",
        "off by hand",
        "for ever",
    ],
)
def test_who_is_out_and_until_when(status: Status, breaker: str, state: str, back_at: float | None) -> None:
    found = row(scene.snapshot(status=status), LAB)

    assert (found.breaker, found.state) == (breaker, state)
    assert found.is_serving == (state == "")
    if state.startswith("misconfigured"):
        back_at = NOW + 86_400
    assert found.back_at == (pytest.approx(back_at) if back_at else back_at)


def test_a_snapshot_is_json_without_infinities() -> None:
    made = scene.snapshot(status=with_route(0, cooldown=float("inf"), breaker=BreakerState.OPEN, open_for=float("inf")))

    assert json.loads(json.dumps(made.to_builtins(), allow_nan=False))["v"] == 1


@pytest.mark.parametrize(
    ("status", "tone", "headline"),
    [
        (scene.status(), "warn", "4 of 6 routes can serve"),
        (with_route(1, is_off=True), "warn", "3 of 6 routes can serve"),
        (
            replace(scene.status(), routes=tuple(replace(one, is_off=True) for one in scene.status().routes)),
            "bad",
            "No route of bge-m3 can serve, and none is known to come back",
        ),
    ],
    ids=["two are out", "three are out", "all are out"],
)
def test_the_headline_says_whether_anything_is_wrong(status: Status, tone: str, headline: str) -> None:
    made = scene.snapshot(status=status)

    assert (made.tone, made.headline) == (tone, headline)


def test_a_pin_on_a_route_that_is_out_is_wrong() -> None:
    made = scene.snapshot(status=with_route(3, is_pinned=True))

    assert made.tone == "bad"
    assert made.headline == f"No route of fast can serve, back at {words.clock(NOW + 41)}" or "back at" in made.headline
    assert made.families[1].pinned == "groq/llama-3.1-8b-instant"


def test_the_figures_say_what_it_has_cost() -> None:
    figures = scene.snapshot().figures

    assert "280 answers" in figures
    assert "1 call exhausted" in figures
    assert "USD 0.0193 spent" in figures


def test_before_any_call_it_says_so() -> None:
    nothing = replace(
        scene.status(), routes=tuple(replace(one, verdicts={}, attempts=0) for one in scene.status().routes)
    )

    assert scene.snapshot([], status=nothing).figures == "no call yet"


def test_which_vector_space_a_route_is_in() -> None:
    made = scene.snapshot()

    assert [one.space for one in made.families[0].routes] == [
        "sets the space",
        "same space (0.004)",
        "not compared yet",
    ]
    assert "1024 dimensions" in made.families[0].about
    assert "calls never leave this family" in made.families[0].about
    assert [one.space for one in made.families[1].routes] == ["", "", ""]


def test_a_route_is_compared_when_it_is_in_any_of_the_spaces() -> None:
    lab, together, other = "https://lab.example/v1 bge-m3", "https://together.example/v1 BAAI/bge-m3", "https://x/v1 m"
    spaces = (
        SpaceStatus("bge-m3 native any", lab, {lab: 0.0}, "0"),
        SpaceStatus("bge-m3 native document", together, {together: 0.0, lab: 0.01}, "1"),
        SpaceStatus("bge-m3 x native any", other, {other: 0.0}, "2"),  # of a family of a longer name
    )

    assert [one.space for one in scene.snapshot(spaces=spaces).families[0].routes] == [
        "sets the space for any, same space (0.010) for document",
        "sets the space for document",
        "not compared yet",
    ]


def test_is_it_me_my_quota_or_them() -> None:
    groq = row(scene.snapshot(), "groq/llama-3.1-8b-instant")

    assert (groq.key, groq.key_until) == ("1 of 2 ready, key2: rate_limit", NOW + 41)
    assert row(scene.snapshot(), "mistral/ministral-8b").error_tone == "bad"


def test_errors_stand_by_verdict_with_what_to_do() -> None:
    told = [(one.verdict, one.reason, one.advice) for one in scene.snapshot().troubles]

    assert told[0] == ("broken", "invalid_key", "fix the configuration")
    assert ("transient", "rate_limit", "wait: it passes by itself") in told
    assert told[-1] == ("cannot", "context_length", "another route is asked: no fault")


# -- calls


def words_of(view: Any) -> str:
    return render.sentence(view.words)


def test_attempts_in_order_stand_on_one_lane() -> None:
    late, other = scene.calls()[0].attempts
    view = calls.view(call(late, other))

    assert [bar.lane for bar in view.bars] == [0, 0]
    assert [bar.look for bar in view.bars] == ["late", "ok"]
    assert view.bars[1].start == pytest.approx(10.0)
    assert words_of(view) == "lab: timeout → together answered"


def test_a_hedge_stands_beside_what_it_hedges() -> None:
    view = calls.view(scene.calls()[1])

    assert [(bar.lane, bar.look) for bar in view.bars] == [(0, "cancelled"), (1, "ok")]
    assert view.lanes == 2
    assert words_of(view) == "lab cancelled beside together answered"


def test_probes_of_the_space_check_are_one_bar() -> None:
    probes = [attempt(LAB, purpose=Purpose.SPACE_CHECK, started_at=NOW + n / 10, duration=0.1) for n in range(18)]
    view = calls.view(call(*probes, attempt(LAB, started_at=NOW + 2)))

    assert [bar.look for bar in view.bars] == ["check", "ok"]
    assert view.bars[0].length == pytest.approx(1.8)
    assert words_of(view) == "lab: space check, 18 probes → lab answered"


def test_a_probe_that_failed_is_told_once_by_its_attempt() -> None:
    more: dict[str, Any] = {"started_at": NOW, "duration": 1.0}
    probe = failure(LAB, Verdict.TRANSIENT, "timeout", "timeout", None, purpose=Purpose.SPACE_CHECK, **more)
    view = calls.view(call(probe, failure(LAB, Verdict.TRANSIENT, "timeout", "timeout", None, **more)))

    assert words_of(view) == "lab: timeout"


def test_a_rehearsed_attempt_says_so() -> None:
    one = failure(LAB, Verdict.TRANSIENT, "rate_limit", "rehearsal of HTTP 429", 429, is_rehearsal=True)
    view = calls.view(call(one, ending=Ending.EXHAUSTED))

    assert view.bars[0].is_rehearsal
    assert words_of(view) == "lab: 429 rate_limit (rehearsal) → exhausted"


def test_a_call_that_asked_nobody() -> None:
    view = calls.view(call(ending=Ending.EXHAUSTED))

    assert (view.bars, words_of(view)) == ((), "no route could be asked")


# -- jobs


@pytest.mark.parametrize(
    ("state", "more", "headline", "keeps"),
    [
        (
            JobState.RUNNING,
            {},
            "Embedding with bge-m3: 61,240 of 250,000 rows (24.5 %)",
            "Stopping now keeps 61.2k rows; 8 requests under way would be asked again",
        ),
        (JobState.RUNNING, {"rows": None}, "Embedding with bge-m3: 61,240 rows", None),
        (JobState.DONE, {"done": 250_000}, "Embedded with bge-m3: 250,000 of 250,000 rows (100.0 %)", ""),
        (
            JobState.CANCELLED,
            {},
            "Cancelled embedding with bge-m3: 61,240 of 250,000 rows (24.5 %)",
            "61.2k rows kept; the same call goes on from there",
        ),
    ],
    ids=["under way", "of unknown length", "done", "cancelled"],
)
def test_a_job_says_how_far_it_is_and_what_is_kept(
    state: JobState, more: dict[str, Any], headline: str, keeps: str | None
) -> None:
    view = jobs.view(scene.job(state, **more))

    assert view.headline == headline
    assert keeps is None or view.keeps == keeps


# -- faces


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        assert {name for name, _ in attrs} <= {"style", "max", "value"}, "nothing that could run or load"

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)>'


def evil() -> Snapshot:
    """Markup and a key wherever others may write."""
    told = scene.status()
    route = replace(told.routes[0], last_message=f"{EVIL} {KEY}", last_reason=EVIL, misconfigured=EVIL, cooldown=5.0)
    one = failure(f"lab/{EVIL}", Verdict.BROKEN, EVIL, f"{EVIL} key={KEY}", 401)
    history = [
        finished(one),
        CallFinished(call(one, ending=Ending.EXHAUSTED, id=EVIL)),
        scene.job(message=f"{EVIL} {KEY}", family=EVIL, shares={EVIL: 5}),
    ]
    return scene.snapshot(history, status=replace(told, routes=(route, *told.routes[1:])))


def test_markup_of_others_is_text() -> None:
    tags = parsed(render.to_html(evil()))

    assert tags.seen <= {"div", "p", "b", "i", "br", "table", "thead", "tbody", "tr", "th", "td", "progress"}
    assert '<script>alert("x")</script>' in tags.text


def test_keys_of_others_are_masked_everywhere() -> None:
    made = evil()
    for shown in (render.to_html(made), render.to_text(made), msgspec.json.encode(made).decode()):
        assert KEY not in shown
        assert "***" in shown


def test_no_notebook_reads_a_formula() -> None:
    """Two dollar signs in one output are set as mathematics by Jupyter, GitHub and VS Code."""
    shown = render.to_html(scene.snapshot([finished(failure(LAB, Verdict.BROKEN, "credit", "$0.31 of $2.00", 402))]))

    assert "$" not in shown.replace("<!-- -->", "")
    assert "&#36;" in shown
    assert "$0.31 of $2.00" in parsed(shown).text


@pytest.mark.parametrize("face", [render.to_html, render.to_text], ids=["html", "text"])
def test_both_faces_tell_all_of_it(face: Any) -> None:
    shown = face(scene.snapshot(rehearsals={LAB: "HTTP 429 for 3 more attempts"}))
    for expected in (
        "4 of 6 routes can serve",
        "61,240 of 250,000 rows",
        "lab/bge-m3 71 %",
        "half-open",
        f"open until {words.clock(NOW + 23)}",
        "off by hand",
        "same space (0.004)",
        "lab cancelled beside together answered",
        "fix the configuration",
        "HTTP 429 for 3 more attempts",
    ):
        assert expected in shown, expected


def test_a_thousand_routes_are_still_a_snapshot() -> None:
    told = scene.status()
    many = tuple(replace(told.routes[0], last_message="x" * 9000) for _ in range(1000))
    made = scene.snapshot(status=replace(told, routes=many))

    assert len(msgspec.json.encode(made)) < 1_200_000


# -- words


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"),
        (0.0, "0 ms"),
        (-0.001, "0 ms"),
        (0.0123, "12 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (125, "2 min 5 s"),
        (3840, "1 h 4 min"),
    ],
)
def test_durations_are_said_as_people_say_them(value: float | None, said: str) -> None:
    assert words.seconds(value) == said


@pytest.mark.parametrize(("value", "said"), [(0, "0"), (9_999, "9,999"), (41_234, "41.2k"), (1_250_000, "1.25M")])
def test_counts(value: int, said: str) -> None:
    assert words.count(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(None, "–"), (0.0, "USD 0.00"), (0.00123, "USD 0.0012"), (2.5, "USD 2.50")]
)
def test_money(value: float | None, said: str) -> None:
    assert words.money(value) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("one\ntwo\tthree\x00", "one two three"),
        (f"bad key {KEY}", "bad key ***"),
        ("x" * 400, "x" * 299 + "…"),
        ("\u202eevil", "evil"),
    ],
    ids=["lines and control characters", "a key", "a long text", "a direction override"],
)
def test_texts_of_others_are_cleaned(text: str, said: str) -> None:
    assert words.clean(text) == said
