"""A terminal with a screen: the real command line in it, and keys one presses."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyte

from tests.doors.forked import Forked, until_asleep

SECONDS = 100.0
PROMPT = "> "
ENTER = "\r"
BRACKETED_PASTE = 2004 << 5  # as pyte numbers private modes
CTRL_C, CTRL_D, CTRL_R, TAB, UP = "\x03", "\x04", "\x12", "\t", "\x1b[A"


class Screen(pyte.HistoryScreen):
    """A screen that answers when it is asked where its cursor is."""

    def __init__(self, answer: Callable[[str], None], columns: int, lines: int) -> None:
        super().__init__(columns, lines, history=10_000)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)

    def all_lines(self) -> list[str]:
        """Return the lines above the screen, and those on it."""
        untyped: Any = self
        above = ["".join(row[x].data for x in range(self.columns)) for row in untyped.history.top]
        return [line.rstrip() for line in [*above, *untyped.display]]


class Terminal:
    """``cix`` at a terminal of that many columns and lines; every sign it prints is on the screen or above it."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        columns: int = 80,
        lines: int = 24,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._keys, its_side = pty.openpty()
        fcntl.ioctl(its_side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.initial_modes = self.modes()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXTINFINITY_")}
        inherited.pop("NO_COLOR", None)
        environment = inherited | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"} | dict(environ or {})
        whole = [*arguments, "--data-dir", str(folder)]
        self._process = Forked(
            "contextinfinity", whole, environment, streams=(its_side, its_side, its_side), is_terminal=True
        )
        os.close(its_side)
        self.screen = Screen(self.type, columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.printed = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._keys)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._keys, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C at the empty prompt, once the program waits for a key."""
        self.until(self.waits)
        until_asleep(self.pid)
        self.type(CTRL_C)

    def leave(self) -> int:
        """Press Ctrl-C until the program ends and give its exit code: the second of two within two seconds ends it."""
        while True:
            notices = self._notices()
            self.interrupt()
            while self._notices() == notices:
                if not self._read():
                    return self._process.wait(timeout=SECONDS)

    def paste(self, text: str) -> None:
        """Paste text as terminals do: in brackets only if the program has asked for them."""
        keys = text.replace("\n", ENTER)
        self.type(f"\x1b[200~{keys}\x1b[201~" if BRACKETED_PASTE in self.screen.mode else keys)

    def text(self) -> str:
        """Return all text of the terminal, scrolled-off lines first."""
        return "\n".join(self.screen.all_lines()).rstrip("\n")

    def until(self, there: str | Callable[[], bool]) -> None:
        """Read until a text is on the screen or above it, or until a condition holds."""
        while not (there in self.text() if isinstance(there, str) else there()):
            assert self._read(), f"it ended with:\n{self.text()}"

    def say(self, line: str) -> str:
        """Type a line at the prompt; return the output below it when the prompt is back."""
        before, prompts = self.text(), self._prompts()
        self.type(line + ENTER)
        self.until(lambda: self._prompts() > prompts and self.waits())
        return self.text().removeprefix(before).partition("\n")[2].rpartition("\n>")[0].strip("\n")

    def waits(self) -> bool:
        """Return whether an empty prompt is shown."""
        return self.text().rpartition("\n")[2] == ">" and self.screen.cursor.x == len(PROMPT)

    def end(self) -> int:
        """Read to its end and return its exit code."""
        while self._read():
            pass
        return self._process.wait(timeout=SECONDS)

    def modes(self) -> list[object]:
        """Return the terminal's current modes."""
        return termios.tcgetattr(self._keys)[:4]

    def _notices(self) -> int:
        return self.text().count("Press Ctrl-C again")

    def _prompts(self) -> int:
        return f"\n{self.text()}".count("\n> ") + f"\n{self.text()}\n".count("\n>\n")

    def _read(self) -> bool:
        ready, _, _ = select.select([self._keys], [], [], SECONDS)
        assert ready, f"nothing comes any more:\n{self.text()}"
        try:
            data = os.read(self._keys, 65536)
        except OSError:  # its side was closed
            return False
        self.printed += data
        self._stream.feed(data)
        return bool(data)
