"""The clipboard: a program of the desktop where there is one, otherwise the terminal (OSC 52, also over ssh)."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from contextinfinity.errors import Refused

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
