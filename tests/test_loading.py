"""Where a configuration is found, how variables are read, and which keys come out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from shim._config.variables import escape, resolve
from shim.config import Config, ConfigError, ProviderConfig
from shim.loading import discover, load

LAB = {"base_url": "http://10.0.0.5:8000/v1"}


def provider(settings: dict[str, Any], name: str = "lab", **environ: str) -> ProviderConfig:
    return load({"providers": {name: settings}}, environ=environ).providers[name]


def secrets(of: ProviderConfig) -> list[tuple[str, str, str]]:
    return [(key.alias, key.secret.get_secret_value(), key.account) for key in of.keys]


def refusal(mapping: dict[str, Any], **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(mapping, environ=environ)
    return str(caught.value)


# -- variables


@pytest.mark.parametrize(
    ("text", "filled", "missing"),
    [
        ("plain", "plain", ()),
        ("${A}", "1", ()),
        ("x${A}y${B}z", "x1y2z", ()),
        ("${NO}", "", ("NO",)),
        ("${NO}${NO}", "", ("NO",)),
        ("${NO:-d}", "d", ()),
        ("${NO:-}", "", ()),
        ("${EMPTY}", "", ()),
        ("${EMPTY:-d}", "d", ()),
        ("${A:-d}", "1", ()),
        ("$${A}", "${A}", ()),
        ("$${A}${A}", "${A}1", ()),
        ("$A $ {A}", "$A $ {A}", ()),
        ("${NESTED}", "${A}", ()),
    ],
)
def test_how_variables_are_filled_in(text: str, filled: str, missing: tuple[str, ...]) -> None:
    """As a shell reads them; what a variable holds is not read again."""
    found = resolve(text, {"A": "1", "B": "2", "EMPTY": "", "NESTED": "${A}"})
    assert (found.text, found.missing, found.is_malformed) == (filled, missing, False)


@pytest.mark.parametrize("text", ["${", "${}", "${1A}", "${A B}", "a${A"])
def test_a_dollar_brace_that_names_nothing_is_malformed(text: str) -> None:
    assert resolve(text, {"A": "1"}).is_malformed


@given(st.text())
def test_escaped_text_comes_back_as_it_was(text: str) -> None:
    found = resolve(escape(text), {})
    assert (found.text, found.missing) == (text, ())


def test_variables_are_read_anywhere_in_strings() -> None:
    config = load(
        {
            "providers": {"lab": {"base_url": "http://${HOST}:${PORT}/v1", "headers": {"X-Team": "${TEAM:-nlp}"}}},
            "families": {"f": {"kind": "${KIND}", "routes": ["lab/${MODEL}"], "policy": {"deadline": "${LIMIT}"}}},
            "policy": {"max_retries": "${RETRIES}"},
        },
        environ={"HOST": "10.0.0.5", "PORT": "8000", "KIND": "chat", "MODEL": "m", "LIMIT": "9", "RETRIES": "4"},
    )
    assert config.providers["lab"].base_url == "http://10.0.0.5:8000/v1"
    assert config.providers["lab"].headers == {"X-Team": "nlp"}
    assert config.families["f"].routes[0].model == "m"
    assert (config.families["f"].policy.deadline, config.policy.max_retries) == (9.0, 4)


NOT_SET = "environment variable NO is not set; set it or write ${NO:-default}"
MALFORMED = "has a '${' that names no variable; write $${ for the characters themselves"


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"providers": {"lab": {"base_url": "${NO}"}}}, f"providers.lab.base_url: {NOT_SET}"),
        ({"providers": {"lab": {**LAB, "headers": {"X-A": "${NO}"}}}}, f"providers.lab.headers.X-A: {NOT_SET}"),
        ({"policy": {"mode": "${NO:-race}", "order": "${NO:-x}"}},
         "policy.order: unknown value '${NO:-x}' (allowed: priority, round_robin, weighted, fastest, least_busy)"),
        ({"providers": {"lab": {**LAB, "api_key": "${"}}}, f"providers.lab.api_key: {MALFORMED}"),
        ({"providers": {"lab": {"base_url": "http://10.0.0.5/${"}}}, f"providers.lab.base_url: {MALFORMED}"),
        (
            {"providers": {"cloudflare": {"api_key": "k"}}},
            "providers.cloudflare.base_url: environment variable CLOUDFLARE_ACCOUNT_ID is not set; "
            "set it or write ${CLOUDFLARE_ACCOUNT_ID:-default}",
        ),
    ],
    ids=["base URL", "header", "value of a variable is not shown", "malformed key", "malformed URL", "preset's own"],
)  # fmt: skip
def test_a_missing_variable_is_named_with_its_path(mapping: dict[str, Any], message: str) -> None:
    assert refusal(mapping) == message


def test_what_a_variable_holds_is_never_shown() -> None:
    """It may be a key that someone put in the wrong place."""
    message = refusal({"policy": {"deadline": "${K}"}}, K="sk-secret")
    assert message == "policy.deadline: must be a number, is '${K}'"


def test_a_disabled_provider_may_lack_its_variables() -> None:
    config = load(
        {"providers": {"cloudflare": {"enabled": False}, "lab": {"base_url": "${NO}", "enabled": False}}}, environ={}
    )
    assert not any(one.is_usable for one in config.providers.values())


# -- keys


def test_a_key_is_known_by_its_variable_or_its_place() -> None:
    lab = provider(
        {**LAB, "api_keys": ["${A}", "literal", {"key": "${B}", "account": "team-b"}, "pre-${A}"]}, A="a", B="b"
    )
    assert secrets(lab) == [
        ("A", "a", "A"),
        ("key2", "literal", "key2"),
        ("B", "b", "team-b"),
        ("key4", "pre-a", "key4"),
    ]
    assert (lab.needs_key, lab.missing) == (True, "")


def test_a_secret_of_pydantic_is_a_key_too() -> None:
    assert secrets(provider({**LAB, "api_key": SecretStr("k")})) == [("key1", "k", "key1")]


def test_a_key_without_its_variable_is_left_out() -> None:
    """The provider works on with the others."""
    lab = provider({**LAB, "api_keys": ["${NO}", "${A}"]}, A="a")
    assert (secrets(lab), lab.missing, lab.is_usable) == ([("A", "a", "A")], "", True)


def test_a_provider_without_any_key_is_kept_and_names_what_is_missing() -> None:
    lab = provider({**LAB, "api_keys": ["${NO}", "${NEITHER}"]})
    assert (lab.keys, lab.missing, lab.is_usable) == ((), "NO, NEITHER", False)


def test_a_presets_variable_is_read_without_being_named() -> None:
    assert secrets(provider({}, "openai", OPENAI_API_KEY="k")) == [("OPENAI_API_KEY", "k", "OPENAI_API_KEY")]
    assert secrets(provider({"preset": "openai"}, "mine", OPENAI_API_KEY="k")) == [
        ("OPENAI_API_KEY", "k", "OPENAI_API_KEY")
    ]


def test_a_preset_without_its_variable_names_it() -> None:
    assert provider({}, "openai").missing == "OPENAI_API_KEY"
    assert provider({}, "gemini").missing == "GEMINI_API_KEY or GOOGLE_API_KEY"
    assert secrets(provider({}, "gemini", GOOGLE_API_KEY="k")) == [("GOOGLE_API_KEY", "k", "GOOGLE_API_KEY")]


def test_the_openai_key_goes_to_no_other_provider() -> None:
    """Not to a custom one, not to another preset, and not to another host under the preset's name."""
    assert provider(LAB, OPENAI_API_KEY="k").keys == ()
    assert provider({}, "openrouter", OPENAI_API_KEY="k").keys == ()
    message = refusal({"providers": {"openai": {"base_url": "https://proxy.example.com/v1"}}}, OPENAI_API_KEY="k")
    assert message == (
        "providers.openai.api_key: is missing; base_url is not openai's own, so OPENAI_API_KEY is not sent there "
        'unasked: write api_key = "${OPENAI_API_KEY}", or auth = "none"'
    )


