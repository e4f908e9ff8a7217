"""A real server whose models are at the vendors' fakes, and what tests of its drop-in door ask of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from contextinfinity_testing.vendors import FakeVendors, Scripted
from tests.doors.server import Server

WIRES = ("gpt", "sonnet", "open")
"""The models, one for each wire: OpenAI's responses, Anthropic's messages, chat completions of any server.

``refused-open`` and ``refused-sonnet`` are for tests of what does not fit: a counter learns from its model's answers.
"""
KEYS = {"OPENAI_API_KEY": "sk-upstream-openai", "ANTHROPIC_API_KEY": "sk-upstream-anthropic"}
SETTINGS = """
[models.gpt]
provider = "openai"
model_id = "gpt-5.5"
base_url = "{openai}"
attempts = 1
context_limit = {window}
[models.sonnet]
provider = "anthropic"
model_id = "claude-sonnet-4-5"
base_url = "{anthropic}"
attempts = 1
context_limit = {window}
[models.open]
provider = "openai_chat"
model_id = "llama3.1"
base_url = "{compatible}"
attempts = 1
context_limit = {window}
tools = true
images = true
[models.refused-open]
provider = "openai_chat"
model_id = "llama3.2"
base_url = "{compatible}"
attempts = 1
context_limit = {window}
[models.refused-sonnet]
provider = "anthropic"
model_id = "claude-sonnet-4-6"
base_url = "{anthropic}"
attempts = 1
context_limit = {window}
{more}
"""


class Aside(FakeVendors):
    """The fake vendors in their own thread, so that waiting clients do not block them."""

    loop: asyncio.AbstractEventLoop

    def release(self, gate: asyncio.Event) -> None:
        """Release the answers that wait at a gate."""
        self.loop.call_soon_threadsafe(gate.set)


@contextmanager
def vendors_aside() -> Iterator[Aside]:
    """Run the vendors."""
    there, ready, over = Aside(), threading.Event(), asyncio.Event()

    async def run() -> None:
        there.loop = asyncio.get_running_loop()
        async with there:
            ready.set()
            await over.wait()

    with asyncio.Runner() as runner:
        thread = threading.Thread(target=runner.run, args=(run(),))
        thread.start()
        assert ready.wait(timeout=10)
        yield there
        there.release(over)
        thread.join()


class Desk:
    """A server and the fake vendors behind it: their requests are recorded, their answers scripted."""

    def __init__(self, folder: Path, vendors: Aside, *, window: int = 128_000, more: str = "") -> None:
        self.vendors = vendors
        addresses = {"openai": vendors.openai_url, "anthropic": vendors.anthropic_url}
        settings = SETTINGS.format(window=window, more=more, compatible=vendors.compatible_url, **addresses)
        with pytest.MonkeyPatch.context() as environment:
            for name, key in KEYS.items():
                environment.setenv(name, key)
            self.server = Server(folder, settings)

    @property
    def openai_url(self) -> str:
        """The address that OpenAI's clients are given."""
        return f"{self.server.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The address that Anthropic's clients are given."""
        return self.server.url

    def say(self, *answers: Scripted) -> None:
        """Script the vendors' next answers; answers left over from an earlier test are discarded."""
        self.vendors.script.clear()
        self.vendors.say(*answers)

    @property
    def asked(self) -> dict[str, Any]:
        """What a vendor was asked last."""
        return self.vendors.requests[-1].body  # type: ignore[no-any-return]

    @property
    def shown(self) -> str:
        """All that a model was shown last, as text."""
        return json.dumps(self.asked, ensure_ascii=False)

    def kept(self, thread_id: str, **params: Any) -> list[str]:
        """Read what was asked in a thread, of its active branch."""
        params = {"limit": 500, **self.server.whose(thread_id), **params}
        answer = self.server.http.get(f"/threads/{thread_id}/messages", params=params).json()
        return [message["content"] for message in answer["messages"] if message["role"] == "user"]

    def branches(self, thread_id: str) -> int:
        """Count the branches of a thread."""
        return len(
            self.server.http.get(f"/threads/{thread_id}/branches", params=self.server.whose(thread_id)).json()[
                "branches"
            ]
        )


def somebody() -> str:
    """Return an end user that no other test uses."""
    return f"user-{uuid4()}"
