"""Cells that the notebooks of these tests begin with: a router over loopback servers whose answers are synthetic."""

from __future__ import annotations

STAGE = """
import json, threading, time, shim
from shim.local.server import serve
from shim.events import AttemptFinished, Attempt, Purpose, Verdict

def answers(text, delay=0.0):
    def handle(method, path, headers, body):
        time.sleep(delay)
        message = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 12, "completion_tokens": 8, "total_tokens": 20}
        told = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [message], "usage": usage}
        return 200, [("content-type", "application/json")], json.dumps(told).encode()
    return handle

one, two = serve(answers("one")), serve(answers("two"))
client = shim.OpenAI(router={
    "providers": {"one": {"base_url": one.base_url}, "two": {"base_url": two.base_url}},
    "families": {"fast": {"kind": "chat", "routes": ["one/small", "two/small"]}},
    "policy": {"breaker": {"failures": 2, "cooldown": 30}},
}, max_retries=0)
ask = lambda model="fast": client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}])
"""
LOAD = "%load_ext notebook_ext\n%shim panel"
