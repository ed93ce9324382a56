"""Which requests are the same, and what is said of those that are not."""

from __future__ import annotations

import pytest

from shim.testing.matching import differences, distance, key_of
from shim.testing.recording import Asked

URL = "http://a.invalid/v1/chat/completions"
JSON = {"content-type": "application/json"}


def asked(
    body: str | bytes = "{}", url: str = URL, method: str = "POST", headers: dict[str, str] | None = None
) -> Asked:
    return Asked(method, url, JSON if headers is None else headers, body.encode() if isinstance(body, str) else body)


def form(boundary: str) -> Asked:
    body = f'--{boundary}\r\ncontent-disposition: form-data; name="model"\r\n\r\nw\r\n--{boundary}--\r\n'
    return asked(body, headers={"content-type": f"multipart/form-data; boundary={boundary}"})


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        pytest.param(asked('{"a":1,"b":2}'), asked('{ "b" : 2, "a" : 1 }'), True, id="order and whitespace"),
        pytest.param(asked('{"a":1}'), asked('{"a":1.0}'), True, id="an integral float"),
        pytest.param(asked('{"a":0.1}'), asked('{"a":1e-1}'), True, id="an exponent"),
        pytest.param(asked('{"a":"é"}'), asked('{"a":"\\u00e9"}'), True, id="an escape"),
        pytest.param(asked('{"a":[1,2]}'), asked('{"a":[2,1]}'), False, id="the order of a list"),
        pytest.param(asked('{"a":1}'), asked('{"a":true}'), False, id="one is not true"),
        pytest.param(asked('{"a":1}'), asked('{"a":"1"}'), False, id="one is not a text"),
        pytest.param(asked('{"a":null}'), asked("{}"), False, id="null is not absent"),
        pytest.param(asked('{"a":1e999}'), asked('{"a":2e999}'), True, id="beyond any number"),
        pytest.param(asked("{"), asked("{ "), False, id="broken JSON is compared by its bytes"),
        pytest.param(asked(b"\xff"), asked(b"\xff"), True, id="bytes"),
        pytest.param(asked(""), asked(""), True, id="no body"),
        pytest.param(form("abc123"), form("zzz"), True, id="the boundary of a form"),
        pytest.param(asked(headers={"authorization": "Bearer a"}), asked(headers=JSON), True, id="the key"),
        pytest.param(asked(), asked(url="http://b.invalid/v1/chat/completions"), False, id="another host"),
        pytest.param(asked(), asked(url="http://A.invalid/v1/chat/completions"), True, id="the case of a host"),
        pytest.param(asked(), asked(url="https://a.invalid/v1/chat/completions"), False, id="another scheme"),
        pytest.param(asked(url="http://a.invalid:1/"), asked(url="http://a.invalid:2/"), False, id="another port"),
        pytest.param(asked(url=URL + "?b=2&a=1"), asked(url=URL + "?a=1&b=2"), True, id="the order of a query"),
        pytest.param(asked(url=URL + "?a=1"), asked(), False, id="a query"),
        pytest.param(asked(url="http://a.invalid"), asked(url="http://a.invalid/"), True, id="an empty path"),
        pytest.param(asked(method="GET"), asked(method="post"), False, id="another method"),
        pytest.param(asked(method="POST"), asked(method="post"), True, id="the case of a method"),
    ],
)
def test_what_is_the_same(left: Asked, right: Asked, same: bool) -> None:
    assert (key_of(left) == key_of(right)) is same
    assert (differences(left, right) == []) is same


@pytest.mark.parametrize(
    ("now", "then", "expected"),
    [
        ('{"a":{"b":[1,2]}}', '{"a":{"b":[1,3]}}', ["body.a.b[1]: 2 now, 3 recorded"]),
        ('{"a":1}', "{}", ["body.a: 1 now, absent recorded"]),
        ("{}", '{"a":1}', ["body.a: absent now, 1 recorded"]),
        ("[1]", "[1,2]", ["body[1]: absent now, 2 recorded"]),
        ('{"a":"' + "x" * 200 + '"}', '{"a":"y"}', ['body.a: "' + "x" * 59 + '… now, "y" recorded']),
        ("{", "{}", ["body: 1 bytes now, 2 bytes recorded"]),
        (
            "[1,2,3,4,5,6,7,8]",
            "[0,0,0,0,0,0,0,0]",
            [*(f"body[{n}]: {n + 1} now, 0 recorded" for n in range(6)), "… and 2 more places of the body"],
        ),
    ],
    ids=["deep", "new", "gone", "shorter", "long", "no JSON", "many"],
)
def test_what_differs(now: str, then: str, expected: list[str]) -> None:
    assert differences(asked(now), asked(then)) == expected


def test_the_nearest_is_the_one_with_the_fewest_differences() -> None:
    wanted = asked('{"model":"m","input":"a text"}')
    others = [
        asked('{"model":"m","input":"another, longer text"}'),
        asked('{"model":"m","input":"a test"}'),
        asked('{"model":"n","input":"a test"}'),
        asked('{"model":"m","input":"a text"}', url="http://b.invalid/v1/chat/completions"),
    ]
    near = sorted(others, key=lambda one: distance(wanted, one))
    assert [others.index(one) for one in near] == [1, 0, 2, 3]
