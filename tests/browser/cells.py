"""Cells that the notebooks of these tests begin with: a router over loopback servers whose answers are synthetic."""

from __future__ import annotations

STAGE = """\
import json, threading, time, shim
from shim.local.server import serve
from shim.events import AttemptFinished, Attempt, Purpose, Verdict

def answers(text, delay=0.0):
    def handle(method, path, headers, body):
        time.sleep(delay)
        message = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        told = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [message]}
        told["usage"] = {"prompt_tokens": 12, "completion_tokens": 8, "total_tokens": 20}
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
FLOOD = """
def attempt(seconds):
    return Attempt(number=1, family="fast", provider="two", model="small", key="", purpose=Purpose.FIRST,
        verdict=Verdict.OK, scope=None, reason="ok", message="", status=200, started_at=time.time(), duration=seconds)

def flood(rate, seconds):
    publish, begun, told = client.router.publish, time.monotonic(), 0
    while (gone := time.monotonic() - begun) < seconds:
        while told < rate * gone:
            publish(AttemptFinished("x", attempt(0.001 * (told % 50)), "answer"))
            told += 1
        time.sleep(0.002)
    return told
"""
JOB = """
from shim.events import JobProgress, JobState
def tell_job(done, state=JobState.RUNNING, message=""):
    client.router.publish(JobProgress(job_id="job-1", family="fast", state=state, rows=1000, done=done,
        failed=1, cached=10, duplicates=5, requests=done // 100, tokens=done * 9, cost=0.01, elapsed=done / 400,
        rate=400.0, eta=(1000 - done) / 400, in_flight=2, shares={"one/small": done // 2, "two/small": done // 3},
        message=message, waiting_until=None, at=time.time()))
"""
