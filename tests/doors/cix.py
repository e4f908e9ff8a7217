"""``cix`` as tests use it: in this process where that is enough, as a real one where signals and pipes matter."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

from typer.testing import CliRunner, Result

from contextinfinity.cli.main import app
from tests.doors.forked import Forked, build_commands_once, until_asleep

build_commands_once()

ECHO = """\
[general]
default_model = "echo"
[models.echo]
provider = "scripted"
"""
CONFIG = """\
[general]
default_model = "main"
[models.main]
provider = "scripted"
path = "main.json"
[models.echo]
provider = "scripted"
"""


class Cix:
    """The command line on one data folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def echo(self) -> None:
        """Use a model that repeats its input."""
        (self.folder / "config.toml").write_text(ECHO, encoding="utf-8")

    def script(self, *replies: object) -> None:
        """Script the model's answers: each a text or the fields of a reply, in turn, repeated from the start."""
        (self.folder / "config.toml").write_text(CONFIG, encoding="utf-8")
        whole = {"replies": replies, "loop": True}
        (self.folder / "main.json").write_text(json.dumps(whole), encoding="utf-8")

    def __call__(self, *arguments: str, stdin: str | bytes = "") -> Result:
        """Run a command; whatever it ends with, it ends in an orderly way."""
        done = CliRunner().invoke(app, [*arguments, "--data-dir", str(self.folder)], input=stdin)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert "Traceback" not in done.stderr
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Run a command with ``--json`` and read what it prints."""
        done = self(*arguments, "--json")
        assert done.exit_code == code, done.stderr
        return json.loads(done.stdout)

    def ask(self, question: str, *options: str) -> Any:
        """Ask and return the finished turn."""
        return self.json("ask", question, *options)

    def said(self, *options: str, session: str = "last") -> list[tuple[str, str]]:
        """Read (question, answer) of every turn."""
        return [(turn["user"], turn["assistant"]) for turn in self.turns(*options, session=session)]

    def turns(self, *options: str, session: str = "last") -> list[dict[str, Any]]:
        """Read the turns of a conversation."""
        turns: list[dict[str, Any]] = self.json("show", session, *options)["turns"]
        return turns

    def start(self, *arguments: str, terminal: bool = False, disk: int | None = None, piped: bool = True) -> Process:
        """Start a real process, at a terminal or on a disk that takes files of that many blocks only.

        ``piped``: its standard input is a pipe that stays open.
        """
        whole = [*arguments, "--data-dir", str(self.folder)]
        if terminal:
            command = [sys.executable, "-c", IN_A_TERMINAL, sys.executable, "-m", "contextinfinity", *whole]
            return Process(subprocess.Popen(command, env=_environment(), stdin=PIPE, stdout=PIPE, stderr=PIPE))
        with Path(os.devnull).open("rb") as nothing:
            streams = (None if piped else nothing.fileno(), None, None)
            largest = None if disk is None else disk * BLOCK
            return Process(Forked("contextinfinity", whole, _environment(), streams=streams, largest_file=largest))


IN_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
BLOCK = 512
"""Bytes of a block, as ``ulimit -f`` of a POSIX shell counts them."""


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXTINFINITY_")}
    return inherited | {"TERM": "dumb"}


class Process:
    """A process that is driven through pipes."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked) -> None:
        self._process = process

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def type(self, text: str) -> None:
        """Write to its standard input."""
        pipe = _there(self._process.stdin)
        pipe.write(text.encode())
        pipe.flush()

    def until(self, text: str) -> str:
        """Read output until it contains this text; return everything that was read."""
        output = _there(self._process.stdout)
        read = b""
        while not read.endswith(text.encode()):
            sign = os.read(output.fileno(), 1)
            assert sign, f"it ended with {read!r}"
            read += sign
        return read.decode()

    def until_it_waits(self) -> None:
        """Wait until the program sleeps, in its terminal or not: a Ctrl-C just before it waits may go unnoticed."""
        parent = self._process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        child = children[0] if children else str(parent)
        until_asleep(child)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def fill_disk(self) -> None:
        """From now on it cannot write to any file."""
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (0, 0))

    def end(self) -> tuple[int, str, str]:
        """Close its input and wait for its end; return the exit code, the rest of stdout, and stderr."""
        output, errors = self._process.communicate(timeout=60)
        assert b"Traceback" not in errors
        return self._process.wait(), output.decode(), errors.decode()

    def wait(self) -> int:
        """Wait for its end with its input still open."""
        return self._process.wait(timeout=60)

    def told(self, text: str) -> str:
        """Read stderr until it contains this text."""
        errors = _there(self._process.stderr)
        read = b""
        while not read.endswith(text.encode()):
            sign = os.read(errors.fileno(), 1)
            assert sign, f"it ended with {read!r}"
            read += sign
        return read.decode()


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
