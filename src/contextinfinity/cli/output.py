"""Output of the command line: JSON for programs, tables for people, and text without control characters.

Text is copied to the clipboard by a program of the desktop where there is one, otherwise by the terminal (OSC 52, also
over ssh). Long work shows a progress bar on a terminal and nothing elsewhere.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from contextinfinity.errors import Refused
from contextinfinity.text.terminal.control_characters import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

NARROWEST = 8
"""Columns that the last column of a table keeps on any screen."""


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print a value as JSON; a path is printed as text."""
    import msgspec

    typer.echo(json.dumps(msgspec.to_builtins(value, enc_hook=str), indent=indent))


def say(text: str) -> None:
    """Print a piece of an answer and flush; a pipe gets every character unchanged."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def print_notice(text: str) -> None:
    """Print a remark on stderr."""
    lines = printable(text).split("\n")
    sys.stderr.write("\n".join(map(_broken, lines) if sys.stderr.isatty() else lines) + "\n")
    sys.stderr.flush()


def wrapped(line: str) -> str:
    """Wrap a line to the width of the terminal; a pipe gets it unwrapped."""
    return _broken(line) if sys.stdout.isatty() else line


def _broken(line: str) -> str:
    import shutil
    import textwrap

    width = shutil.get_terminal_size().columns
    return line if len(line) < width else textwrap.fill(line, width - 1, break_long_words=False, break_on_hyphens=False)


def console() -> Console:
    """Return a console for stdout; lines are not wrapped in a pipe."""
    from rich.console import Console

    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 1000)


def shown_id(identifier: str) -> str:
    """Return an id for a table: its end on a terminal, all of it in a pipe."""
    from contextinfinity.client.references import short

    return short(identifier) if sys.stdout.isatty() else identifier


def print_table(columns: Iterable[str], rows: Iterable[Iterable[str | Text]], *, whole: bool = False) -> None:
    """Print rows under their heads; on a narrow screen the last column is cut short, or folded to stay ``whole``.

    Where the other columns alone are too wide, each row is printed as lines of their own.
    """
    from rich.table import Table
    from rich.text import Text

    screen, table, heads = console(), Table(box=None, pad_edge=False), list(columns)
    cells = [[Text(printable(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [max([len(head), *(row[place].cell_len for row in cells)]) for place, head in enumerate(heads)]
    left = screen.width - sum(widths[:-1]) - 2 * (len(heads) - 1)
    if left < min(NARROWEST, widths[-1]):
        return _print_records(screen, heads, cells)
    for head in heads[:-1]:
        table.add_column(head, no_wrap=True, overflow="ignore")
    table.add_column(heads[-1], no_wrap=not whole, overflow="ellipsis", width=min(widths[-1], left))
    for row in cells:
        table.add_row(*row)
    return screen.print(table)


def _print_records(screen: Console, heads: list[str], rows: list[list[Text]]) -> None:
    """Print each row as lines "head: cell"."""
    from rich.text import Text

    for number, row in enumerate(rows):
        if number:
            screen.print()
        for head, cell in zip(heads, row, strict=True):
            if cell.plain:
                screen.print(Text.assemble(f"{head}: " if head else "", cell), overflow="fold")


def one_line(text: str, longest: int = 200) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text[: longest * 2].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def local_time(time: datetime) -> str:
    """Format a time in the local time zone."""
    return time.astimezone().strftime("%Y-%m-%d %H:%M")


OSC_52_BYTES = 100_000
"""The most bytes of text, encoded, that common terminals accept in one sequence."""
SECONDS = 5.0
TERMINAL = Path("/dev/tty")


def copy_to_clipboard(text: str) -> str:
    """Copy a text; return what took it. ``Refused`` where there is no clipboard."""
    for command in _programs():
        with suppress(OSError, subprocess.SubprocessError):
            # The program stays in the background to serve the text: it must not hold our pipes open.
            subprocess.run(  # noqa: S603 - one of the programs below
                command,
                input=text.encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=SECONDS,
                check=True,
            )
            return command[0]
    encoded = base64.b64encode(text.encode())
    if len(encoded) <= OSC_52_BYTES:
        with suppress(OSError):
            descriptor = os.open(TERMINAL, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                os.write(descriptor, b"\x1b]52;c;" + encoded + b"\x07")
            finally:
                os.close(descriptor)
            return "the terminal"
    raise Refused(
        "There is no clipboard for this text.",
        hint="Install wl-copy, xclip or xsel; at a terminal that knows OSC 52 up to 75,000 bytes can be copied.",
    )


def _programs() -> Iterator[list[str]]:
    known = [["pbcopy"]]
    if os.environ.get("WAYLAND_DISPLAY"):
        known.append(["wl-copy"])
    if os.environ.get("DISPLAY"):
        known += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    yield from (command for command in known if shutil.which(command[0]))


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Return a callback for the amount done and the total (0: unknown)."""
    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done, all_: shown.update(task, completed=done, total=all_ or None)