def test_the_presets_variable_can_be_sent_elsewhere_in_so_many_words() -> None:
    proxy = {"base_url": "https://proxy.example.com/v1", "api_key": "${OPENAI_API_KEY}"}
    assert secrets(provider(proxy, "openai", OPENAI_API_KEY="k")) == [("OPENAI_API_KEY", "k", "OPENAI_API_KEY")]
    for keyless in ({"auth": "none"}, {"needs_key": False}):
        elsewhere = provider({"base_url": "http://localhost:1/v1", **keyless}, "openai", OPENAI_API_KEY="k")
        assert (elsewhere.keys, elsewhere.is_usable) == ((), True)


@pytest.mark.parametrize(
    ("settings", "needs_key"),
    [(LAB, False), ({**LAB, "api_key": "k"}, True), ({**LAB, "needs_key": True}, True), ({"preset": "ollama"}, False)],
)
def test_which_providers_need_a_key(settings: dict[str, Any], needs_key: bool) -> None:
    assert provider(settings).needs_key is needs_key


WAYS_TO_BE_BAD = [
    ("", "is empty; set it or remove it"),
    ("  ", "is empty; set it or remove it"),
    ("k\n", "begins or ends with white space; remove it"),
    (" k", "begins or ends with white space; remove it"),
    ("$MY_KEY", "is the name of a variable, not its value; write ${MY_KEY}"),
    ("os.environ/MY_KEY", "is the name of a variable, not its value; write ${MY_KEY}"),
    ("Bearer k", "begins with 'Bearer'; write the key alone"),
    ("'k'", "stands in quotes of its own; remove them"),
    ("sec\x00ret", "holds control characters; copy it again"),
    ("sec\nret", "holds control characters; copy it again"),
    ("secret…", "holds characters outside latin-1, which no header can carry; copy it again"),
]


