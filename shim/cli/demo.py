"""`shim demo`: real text embedded by a real model through two sick routes, without any key; it checks itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console

from shim.cli import tables
from shim.cli.complaints import Complaint
from shim.local.models import WORDLLAMA

if TYPE_CHECKING:
    from shim.cli.demo_stage import Stage


def demo() -> None:
    """Embed real text with a real local model through two sick routes: no key, nothing leaves this machine.

    Three HTTP servers on loopback stand before the same model: `busy` answers 429, `slow` hangs, `healthy` is well.
    Takes a few seconds and checks itself: exit code 1 when anything did not come as it should.
    """
    if not WORDLLAMA.is_installed:
        raise Complaint("the demonstration needs the local model: pip install 'openai-shim[local]'")
    from shim.cli import demo_acts, demo_findings, demo_stage, demo_view
    from shim.cli.demo_texts import QUESTIONS, TEXTS

    out = tables.console()
    truth = demo_stage.direct_vectors((*TEXTS, *QUESTIONS))
    with demo_stage.stage() as stage:
        _introduce(stage, len(TEXTS), out)
        _head("1. One route after the other", out)
        sequence = demo_acts.in_sequence(stage, out)
        out.print()
        demo_view.show_status(sequence.router, out)
        _head("2. The same in race mode, two routes at a time", out)
        race = demo_acts.in_race(stage, out)
    _head("Nearest sentences, by the vectors that came through the sick routes", out)
    demo_view.show_neighbours(QUESTIONS, TEXTS, demo_findings.nearest(sequence.questions, sequence.vectors), out)
    _head("What was shown", out)
    findings = [*demo_findings.of_sequence(sequence, truth), *demo_findings.of_race(race, truth)]
    demo_view.show_findings(findings, out)
    _conclude(findings, out)


def _introduce(stage: Stage, count: int, out: Console) -> None:
    out.print(f"{count} sentences, model {WORDLLAMA.name}, three servers in front of it, in this order:")
    ills = {"busy": "answers 429 at first", "slow": "hangs at first", "healthy": "is well"}
    for name, server in stage.servers.items():
        out.print(f"  {name:8} {server.base_url}  {ills[name]}")


def _head(text: str, out: Console) -> None:
    out.print()
    out.print(tables.styled(text, "bold"))
    out.print()


def _conclude(findings: list[tuple[bool, str]], out: Console) -> None:
    failed = sum(not held for held, _ in findings)
    out.print()
    if failed:
        out.print(tables.styled(f"{failed} of {len(findings)} did not come as they should.", tables.BAD))
        raise typer.Exit(1)
    out.print(f"All {len(findings)} held. Go on with `shim init`, which writes a configuration from your")
    out.print("keys, then `shim check`; in your code it is: from shim import OpenAI")
