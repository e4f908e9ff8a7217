"""Processes forked from one that has imported everything: starting Python and importing takes a second of CPU.

Each pytest worker has one such template process. It takes a module, its arguments, an environment and the standard
streams over a socket, forks, and the child runs the module as ``python -m`` would. The template has no threads and no
connection of its own when it forks. Processes in a terminal of ``tests/doors/cix.py``, ``tests/doors/test_readme.py``
and others start real interpreters.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from runpy import run_module
from typing import IO, Any

USED = (
    "contextinfinity.cli.answer_output",
    "contextinfinity.cli.chat.terminal_view",
    "contextinfinity.cli.main",
    "contextinfinity.cli.weights_download",
    "contextinfinity.engine.history_search",
    "contextinfinity.providers.local.provider",
    "contextinfinity.server.serving",
    "contextinfinity.storage.ledger.job_results",
    "contextinfinity.storage.ledger.memory_queries",
    "contextinfinity.upkeep.data_dir_checks",
    "contextinfinity.wiring.embedding",
    "tests.recovery.doomed",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
)
TEMPLATE = "from tests.doors.forked import run_template; run_template()"


class Forked:
    """A process of the template, with the part of ``subprocess.Popen`` that tests use.

    Standard streams that are not given are pipes. ``is_terminal``: its standard input is a terminal and becomes its
    controlling one. ``largest_file``: it cannot write files beyond that many bytes.
    """

    def __init__(
        self,
        module: str,
        arguments: list[str],
        environment: dict[str, str],
        *,
        streams: tuple[int | None, int | None, int | None] = (None, None, None),
        is_terminal: bool = False,
        largest_file: int | None = None,
    ) -> None:
        ours: list[IO[bytes] | None] = []
        theirs: list[int] = []
        for number, given in enumerate(streams):
            if given is not None:
                theirs.append(os.dup(given))
                ours.append(None)
                continue
            read, write = os.pipe()
            theirs.append(write if number else read)
            ours.append(os.fdopen(read, "rb") if number else os.fdopen(write, "wb"))
        self.stdin, self.stdout, self.stderr = ours
        asked = {"module": module, "arguments": arguments, "env": environment}
        self.pid = _ask(asked | {"is_terminal": is_terminal, "largest_file": largest_file}, theirs)
        for stream in theirs:
            os.close(stream)
        self._end = os.pidfd_open(self.pid)
        self.returncode: int | None = None

    @property
    def output(self) -> IO[bytes]:
        """Its standard output, which is a pipe."""
        assert self.stdout is not None
        return self.stdout

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self.wait()

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Close its input, read all it prints, wait for its end."""
        if self.stdin is not None:
            self.stdin.close()
        with ThreadPoolExecutor(2) as readers:
            output, errors = readers.map(_rest_of, (self.stdout, self.stderr))
        self.wait(timeout)
        return output, errors

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._end, number)

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        if self.returncode is None and select.select([self._end], [], [], 0)[0]:
            self.returncode = _ask({"code": self.pid}, [])
            os.close(self._end)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit code."""
        if self.returncode is None and not select.select([self._end], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("cix", timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code


def run(*arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``cix`` to its end, without the settings of the person who runs the tests."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXTINFINITY_")}
    with Forked("contextinfinity", list(arguments), inherited | dict(environ or {})) as process:
        output, errors = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.wait(), output.decode(), errors.decode())


def until_asleep(pid: int | str) -> None:
    """Wait until a process sleeps: a signal just before it waits for input may go unnoticed."""
    asleep = 0
    while asleep < 200:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        asleep = asleep + 1 if state == "S" else 0
        os.sched_yield()


def _rest_of(pipe: IO[bytes] | None) -> bytes:
    return b"" if pipe is None else pipe.read()


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
            return _become(asked, streams)
        for stream in streams:
            os.close(stream)
        requests.send(str(pid).encode())


def _import_all() -> None:
    """Import what processes use, and keep it out of their garbage collections, which would copy its pages."""
    from contextinfinity.engine.lazy_modules import load_all

    load_all()
    for name in USED:
        import_module(name)
    build_commands_once()
    import_module("contextinfinity.settings.keys").sections()
    import_module("contextinfinity.embedders.static").built_in()
    gc.collect()
    gc.freeze()


def build_commands_once() -> None:
    """Let typer build an application's parser, which takes 20 ms, once per process instead of for every command."""
    import typer.main
    import typer.testing

    once = cache(typer.main.get_command)
    for module, name in ((typer.main, "get_command"), (typer.testing, "_get_command")):
        setattr(module, name, once)
    once(import_module("contextinfinity.cli.main").app)


def _become(asked: dict[str, Any], streams: list[int]) -> None:
    """Be the module, in a forked process."""
    if asked["is_terminal"]:
        os.setsid()
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if asked["largest_file"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["largest_file"],) * 2)
    encoding = asked["env"].get("PYTHONIOENCODING", "utf-8")
    sys.stdin, sys.stdout = os.fdopen(0, encoding=encoding), os.fdopen(1, "w", encoding=encoding)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding=encoding, errors="backslashreplace")
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = [asked["module"], *asked["arguments"]]
    if asked["module"] == "contextinfinity":
        from contextinfinity.__main__ import main

        run: Callable[[], object] = main
    else:
        run = partial(run_module, asked["module"], run_name="__main__", alter_sys=True)
    _end_with(run)


_threads_end: Callable[[], None] = vars(threading)["_shutdown"]


def _end_with(run: Callable[[], object]) -> None:
    """End the process as the interpreter does, but for tearing down the modules of the template."""
    code = 0
    try:
        run()
    except SystemExit as ended:
        if not isinstance(ended.code or 0, int):
            raise
        code = int(ended.code or 0)
    _threads_end()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