@pytest.mark.parametrize(("key", "wrong"), WAYS_TO_BE_BAD, ids=[repr(row[0]) for row in WAYS_TO_BE_BAD])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str, wrong: str) -> None:
    """Path and variable are named, the key is not."""
    openai: dict[str, Any] = {"providers": {"openai": {}}}
    listed = {"providers": {"lab": {**LAB, "api_keys": ["ok", "${K}"]}}}
    literal = {"providers": {"lab": {**LAB, "api_key": key}}}
    assert refusal(openai, OPENAI_API_KEY=key) == f"providers.openai.api_key: the key from OPENAI_API_KEY {wrong}"
    assert refusal(listed, K=key) == f"providers.lab.api_keys[1]: the key from K {wrong}"
    assert refusal(literal) == f"providers.lab.api_key: the key '***' {wrong}"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"api_key": 5}, "providers.lab.api_key: must be a string or a table {key, account}, is '***'"),
        ({"api_keys": "k"}, "providers.lab.api_keys: must be a list of at least one key"),
        ({"api_keys": []}, "providers.lab.api_keys: must be a list of at least one key"),
        ({"api_key": "k", "api_keys": ["k"]}, "providers.lab.api_keys: api_key is written too; write one of the two"),
        ({"api_keys": ["${A}", "${A}"]}, "providers.lab.api_keys[1]: key A is written twice; remove one"),
        (
            {"api_key": {"key": "k", "acount": "x"}},
            "providers.lab.api_key.acount: unknown key 'acount'; did you mean 'account'?",
        ),
        ({"api_key": {"key": "k", "account": 3}}, "providers.lab.api_key.account: must be a string that is not empty"),
        ({"api_key": {"account": "x"}}, "providers.lab.api_key: must be a string or a table {key, account}, is '***'"),
    ],
)  # fmt: skip
def test_keys_of_another_shape_are_refused(settings: dict[str, Any], message: str) -> None:
    assert refusal({"providers": {"lab": {**LAB, **settings}}}, A="a") == message


def test_the_written_mapping_is_kept_unresolved() -> None:
    """A pickle of it carries the name of a variable, not the key; and a later change of it changes nothing."""
    mapping: dict[str, Any] = {"providers": {"lab": {**LAB, "api_key": "${K}"}}}
    config = load(mapping, environ={"K": "sk-secret"})
    mapping["providers"]["lab"]["api_key"] = "changed"
    assert config.raw == {"providers": {"lab": {**LAB, "api_key": "${K}"}}}
    assert load(config.raw, environ={"K": "other"}).providers["lab"].keys[0].secret.get_secret_value() == "other"


# -- files


def chat_file(path: Path, family: str, prefix: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'[{prefix}providers.lab]\nbase_url = "http://10.0.0.5/v1"\n'
        f'[{prefix}families.{family}]\nkind = "chat"\nroutes = ["lab/m"]\n',
        encoding="utf-8",
    )


