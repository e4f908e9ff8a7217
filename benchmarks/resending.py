"""A client that sends its whole conversation with every request, before a model with a small window.

``python -m benchmarks.resending [--turns N]``. LangChain's ChatOpenAI talks to a real ``cix serve`` whose model is at a
vendor, a fake one on this machine that takes 16,384 tokens. A fact is stated in turn 5 and asked for at the end. What
counts: no request ever went over the window, everything was kept once in one thread, and the fact is still known.
Most of the time goes into the client, whose SDK looks at every message of every request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.server_process import CixServer
from benchmarks.words import speech
from contextinfinity_testing.vendors import FakeVendors, Request

WINDOW = 16_384
PLANTED = 5
FACT = "And mind: the code word for the lighthouse is marmalade."
QUESTION = "What is the code word for the lighthouse?"
CHARACTERS_A_TOKEN = 4
SETTINGS = """\
[general]
default_model = "small"
[models.small]
provider = "openai_chat"
model_id = "llama3.1"
base_url = "{url}"
context_limit = {window}
[librarian]
model = "offline"
[server]
requests_per_minute = 0
"""


@dataclass(kw_only=True)
class Resent:
    """What was seen."""

    turns: int = 0
    sent: int = 0
    """Tokens of what the client sent last."""
    largest: int = 0
    """Tokens of the largest request that went upstream."""
    threads: set[str] = field(default_factory=set)
    kept: int = 0
    answer: str = ""

    @property
    def well(self) -> bool:
        """Whether all came out as it should."""
        one_thread = len(self.threads) == 1 and self.kept == self.turns
        return one_thread and self.largest <= WINDOW and self.answer == "marmalade"

    def __str__(self) -> str:
        return (
            f"{self.turns:,} turns, all resent each time: {self.sent:,} tokens sent at the end, at most "
            f"{self.largest:,} of {WINDOW:,} upstream, {len(self.threads)} thread(s) with {self.kept:,} turns, the "
            f"fact of turn {PLANTED}: {self.answer!r}: {'well' if self.well else 'NOT WELL'}"
        )


async def resend(
    folder: Path, turns: int, *, characters: int = 400, tell: Callable[[str], None] = lambda _: None
) -> Resent:
    """Talk for that many turns, of so many characters each, and look at what went upstream."""
    seen, rng = Resent(), random.Random(turns)
    async with FakeVendors() as vendors:
        settings = SETTINGS.format(url=vendors.compatible_url, window=WINDOW)
        with CixServer(folder, settings) as served:
            talker = _Talker(f"http://127.0.0.1:{served.port}/v1", seen)
            for number in range(1, turns):
                words = f"{number}: {speech(rng, characters)}"
                await talker.say(f"{words} {FACT}" if number == PLANTED else words)
                _look(vendors.requests, seen)
                if number % max(1, turns // 10) == 0:
                    tell(f"{number:,} turns: at most {seen.largest:,} tokens upstream")
            seen.answer = await talker.say(QUESTION)
            _look(vendors.requests, seen)
            await talker.leave()
            line = served.line()
            seen.kept = (await line.get(f"/threads/{max(seen.threads)}")).value()["turns"]
            line.close()
    return seen


class _Talker:
    """LangChain's model, and the conversation that its user keeps."""

    def __init__(self, url: str, seen: Resent) -> None:
        make = import_module("langchain_openai").ChatOpenAI  # only this benchmark needs it
        self._chat = make(model="small", base_url=url, api_key="not needed", include_response_headers=True)
        self._said = [("system", "You are a friendly assistant.")]
        self._seen = seen

    async def say(self, words: str) -> str:
        """Send all that was said and something more, and put the answer behind it."""
        self._said.append(("user", words))
        told = await self._chat.ainvoke(self._said)
        self._seen.turns += 1
        self._seen.sent = sum(len(words) for _, words in self._said) // CHARACTERS_A_TOKEN
        self._seen.threads.add(told.response_metadata["headers"]["x-thread-id"])
        answer: str = told.text
        self._said.append(("assistant", answer))
        return answer

    async def leave(self) -> None:
        """Close the connection."""
        await self._chat.root_async_client.close()


def _look(requests: list[Request], seen: Resent) -> None:
    """Measure what went upstream since the last look, with the room kept for the answer, and forget it."""
    for request in requests:
        body: Any = request.body
        said = json.dumps([body["messages"], body.get("tools")], ensure_ascii=False)
        room = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        seen.largest = max(seen.largest, len(said) // CHARACTERS_A_TOKEN + room)
    requests.clear()


def main() -> None:
    """Run it and say how it went."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.resending", description="Is a small window ever passed?"
    )
    parser.add_argument("--turns", type=int, default=3_000)
    with tempfile.TemporaryDirectory() as folder:
        resent = asyncio.run(resend(Path(folder), parser.parse_args().turns, tell=print))
    print(resent)
    sys.exit(not resent.well)


if __name__ == "__main__":
    main()
