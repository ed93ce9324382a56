"""A first route that fails at once, hangs, or is known to be out: time, and requests that reach it.

The gap after a 500 is measured by the server (from the 500 being written to the next route's request being there,
sockets and both processes included) and in this process (from the 500 being handed over to the next request).
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import httpx2
import openai

import shim
from benchmarks import canned, measure
from benchmarks.measure import Block, Row
from benchmarks.overhead import MESSAGES
from benchmarks.server import Server, chat_body, serving

GROUP = "Failover"
LIMIT = 0.2
NEVER_OPENS = {"failures": 1_000_000, "window_min": 1_000_000}


def two_routes(root: str, first: str, policy: dict[str, object]) -> dict[str, object]:
    """A family whose first route answers as `first` says and whose second is good."""
    names = (first, "good")
    return {
        "providers": {name: {"base_url": f"{root}/{name}/v1", "api_key": canned.KEY} for name in names},
        "families": {"ours": {"kind": "chat", "routes": [f"{first}/m", "good/m"]}},
        "policy": policy,
    }


def routed(router: dict[str, object], **more: Any) -> Any:
    """Our client with a router of two routes."""
    return shim.OpenAI(api_key=canned.KEY, base_url="http://127.0.0.1:9/v1", router=router, **more)


def _naive(server: Server, first: str, **more: Any) -> tuple[Any, Any]:
    """What is written without a router: two official clients and a `try`."""
    made = [
        openai.OpenAI(api_key=canned.KEY, base_url=server.base(how), max_retries=0, **more) for how in (first, "good")
    ]
    return made[0], made[1]


def _fall(clients: tuple[Any, Any]) -> None:
    try:
        clients[0].chat.completions.create(model="m", messages=MESSAGES)
    except openai.APIError:
        clients[1].chat.completions.create(model="m", messages=MESSAGES)


def _fall_often(clients: tuple[Any, Any], calls: int) -> None:
    for _ in range(calls):
        _fall(clients)


class _Stamped(httpx2.BaseTransport):
    """A 500 for the first provider, an answer for the second; notes the time between."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self.failed_at = 0.0
        self.body = chat_body()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path.startswith("/five"):
            answer = httpx2.Response(500, headers=canned.JSON, stream=httpx2.ByteStream(b'{"error":{"message":"no"}}'))
            self.failed_at = time.perf_counter()
            return answer
        self.gaps.append(time.perf_counter() - self.failed_at)
        return httpx2.Response(200, headers=canned.JSON, stream=httpx2.ByteStream(self.body))


def _gap(what: str, bare: list[float], ours: list[float], limit: float | None) -> Row:
    """Milliseconds from the 500 to the next request."""
    low, middle = min(ours) * 1e3, statistics.median(ours) * 1e3
    shown = measure.amounts(bare, 1e3, "ms") if bare else ""
    kept = None if limit is None else measure.judged((low, middle), limit)
    target = "" if limit is None else f"below {limit:g} ms"
    note = f"wall; nine of ten below {sorted(ours)[int(len(ours) * 0.9)] * 1e3:.2f} ms"
    return Row(GROUP, what, shown, measure.amounts(ours, 1e3, "ms"), f"{low:.2f} / {middle:.2f} ms", target, kept, note)


def after_500(server: Server, rounds: int, calls: int) -> list[Row]:
    """CPU of a call that falls over, and the gap between the routes."""
    naive = _naive(server, "five")
    client = routed(two_routes(server.root, "five", {"breaker": NEVER_OPENS}))
    gaps: dict[str, list[float]] = {"bare": [], "ours": []}

    def block(name: str) -> Block:
        def run() -> int:
            before = len(server.gaps())
            for _ in range(calls):
                if name == "bare":
                    _fall(naive)
                else:
                    client.chat.completions.create(model="ours", messages=MESSAGES)
            gaps[name] += server.gaps()[before:]
            return calls

        return run

    with naive[0], naive[1], client:
        found = measure.in_turns({name: block(name) for name in gaps}, rounds)
    what = "CPU of a call over a 500, against `try`/`except` over two clients"
    return [
        measure.ratio(GROUP, what, found["bare"], found["ours"], None, (1e3, "ms")),
        _gap("500 to the next request, seen by the server", gaps["bare"], gaps["ours"], 0.5),
    ]


def after_500_canned(calls: int) -> Row:
    """The gap between the routes without sockets."""
    transport = _Stamped()
    http = openai.DefaultHttpxClient(transport=transport)
    with routed(two_routes("http://127.0.0.1:9", "five", {"breaker": NEVER_OPENS}), http_client=http) as client:
        for _ in range(calls):
            client.chat.completions.create(model="ours", messages=MESSAGES)
    return _gap("500 to the next request, no socket", [], transport.gaps[len(transport.gaps) // 10 :], 0.5)


def hanging(server: Server, calls: int, naive_calls: int) -> Row:
    """Calls on a family whose first route never answers."""
    naive = _naive(server, "hang", timeout=LIMIT)
    client = routed(two_routes(server.root, "hang", {"attempt_timeout": LIMIT}))

    def all_of_them() -> None:
        for _ in range(calls):
            client.chat.completions.create(model="ours", messages=MESSAGES)

    with naive[0], naive[1], client:
        wasted = server.asked_during("hang", lambda: _fall_often(naive, naive_calls))
        begun_at = time.perf_counter()
        asked = server.asked_during("hang", all_of_them)
        took = time.perf_counter() - begun_at
    return Row(
        GROUP,
        f"{calls} calls, first route hangs, limit {LIMIT} s",
        f"{wasted} hangs in {naive_calls} calls",
        f"{asked} hangs in {calls} calls",
        f"{asked} hangs, {took:.2f} s for all",
        "at most 4 hangs",
        measure.judged([asked], 4),
        f"{took / LIMIT:.1f} times the limit, the calls' own work included",
    )


def open_breaker(server: Server, calls: int) -> list[Row]:
    """A route whose breaker is open is not asked, and costs no time."""
    client = routed(two_routes(server.root, "five", {"breaker": {"failures": 3, "cooldown": 600}}))
    single, plain = canned.clients(server.base("good"), canned.one_route(server.base("good")), is_async=False)

    def block(one: Any, model: str) -> Block:
        def run() -> int:
            for _ in range(calls):
                one.chat.completions.create(model=model, messages=MESSAGES)
            return calls

        return run

    with client, single, plain:
        block(client, "ours")()
        asked = server.asked_during("five", block(client, "ours"))
        found = measure.in_turns({"one": block(plain, "ours"), "two": block(client, "ours")}, 2 if calls < 50 else 20)
    row = measure.difference(
        GROUP, "CPU of stepping over an open breaker, against a family of one", found["one"], found["two"], None
    )
    shown = f"{asked} requests"
    count = Row(GROUP, f"open breaker, {calls} calls", "", shown, shown, "0 requests", measure.judged([asked], 0))
    return [count, row]


def collect(is_quick: bool) -> list[Row]:
    """All rows."""
    rounds, calls = (1, 3) if is_quick else (30, 20)
    with serving() as server:
        rows = [*after_500(server, rounds, calls), after_500_canned(50 if is_quick else 2000)]
        rows.append(hanging(server, 8 if is_quick else 100, 1 if is_quick else 20))
        return [*rows, *open_breaker(server, 5 if is_quick else 100)]


if __name__ == "__main__":
    measure.main(collect, __doc__)
