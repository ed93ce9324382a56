"""`shim check` against real servers on loopback: each way a route can be bad, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from shim.local.server import Handler, failing, hanging, serve
from tests.cli.places import MODEL, backwards, chats, insists_on, model, run

pytest.importorskip("numpy", reason="needs the local extra")
GOOD, BAD = "good-key-4711", "bad-key-0815"
EMBEDDING = 'kind = "embedding"\ndimensions = 256'


class Town:
    """Servers, and the configuration that names them."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        self._stack = stack
        self._providers: list[str] = []
        self._families: list[str] = []
        self.path = path

    def provider(self, name: str, handler: Handler | None, more: str = "") -> None:
        url = "http://127.0.0.1:9/v1" if handler is None else self._stack.enter_context(serve(handler)).base_url
        self._providers.append(f'[providers.{name}]\nbase_url = "{url}"\n{more}\n')

    def family(self, name: str, *routes: str, more: str = EMBEDDING) -> None:
        self._families.append(f"[families.{name}]\n{more}\nroutes = {json.dumps(routes)}\n")

    def check(self, *arguments: str) -> tuple[int, str]:
        self.path.write_text("".join(self._providers + self._families))
        code, out, err = run("check", "--config", str(self.path), *arguments)
        assert err == ""
        assert GOOD not in out
        assert BAD not in out
        return code, out

    def lines(self, *arguments: str) -> tuple[int, list[dict[str, object]]]:
        code, out = self.check("--json", *arguments)
        return code, json.loads(out)["routes"]


@pytest.fixture
def town(place: Path) -> Iterator[Town]:
    with ExitStack() as stack:
        yield Town(stack, place / "town.toml")


def test_all_good_is_exit_code_0_with_dimension_and_space(town: Town) -> None:
    town.provider("one", model)
    town.provider("two", insists_on(GOOD), f'api_key = "{GOOD}"')
    town.family("words", f"one/{MODEL}", f"two/{MODEL}")
    code, lines = town.lines()
    assert code == 0
    assert [line["dimensions"] for line in lines] == [256, 256]
    assert [line["space"] for line in lines] == ["reference", "same"]
    assert lines[1]["noise"] == pytest.approx(0.0, abs=0.01)
    assert [line["is_key_accepted"] for line in lines] == [None, True]


def test_a_second_check_finds_the_kept_space_and_spends_less(town: Town) -> None:
    town.provider("one", model)
    town.provider("two", model)
    town.family("words", f"one/{MODEL}", f"two/{MODEL}")
    _, first = town.lines()
    _, second = town.lines()
    assert [line["space"] for line in second] == [line["space"] for line in first]
    assert int(str(second[0]["tokens"])) < int(str(first[0]["tokens"])) / 10
    _, out, _ = run("status", "--config", str(town.path))
    assert "words-native-any" in out
    assert "set it" in out


def test_a_route_in_another_vector_space_is_refused_with_the_figure(town: Town) -> None:
    town.provider("one", model)
    town.provider("other", backwards)
    town.family("words", f"one/{MODEL}", f"other/{MODEL}")
    code, lines = town.lines()
    assert code == 1
    assert [line["is_good"] for line in lines] == [True, False]
    assert lines[1]["space"] == "refused"
    assert "noise over separation" in str(lines[1]["words"])


def test_every_key_is_tried_and_a_refused_one_is_named_but_not_shown(town: Town) -> None:
    town.provider("keyed", insists_on(GOOD), f'api_keys = ["{GOOD}", "{BAD}"]')
    town.family("words", f"keyed/{MODEL}")
    code, lines = town.lines()
    assert code == 1
    assert [(line["key"], line["is_key_accepted"]) for line in lines] == [("key1", True), ("key2", False)]
    assert "401" in str(lines[1]["words"])


@pytest.mark.parametrize(
    ("handler", "is_reachable", "word"),
    [(failing(model, 99, 500), True, "500"), (hanging(model, 99, 30.0), False, "timeout"), (None, False, "refused")],
    ids=["answers 500", "hangs", "nobody listens"],
)
def test_a_sick_route_is_told_and_the_others_are_still_asked(
    town: Town, handler: Handler | None, is_reachable: bool, word: str
) -> None:
    town.provider("sick", handler)
    town.provider("well", model)
    town.family("words", f"sick/{MODEL}", f"well/{MODEL}", more=f"{EMBEDDING}\npolicy = {{ space_check = false }}")
    code, lines = town.lines("--timeout", "1.5")
    assert code == 1
    assert [line["is_good"] for line in lines] == [False, True]
    assert lines[0]["is_reachable"] is is_reachable
    assert word in str(lines[0]["words"])
    assert lines[1]["space"] == "check is off"


def test_what_befell_one_route_does_not_keep_another_of_the_same_key_from_being_asked(town: Town) -> None:
    town.provider("keyed", insists_on(GOOD), f'api_key = "{BAD}"')
    town.family("words", f"keyed/{MODEL}", f"keyed/{MODEL}-2")
    code, lines = town.lines()
    assert code == 1
    assert ["401" in str(line["words"]) for line in lines] == [True, True]


def test_what_is_off_is_left_out_and_what_has_no_key_is_bad(town: Town) -> None:
    town.provider("off", model, "enabled = false")
    town.provider("nokey", model, 'api_key = "${NO_SUCH_VARIABLE}"')
    town.family("words", f"off/{MODEL}", f"nokey/{MODEL}")
    code, out = town.check()
    assert code == 1
    assert "no key: set NO_SUCH_VARIABLE" in out
    assert "1 checked, 1 not good, 1 left out" in out


def test_chat_costs_a_token_and_can_be_left_out(town: Town) -> None:
    """The newer name of the limit is tried where the older is refused."""
    town.provider("talk", chats)
    town.family("fast", "talk/gpt", more='kind = "chat"')
    code, lines = town.lines()
    assert (code, lines[0]["is_good"], lines[0]["tokens"]) == (0, True, 4)
    code, lines = town.lines("--no-chat")
    assert (code, lines[0]["is_good"]) == (0, None)


def test_the_table_is_plain_and_fits_80_columns(town: Town) -> None:
    town.provider("keyed", insists_on(GOOD), f'api_keys = ["{GOOD}", "{BAD}"]')
    town.family("words", f"keyed/{MODEL}")
    _, out = town.check()
    assert "key2 REFUSED" in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_configuration_without_families_has_nothing_to_check(place: Path) -> None:
    (place / "shim.toml").write_text("[providers.local]\n")
    code, _, err = run("check")
    assert code == 2
    assert "no family" in err
