"""Server processes forked from one that has imported everything: starting Python and importing takes a second of CPU.

Each pytest worker has one such template process. It takes a command line, an environment and the standard streams over
a socket, forks, and the child runs the command as ``python -m contextinfinity`` would. The template has no threads and
no connection of its own when it forks. ``tests/doors/test_cli_serve.py`` and others start real interpreters.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import IO

TEMPLATE = "from tests.doors.forked import run_template; run_template()"


class Forked:
    """A process of the template, with the part of ``subprocess.Popen`` that tests use."""

    def __init__(self, arguments: list[str], environment: dict[str, str], errors: IO[bytes]) -> None:
        read, write = os.pipe()
        with Path(os.devnull).open("rb") as nothing:
            self.pid = _ask({"start": arguments, "env": environment}, [nothing.fileno(), write, errors.fileno()])
        os.close(write)
        self.stdout: IO[bytes] = os.fdopen(read, "rb")
        self._end = os.pidfd_open(self.pid)
        self._code: int | None = None

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._end, number)

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        if self._code is None and select.select([self._end], [], [], 0)[0]:
            self._code = _ask({"code": self.pid}, [])
            os.close(self._end)
        return self._code

    def wait(self, timeout: float) -> int:
        """Wait for its end and return its exit code."""
        if self._code is None and not select.select([self._end], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("cix", timeout)
        code = self.poll()
        assert code is not None
        return code


@cache
def _template() -> socket.socket:
    ours, theirs = socket.socketpair()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXTINFINITY_")}
    command = [sys.executable, "-c", TEMPLATE, str(theirs.fileno())]
    process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)  # runs first: the template ends with its socket
    return ours


def _ask(question: object, descriptors: list[int]) -> int:
    template = _template()
    socket.send_fds(template, [json.dumps(question).encode() + b"\n"], descriptors)
    return int(template.recv(64))


def run_template() -> None:
    """Import what servers need, then fork one for each request until the socket closes."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    _import_all()
    codes: dict[int, int] = {}
    while True:
        body, streams, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not body:
            return None
        asked = json.loads(body)
        if "code" in asked:
            pid, status = os.waitpid(asked["code"], 0)
            codes[pid] = os.waitstatus_to_exitcode(status)
            requests.send(str(codes[pid]).encode())
            continue
        pid = os.fork()
        if pid == 0:
            requests.close()
            return _become(asked["start"], asked["env"], streams)
        for stream in streams:
            os.close(stream)
        requests.send(str(pid).encode())


def _import_all() -> None:
    from importlib import import_module

    from contextinfinity.engine import lazy_modules

    for name in (*lazy_modules.ALL, "contextinfinity.server.serving", "contextinfinity.cli.serve"):
        import_module(name)


def _become(arguments: list[str], environment: dict[str, str], streams: list[int]) -> None:
    """Be the command, in a forked process."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["contextinfinity", *arguments]
    from contextinfinity.__main__ import main

    main()