def found(config: Config | None) -> list[str]:
    return [] if config is None else list(config.families)


def test_discovery_takes_the_first_that_there_is(tmp_path: Path) -> None:
    """$SHIM_CONFIG, ./shim.toml, [tool.shim] in ./pyproject.toml, $XDG_CONFIG_HOME, ~/.config, in this order."""
    cwd, home, xdg = tmp_path / "cwd", tmp_path / "home", tmp_path / "xdg"
    cwd.mkdir()
    environ: dict[str, str] = {}
    assert discover(cwd, environ, home) is None
    chat_file(home / ".config" / "shim" / "config.toml", "at-home")
    assert found(discover(cwd, environ, home)) == ["at-home"]
    environ["XDG_CONFIG_HOME"] = str(xdg)
    assert found(discover(cwd, environ, home)) == ["at-home"]
    chat_file(xdg / "shim" / "config.toml", "xdg")
    assert found(discover(cwd, environ, home)) == ["xdg"]
    chat_file(cwd / "pyproject.toml", "project", "tool.shim.")
    assert found(discover(cwd, environ, home)) == ["project"]
    chat_file(cwd / "shim.toml", "here")
    assert found(discover(cwd, environ, home)) == ["here"]
    chat_file(cwd / "sub" / "other.toml", "named")
    environ["SHIM_CONFIG"] = "sub/other.toml"
    config = discover(cwd, environ, home)
    assert found(config) == ["named"]
    assert config is not None
    assert config.source == str(cwd / "sub" / "other.toml")


@pytest.mark.parametrize(
    "text", ["[project]\nname = 'x'\n", "[broken", "[tool.other]\nname = 'shim'\n", "shim [broken"]
)
def test_somebody_elses_pyproject_is_passed_by(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    assert discover(tmp_path, {}, tmp_path / "home") is None


def test_a_broken_pyproject_with_our_table_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.shim]\ndefault_chat = \n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"pyproject\.toml: is not TOML: Invalid value \(at line 2, column 16\)"):
        discover(tmp_path, {}, tmp_path)


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        discover(tmp_path, {"SHIM_CONFIG": "gone.toml"}, tmp_path)
    assert str(caught.value) == f"{tmp_path / 'gone.toml'}: cannot be read (No such file or directory)"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", b"x =", "is not TOML: Invalid value (at end of document)"),
        ("a.toml", b"\xff\xfe", "is not UTF-8 text"),
        ("a.json", b"{}", "unknown kind of file; allowed: .toml, and .yaml or .yml as LiteLLM writes them"),
        ("pyproject.toml", b"[project]", "has no table [tool.shim]"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / name, environ={})
    assert str(caught.value) == f"{tmp_path / name}: {message}"


