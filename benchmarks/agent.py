"""A coding agent that runs its own tools: one request of a person, then hundreds of tool rounds.

``python -m benchmarks.agent [--rounds N] [--windows 16384,32768,200000]``. The client does as Claude Code does: system
text in blocks, tools, markers for caches that move along, reminders in messages, side requests for a title. It talks to
a real ``cix serve`` whose model is at a vendor, a fake one on this machine that refuses what its window cannot hold.
What counts: the person's request is in every prompt, the task comes to its end in one thread, and how much of each
prompt repeats the one before, beside the same messages sent straight to a model without a limit.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.server_process import CixServer
from benchmarks.words import speech
from contextinfinity.prompt.assemble import shared
from contextinfinity_testing.vendors import Answer, Call, FakeVendors

REQUEST = "Rename the column `owner` to `holder` in every module and keep the tests green. The ticket is QX-77."
MARK = {"cache_control": {"type": "ephemeral"}}
ANSWER = 1000
"""Tokens that the client asks for."""
SETTINGS = """\
[general]
default_model = "agent"
[models.agent]
provider = "anthropic"
model_id = "claude-sonnet-4-5"
base_url = "{url}"
context_limit = {window}
[librarian]
model = "offline"
[server]
requests_per_minute = 0
"""


@dataclass(kw_only=True)
class Worked:
    """What was seen in one window."""

    window: int
    rounds: int = 0
    without_request: int = 0
    largest: int = 0
    threads: set[str] = field(default_factory=set)
    failed: int = 0
    fitting: list[float] = field(default_factory=list)
    """How much of each prompt repeats the one before, while all that was sent fits the window."""
    folding: list[float] = field(default_factory=list)
    """The same for all prompts."""
    straight: list[float] = field(default_factory=list)

    @property
    def well(self) -> bool:
        """Whether all came out as it should."""
        kept = not self.without_request and not self.failed and self.largest <= self.window and len(self.threads) == 1
        return kept and _mean(self.folding) >= 0.85

    def __str__(self) -> str:
        verdict = "well" if self.well else "NOT WELL"
        return (
            f"window {self.window:,}: {self.rounds} rounds, {self.failed} failed, {self.without_request} without the "
            f"request, at most {self.largest:,} tokens upstream, {len(self.threads)} thread(s); repeated: "
            f"{_mean(self.fitting):.1%} while it fits ({_mean(self.straight[: len(self.fitting)]):.1%} straight), "
            f"{_mean(self.folding):.1%} in all ({_mean(self.straight):.1%} straight): {verdict}"
        )


async def work(folder: Path, window: int, rounds: int) -> Worked:
    """Do one task in a window of so many tokens."""
    seen, rng = Worked(window=window), random.Random(window)
    async with FakeVendors(limit=window) as vendors:
        with CixServer(folder, SETTINGS.format(url=vendors.anthropic_url, window=window)) as served:
            url = f"http://127.0.0.1:{served.port}/v1/messages"
            async with httpx2.AsyncClient(timeout=60) as http:
                await _task(http, url, vendors, seen, rounds, rng)
    return seen


async def _task(
    http: httpx2.AsyncClient, url: str, vendors: FakeVendors, seen: Worked, rounds: int, rng: random.Random
) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    fixed: dict[str, Any] = {
        "model": "agent",
        "max_tokens": ANSWER,
        "system": [{"type": "text", "text": speech(rng, seen.window // 4), **MARK}],
        "tools": [{"name": "read", "description": speech(rng, seen.window // 8), "input_schema": schema}],
    }
    messages: list[dict[str, Any]] = [_said({"type": "text", "text": REQUEST}, "The project has no notes.")]
    before: Any = None
    sent_before: Any = None
    for number in range(rounds + 1):
        if number % 50 == 25:  # a side request: the agent asks for a title
            vendors.say("A title")
            await http.post(url, json={**fixed, "system": "Write a title.", "tools": [], "messages": messages[:1]})
        body = {**fixed, "messages": _marked(messages)}
        last = number == rounds
        call = Call(name="read", arguments={"path": f"module_{number}.py"}, id=f"toolu_{number:04}")
        vendors.say("Renamed everywhere." if last else Answer(text=f"Step {number}.", tool_calls=(call,)))
        answer = await http.post(url, json=body)
        if answer.status_code != 200:
            seen.failed += 1
            return
        seen.threads.add(answer.headers["x-thread-id"])
        asked: Any = vendors.requests[-1].body
        used = answer.json()["usage"]
        size = sum(used[name] for name in used if name.endswith("input_tokens"))
        seen.largest = max(seen.largest, size + asked["max_tokens"])
        _look(seen, asked, before, body, sent_before)
        before, sent_before = asked, body
        vendors.requests.clear()
        messages.append({"role": "assistant", "content": answer.json()["content"]})
        size = rng.randrange(seen.window // 40, seen.window // 13)
        result = {"type": "tool_result", "tool_use_id": call.id, "content": speech(rng, size)}
        messages.append(_said(result, f"{number} todos are open." if number % 10 == 5 else ""))
    seen.rounds = rounds


def _said(block: dict[str, Any], reminder: str) -> dict[str, Any]:
    """Make a message of the user, with a reminder as the agent adds them."""
    told = [{"type": "text", "text": f"<system-reminder>{reminder}</system-reminder>"}] if reminder else []
    return {"role": "user", "content": [block, *told]}


def _marked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mark the last message for the cache, as agents do."""
    *others, last = messages
    content = [*last["content"][:-1], {**last["content"][-1], **MARK}]
    return [*others, {**last, "content": content}]


def _look(seen: Worked, asked: Any, before: Any, sent: Any, sent_before: Any) -> None:
    """Measure what went upstream."""
    texts = [block.get("text") for message in asked["messages"] for block in _blocks(message)]
    seen.without_request += REQUEST not in texts
    if before is None:
        return
    common, total = shared(before, asked)
    seen.folding.append(common / total)
    if asked["messages"] == sent["messages"]:
        seen.fitting.append(common / total)
    common, total = shared(sent_before, sent)
    seen.straight.append(common / total)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"text": content}] if isinstance(content, str) else content


def _mean(shares: list[float]) -> float:
    return sum(shares) / len(shares) if shares else 0.0


def main() -> None:
    """Run it and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agent", description="Does an agent finish its task?")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--windows", default="16384,32768,200000")
    told = parser.parse_args()
    os.environ.setdefault("ANTHROPIC_API_KEY", "sk-none")
    results = []
    for window in map(int, told.windows.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            results.append(asyncio.run(work(Path(folder), window, told.rounds)))
        print(results[-1], flush=True)
    sys.exit(not all(result.well for result in results))


if __name__ == "__main__":
    main()
