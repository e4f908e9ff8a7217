"""A process that opens an engine, says what it is sent, and reports each acknowledgement until it is killed.

``python -m tests.recovery.speaker FOLDER THREAD`` reads one message a line. It prints one JSON line when the engine is
open, one when a message is accepted and one when it is answered. The answer to a message with "hang" never ends.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from contextinfinity.domain.events import TurnDone, TurnStarted
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply
from tests.recovery.outages import engine_on

ROOT = Path(__file__).resolve().parents[2]


class Speaker:
    """Such a process, seen from the test that starts it; it is killed at the end of the block."""

    def __init__(self, folder: Path, thread: str) -> None:
        command = [sys.executable, "-m", "tests.recovery.speaker", str(folder), thread]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> Speaker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def reported(self) -> dict[str, Any]:
        """Wait for the next report."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process ended too early"
        report: dict[str, Any] = json.loads(line)
        return report

    def accept(self, text: str) -> dict[str, Any]:
        """Send a message, and wait until it is acknowledged."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        return self.reported()

    def ask(self, text: str) -> dict[str, Any]:
        """Send a message, and wait for its answer."""
        self.accept(text)
        return self.reported()

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self._process.kill()
        self._process.communicate()


def script(request: ProviderRequest) -> ScriptedReply:
    """Answer with the messages of the user that are in the prompt, oldest first."""
    asked = [message.rendered_text for message in request.prompt.messages if message.role == "user"]
    return ScriptedReply(text=" | ".join(asked), pieces=(" | ".join(asked),), hang="hang" in asked[-1])


async def main(folder: Path, thread: str) -> None:
    """Run the process."""
    loop = asyncio.get_running_loop()

    def report(**facts: Any) -> None:
        sys.stdout.write(f"{json.dumps(facts)}\n")
        sys.stdout.flush()

    async with engine_on(folder, ScriptedProvider(script)) as engine:
        report(open=True)
        while text := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            async for event in engine.send(thread, text):
                if isinstance(event, TurnStarted):
                    report(turn_seq=event.turn_seq, durability=str(event.durability))
                elif isinstance(event, TurnDone):
                    report(turn_seq=event.turn.turn_seq, text=event.turn.text)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