def test_problems_of_a_file_name_it(tmp_path: Path) -> None:
    (tmp_path / "shim.toml").write_text("[policy]\ndeadline = 0\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path / "shim.toml"), environ={})
    assert str(caught.value) == f"in {tmp_path / 'shim.toml'}:\npolicy.deadline: must be above 0, is 0"


def test_the_example_of_the_design_builds(tmp_path: Path) -> None:
    """Every key that the documentation shows, in TOML."""
    (tmp_path / "shim.toml").write_text(EXAMPLE, encoding="utf-8")
    environ = {"OPENAI_API_KEY": "o", "OR_KEY_A": "a", "OR_KEY_B": "b", "LAB_KEY": "l", "GROQ_API_KEY": "g"}
    config = load(tmp_path / "shim.toml", environ=environ)
    assert [key.alias for key in config.providers["openrouter"].keys] == ["OR_KEY_A", "OR_KEY_B"]
    assert config.providers["lab"].headers == {"X-Team": "nlp"}
    assert [route.route for route in config.families["bge-m3"].routes] == ["openrouter/baai/bge-m3", "lab/bge-m3"]
    assert config.families["bge-m3"].policy.attempt_timeout == 20.0
    assert config.families["fast"].fallback == ("slow",)
    assert (config.default_chat, config.default_embedding) == ("fast", "bge-m3")


EXAMPLE = """
default_chat = "fast"
default_embedding = "bge-m3"
[providers.openai]
[providers.groq]
[providers.openrouter]
api_keys = ["${OR_KEY_A}", "${OR_KEY_B}"]
[providers.lab]
base_url = "http://10.0.0.5:8000/v1"
api_key = "${LAB_KEY}"
headers = { "X-Team" = "nlp" }
query = { trace = 1 }
enabled = true
[families.bge-m3]
kind = "embedding"
dimensions = 1024
aliases = ["BAAI/bge-m3"]
routes = [
  { provider = "openrouter", model = "baai/bge-m3", priority = 1 },
  { provider = "lab", model = "bge-m3", priority = 2, weight = 1, enabled = true, drop_params = [], params = {} },
]
[families.bge-m3.policy]
attempt_timeout = 20
[families.fast]
kind = "chat"
routes = ["openai/gpt-4o-mini", "groq/llama-3.1-8b-instant"]
fallback = ["slow"]
[families.slow]
kind = "chat"
routes = ["lab/llama"]
[policy]
mode = "sequential"
order = "priority"
attempt_timeout = 30.0
first_chunk_timeout = 30.0
idle_timeout = 60.0
deadline = 600.0
max_retries = 2
hedge_delay = "p95"
race_width = 2
when_exhausted = "fail"
space_check = true
[policy.breaker]
failures = 3
failure_rate = 0.5
window = 60.0
window_min = 10
cooldown = 10.0
max_cooldown = 300.0
probes = 1
"""


def test_importing_the_schema_brings_nothing_heavy() -> None:
    """`import shim` is paid for by every script that swaps the import."""
    heavy = ["numpy", "httpx", "httpx2", "openai", "yaml", "shim._config.litellm"]
    code = f"import sys, shim.config, shim.loading; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("$NOPE_KEY", "NOPE_KEY"),
        ("env:NOPE_KEY", "NOPE_KEY"),
        ("env://NOPE_KEY", "NOPE_KEY"),
        ("$env:NOPE_KEY", "NOPE_KEY"),
        ("$(NOPE_KEY)", "NOPE_KEY"),
        ("%NOPE_KEY%", "NOPE_KEY"),
        ("os.environ/NOPE_KEY", "NOPE_KEY"),
        ("os.environ['NOPE_KEY']", "NOPE_KEY"),
        ('os.getenv("NOPE_KEY")', "NOPE_KEY"),
        ("process.env.NOPE_KEY", "NOPE_KEY"),
        ("{NOPE_KEY}", "NOPE_KEY"),
        ("{{ NOPE_KEY }}", "NOPE_KEY"),
        ("{{env.NOPE_KEY}}", "NOPE_KEY"),
        ("Bearer $NOPE_KEY", "NOPE_KEY"),
        ("$ecret9", "NAME"),  # which may be one
    ],
)
def test_a_variable_as_other_tools_write_it_is_refused(written: str, meant: str) -> None:
    wrong = f"'***' is the name of a variable, not its value; write ${{{meant}}}"
    for settings, where in (
        ({"api_key": written}, "api_key"),
        ({"api_keys": ["ok", written]}, "api_keys[1]"),
        ({"headers": {"X-Key": written}}, "headers.X-Key"),
        ({"query": {"key": written}}, "query.key"),
    ):
        what = "the key " if where.startswith("api_key") else ""
        assert refusal({"providers": {"lab": {**LAB, **settings}}}) == f"providers.lab.{where}: {what}{wrong}"


@pytest.mark.parametrize("key", ["sk-$NOPE", "env", "100%", "a:b", "sk-or-v1-0123456789", "{", "%41b-c"])
def test_a_key_with_odd_characters_is_a_key(key: str) -> None:
    assert secrets(provider({**LAB, "api_key": key})) == [("key1", key, "key1")]


@pytest.mark.parametrize("name", ["shim.toml", "pyproject.toml"])
def test_a_byte_order_mark_is_no_syntax_error(tmp_path: Path, name: str) -> None:
    head = "[tool.shim.providers.lab]" if name == "pyproject.toml" else "[providers.lab]"
    (tmp_path / name).write_text(f'{head}\nbase_url = "{LAB["base_url"]}"\n', encoding="utf-8-sig")
    assert list(load(tmp_path / name).providers) == ["lab"]
