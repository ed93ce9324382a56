"""The plan of a call: the family law, who is passed by and why, and the order of what is left."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.plan import OWN_KEY, FamilyState, Plan, account_of, make_plan
from shim._core.request import Request
from shim.config import Config
from shim.events import Kind
from tests.core.builders import OWN_BASE, chat, config, embedding, providers, request, states


def plan_for(
    built: Config, family: str, asked: Request | None = None, *, pinned: str | None = None, only_first: bool = False
) -> Plan:
    known = states(built)
    families = [known[name] for name in (family, *built.families[family].fallback)]
    return make_plan(asked or request(), families, lambda: 0.0, pinned=pinned, only_first=only_first)


def routes(plan: Plan) -> list[str]:
    return list(dict.fromkeys(slot.route.config.route for slot in plan.slots))


def skipped(plan: Plan) -> dict[str, str]:
    return {skip.route: skip.reason for skip in plan.skipped}


def table(route: str, **more: object) -> dict[str, object]:
    provider, _, model = route.partition("/")
    return {"provider": provider, "model": model, **more}


ASK_CHAT = request({"model": "fast", "messages": []}, kind=Kind.CHAT, path="/chat/completions")


# -- the family law

KINDS = st.sampled_from(["embedding", "chat"])


@st.composite
def configurations(draw: st.DrawFn) -> Config:
    """Several families over the same few providers, some of them switched off."""
    names = ["alpha", "beta", "gamma"]
    families: dict[str, object] = {}
    for index, kind in enumerate(draw(st.lists(KINDS, min_size=1, max_size=5))):
        chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        written = [
            table(f"{name}/m{index}", enabled=draw(st.booleans()), priority=draw(st.integers(1, 2))) for name in chosen
        ]
        order = draw(st.sampled_from(["priority", "round_robin", "weighted", "fastest", "least_busy"]))
        more: dict[str, object] = {"policy": {"order": order}}
        if kind == "chat":
            more["fallback"] = [name for name in families if name.startswith("chat") and draw(st.booleans())]
        families[f"{kind}{index}"] = (embedding if kind == "embedding" else chat)(written, **more)
    off = {name: {"enabled": draw(st.booleans())} for name in names}
    return config(providers(**off), families)


@given(configurations(), st.data())
def test_an_embedding_plan_never_leaves_its_family(built: Config, data: st.DataObject) -> None:
    """Whatever else is configured, pinned, hinted or handed in."""
    known = states(built)
    names = list(built.families)
    order = data.draw(st.permutations(names))
    pinned = data.draw(st.sampled_from([None, "alpha", "beta", "alpha/m0", "beta/m1", "gamma/m2", "nobody"]))
    only_first = data.draw(st.booleans())
    asked = request({"model": order[0], "input": "x"}, own_base=data.draw(st.sampled_from([OWN_BASE, ""])))
    plan = make_plan(asked, [known[name] for name in order], lambda: 0.5, pinned=pinned, only_first=only_first)
    own = {route.route for route in built.families[order[0]].routes}
    assert {slot.family.config.name for slot in plan.slots} <= {order[0]}
    assert set(routes(plan)) <= own
    assert set(routes(plan)) | set(skipped(plan)) == own


@given(configurations(), st.booleans())
def test_every_route_is_planned_or_passed_by_with_a_reason(built: Config, only_first: bool) -> None:
    for name, family in built.families.items():
        asked = request() if family.kind is Kind.EMBEDDING else ASK_CHAT
        plan = plan_for(built, name, asked, only_first=only_first)
        expected = [route.route for each in (name, *family.fallback) for route in built.families[each].routes]
        assert sorted([*routes(plan), *skipped(plan)]) == sorted(expected)
        assert all(skipped(plan).values())
        assert len(plan.slots) == len(plan.lanes)
        for slot, lane in zip(plan.slots, plan.lanes, strict=True):
            assert slot.route.config.enabled
            assert slot.route.provider.enabled
            assert (slot.key, slot.route.provider.name) == (lane.key, lane.provider)
        ordinals = list(dict.fromkeys(lane.route for lane in plan.lanes))
        assert ordinals == list(range(len(routes(plan))))


# -- passed by

REASONS: list[tuple[str, Mapping[str, object], Mapping[str, object], str]] = [
    ("a route that is switched off", {}, {"enabled": False}, "switched off in the configuration"),
    ("a provider that is switched off", {"enabled": False}, {}, "provider alpha is switched off in the configuration"),
    ("a key whose variable is not set", {"api_key": "${NO_KEY}"}, {}, "no key: set NO_KEY for provider alpha"),
]


@pytest.mark.parametrize(("provider", "route", "reason"), [r[1:] for r in REASONS], ids=[r[0] for r in REASONS])
def test_passed_by(provider: Mapping[str, object], route: Mapping[str, object], reason: str) -> None:
    built = config(providers("beta", alpha=provider), {"space": embedding([table("alpha/m", **route), "beta/m"])})
    plan = plan_for(built, "space")
    assert routes(plan) == ["beta/m"]
    assert skipped(plan) == {"alpha/m": reason}


def test_nothing_left_is_an_empty_plan_with_all_reasons() -> None:
    built = config(providers("beta", alpha={"enabled": False}), {"space": embedding(["alpha/m"])})
    plan = plan_for(built, "space")
    assert (plan.slots, plan.lanes, list(skipped(plan))) == ([], [], ["alpha/m"])


# -- keys


def keyless(**more: object) -> Config:
    return config({"own": {"base_url": OWN_BASE, **more}}, {"space": embedding(["own/m"])})


def test_a_provider_without_keys_has_one_lane_with_the_callers_own() -> None:
    plan = plan_for(keyless(), "space")
    assert [(slot.key, slot.key_alias) for slot in plan.slots] == [(OWN_KEY, "")]


def test_the_clients_own_base_url_needs_no_key_of_the_configuration() -> None:
    asked = request(own_base=OWN_BASE, headers=[("Authorization", "Bearer sk-callers-not-real")])
    plan = plan_for(keyless(needs_key=True), "space", asked)
    assert [slot.key for slot in plan.slots] == [OWN_KEY]


def test_a_caller_without_a_key_has_none_for_its_own_base_url_either() -> None:
    plan = plan_for(keyless(needs_key=True), "space", request(own_base=OWN_BASE))
    assert skipped(plan) == {"own/m": "no key: set api_key for provider own"}


def test_another_base_url_does() -> None:
    plan = plan_for(keyless(needs_key=True), "space", request(own_base="https://elsewhere.example/v1"))
    assert skipped(plan) == {"own/m": "no key: set api_key for provider own"}


def test_a_named_variable_that_is_not_set_is_not_made_up_for_by_the_callers_key() -> None:
    plan = plan_for(keyless(api_key="${NO_KEY}"), "space", request(own_base=OWN_BASE))
    assert skipped(plan) == {"own/m": "no key: set NO_KEY for provider own"}


def three_keys() -> FamilyState:
    table = {"base_url": "https://alpha.example/v1", "api_keys": ["sk-1", "sk-2", "sk-3"]}
    return states(config({"alpha": table}, {"space": embedding(["alpha/m"])}))["space"]


def test_keys_take_turns_and_all_are_lanes_of_one_route() -> None:
    family = three_keys()
    plans = [make_plan(request(), [family], lambda: 0.0) for _ in range(4)]
    assert [[slot.key for slot in plan.slots] for plan in plans] == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]
    assert {lane.route for lane in plans[0].lanes} == {0}
    assert plans[0].slots[2].key_alias == "key3"


def test_routes_are_numbered_one_after_the_other_whatever_their_keys() -> None:
    alpha = {"base_url": "https://alpha.example/v1", "api_keys": ["sk-1", "sk-2"]}
    built = config({"alpha": alpha, **providers("beta")}, {"space": embedding(["alpha/m", "beta/m"])})
    assert [(lane.route, lane.key) for lane in plan_for(built, "space").lanes] == [(0, 0), (0, 1), (1, 0)]


def test_lanes_carry_the_bare_name_of_the_model() -> None:
    """What is beyond a model is beyond all its hosts, however they write its name."""
    built = config(providers("alpha", "beta"), {"fast": chat(["alpha/org/Big-Model", "beta/big-model"])})
    assert [lane.model for lane in plan_for(built, "fast", ASK_CHAT).lanes] == ["big-model", "big-model"]


# -- pinned to an account: who keeps something keeps it for that account alone


def accounts() -> Config:
    keys = [{"key": f"sk-{n}", "account": account} for n, account in enumerate(("ours", "theirs", "ours"))]
    alpha = {"base_url": OWN_BASE, "api_keys": keys}
    return config({"alpha": alpha, **providers("beta")}, {"fast": chat(["alpha/m", "beta/m"])})


@pytest.mark.parametrize(("account", "keys"), [("", [0, 1, 2]), ("ours", [0, 2]), ("theirs", [1])])
def test_only_keys_of_the_account_are_lanes(account: str, keys: list[int]) -> None:
    family = states(accounts())["fast"]
    for _ in range(4):  # whosever turn it is
        plan = make_plan(ASK_CHAT, [family], lambda: 0.0, pinned="alpha/m", only_first=True, account=account)
        assert sorted(slot.key for slot in plan.slots) == keys
        assert {slot.account for slot in plan.slots} <= {account or "ours", account or "theirs"}
        assert len(plan.lanes) == len(keys)


def test_a_route_without_a_key_of_the_account_is_passed_by() -> None:
    plan = make_plan(ASK_CHAT, [states(accounts())["fast"]], lambda: 0.0, pinned="beta/m", account="ours")
    assert plan.lanes == []
    assert skipped(plan)["beta/m"] == "provider beta has no key of account ours"


def test_the_callers_own_key_has_no_account() -> None:
    assert [slot.account for slot in plan_for(keyless(), "space").slots] == [""]


ACCOUNTS = [
    ("the caller's key is configured", [("Authorization", "Bearer sk-1")], "theirs"),
    ("the caller's key is another", [("Authorization", "Bearer sk-9")], "ours"),
    ("the caller has none", [], "ours"),
]


@pytest.mark.parametrize(("headers", "account"), [a[1:] for a in ACCOUNTS], ids=[a[0] for a in ACCOUNTS])
def test_the_account_of_the_callers_key(headers: list[tuple[str, str]], account: str) -> None:
    assert account_of(request(headers=headers), accounts().providers["alpha"]) == account


def test_a_provider_without_keys_has_no_account() -> None:
    assert account_of(request(), keyless().providers["own"]) == ""


# -- pinned, only the first


PINS = [
    ("by provider", "beta", ["beta/m"]),
    ("by route", "gamma/m", ["gamma/m"]),
    ("to nobody", "delta", []),
    ("to another model of the provider", "beta/n", []),
]


@pytest.mark.parametrize(("pinned", "left"), [p[1:] for p in PINS], ids=[p[0] for p in PINS])
def test_pinned(pinned: str, left: list[str]) -> None:
    built = config(providers("alpha", "beta", "gamma"), {"space": embedding(["alpha/m", "beta/m", "gamma/m"])})
    plan = plan_for(built, "space", pinned=pinned)
    assert routes(plan) == left
    assert set(skipped(plan).values()) == {f"the call is pinned to {pinned}"}


def test_a_pin_does_not_bring_back_what_is_switched_off() -> None:
    built = config(providers("alpha", "beta"), {"space": embedding([table("alpha/m", enabled=False), "beta/m"])})
    assert routes(plan_for(built, "space", pinned="alpha")) == []


FALLING_BACK = config(
    providers("alpha", "beta", "gamma"),
    {
        "fast": chat(["alpha/quick", table("beta/quick", priority=2)], fallback=["strong", "local"]),
        "strong": chat(["alpha/strong"]),
        "local": chat(["gamma/tiny"]),
        "other": chat(["gamma/other"]),
    },
)


def test_a_chat_plan_goes_on_into_its_fallback_families_in_their_order() -> None:
    plan = plan_for(FALLING_BACK, "fast", ASK_CHAT)
    assert routes(plan) == ["alpha/quick", "beta/quick", "alpha/strong", "gamma/tiny"]


def test_a_pinned_chat_call_does_not_fall_back_onto_another_model_of_the_provider() -> None:
    assert routes(plan_for(FALLING_BACK, "fast", ASK_CHAT, pinned="alpha")) == ["alpha/quick"]


def test_only_the_first_route_with_all_its_keys() -> None:
    keys = {"api_key": None, "api_keys": ["sk-1", "sk-2"]}
    alpha = {name: value for name, value in {"base_url": "https://a.example/v1", **keys}.items() if value}
    built = config({"alpha": alpha, **providers("beta")}, {"space": embedding(["alpha/m", "beta/m"])})
    plan = plan_for(built, "space", only_first=True)
    assert [(slot.route.config.route, slot.key) for slot in plan.slots] == [("alpha/m", 0), ("alpha/m", 1)]
    assert skipped(plan) == {"beta/m": "fallback is switched off for this call"}


def test_only_the_first_that_may_serve() -> None:
    built = config(providers("alpha", "beta"), {"space": embedding([table("alpha/m", enabled=False), "beta/m"])})
    assert routes(plan_for(built, "space", only_first=True)) == ["beta/m"]


# -- order


def test_the_order_is_the_families_own() -> None:
    written = [table("alpha/m", priority=2), table("beta/m", priority=1)]
    assert routes(plan_for(config(providers("alpha", "beta"), {"s": embedding(written)}), "s")) == ["beta/m", "alpha/m"]


def test_round_robin_turns_with_each_call() -> None:
    policy = {"order": "round_robin"}
    built = config(providers("alpha", "beta"), {"s": embedding(["alpha/m", "beta/m"], policy=policy)})
    family = states(built)["s"]
    firsts = [routes(make_plan(request(), [family], lambda: 0.0))[0] for _ in range(3)]
    assert firsts == ["alpha/m", "beta/m", "alpha/m"]


def test_fastest_goes_by_the_median_of_the_answers() -> None:
    policy = {"order": "fastest"}
    built = config(providers("alpha", "beta"), {"s": embedding(["alpha/m", "beta/m"], policy=policy)})
    family = states(built)["s"]
    family.routes[0].health.latencies.extend([9.0, 9.0, 0.1])
    family.routes[1].health.latencies.extend([1.0, 1.0, 99.0])
    assert routes(make_plan(request(), [family], lambda: 0.0)) == ["beta/m", "alpha/m"]


def test_least_busy_goes_by_what_is_in_flight() -> None:
    policy = {"order": "least_busy"}
    built = config(providers("alpha", "beta"), {"s": embedding(["alpha/m", "beta/m"], policy=policy)})
    family = states(built)["s"]
    family.routes[0].health.in_flight = 2
    assert routes(make_plan(request(), [family], lambda: 0.0)) == ["beta/m", "alpha/m"]


# -- lengths and limits

LENGTHS = [
    ("the native length needs nothing", {}, {}, None, (None, 8, None)),
    ("the native length in so many words", {}, {}, 8, (None, 8, None)),
    ("a shorter one by the parameter", {}, {}, 4, (4, 4, None)),
    ("a shorter one by cutting", {"matryoshka": True}, {"dimensions_param": ""}, 4, (None, 8, 4)),
    ("the parameter before cutting", {"matryoshka": True}, {}, 4, (4, 4, None)),
    ("a longer one is never made by cutting", {"matryoshka": True}, {"dimensions_param": ""}, 16, None),
    ("a shorter one is never made without leave", {}, {"dimensions_param": ""}, 4, None),
]


@pytest.mark.parametrize(
    ("family", "route", "asked", "expected"), [row[1:] for row in LENGTHS], ids=[row[0] for row in LENGTHS]
)
def test_lengths(
    family: Mapping[str, object],
    route: Mapping[str, object],
    asked: int | None,
    expected: tuple[int | None, int | None, int | None] | None,
) -> None:
    built = config(providers("alpha"), {"space": embedding([table("alpha/m", **route)], **family)})
    body: dict[str, object] = {"model": "space", "input": "x"}
    if asked is not None:
        body["dimensions"] = asked
    plan = plan_for(built, "space", request(body))
    if expected is None:
        assert skipped(plan) == {"alpha/m": f"it cannot give vectors of {asked} dimensions"}
        return
    fit = plan.slots[0].lengths
    assert fit is not None
    assert (fit.send, fit.expect, fit.truncate_to) == expected


def test_a_route_that_rejected_the_parameter_is_cut_locally_or_passed_by() -> None:
    for matryoshka, left in ((True, ["alpha/m"]), (False, [])):
        family = states(config(providers("alpha"), {"s": embedding(["alpha/m"], matryoshka=matryoshka)}))["s"]
        family.routes[0].health.dropped.add("dimensions")
        plan = make_plan(request({"model": "s", "input": "x", "dimensions": 4}), [family], lambda: 0.0)
        assert routes(plan) == left
        assert [slot.lengths and slot.lengths.truncate_to for slot in plan.slots] == [4] * len(left)


def test_the_first_length_seen_is_the_native_one_where_none_is_configured() -> None:
    family = states(config(providers("alpha"), {"s": {"kind": "embedding", "routes": ["alpha/m"]}}))["s"]
    before = make_plan(request(), [family], lambda: 0.0).slots[0].lengths
    assert before is not None
    assert before.expect is None
    family.locked = 12
    fit = make_plan(request(), [family], lambda: 0.0).slots[0].lengths
    assert fit is not None
    assert fit.expect == 12


@pytest.mark.parametrize(
    ("given_input", "planned"),
    [(["a", "b"], True), (["a", "b", "c"], False), ([1, 2, 3, 4], True), ([[1], [2], [3]], False), ("long", True)],
    ids=["as many texts", "too many texts", "one array of tokens", "too many arrays", "a string"],
)
def test_a_route_is_not_sent_more_inputs_than_it_takes(given_input: object, planned: bool) -> None:
    written = [table("alpha/m", max_inputs=2), "beta/m"]
    plan = plan_for(
        config(providers("alpha", "beta"), {"s": embedding(written)}),
        "s",
        request({"model": "s", "input": given_input}),
    )
    assert ("alpha/m" in routes(plan)) is planned
    if not planned:
        assert skipped(plan)["alpha/m"] == "3 inputs are more than the 2 that it takes in one request"


def test_a_chat_call_has_no_lengths_and_no_limit_on_inputs() -> None:
    plan = plan_for(FALLING_BACK, "fast", ASK_CHAT)
    assert [slot.lengths for slot in plan.slots] == [None] * 4
