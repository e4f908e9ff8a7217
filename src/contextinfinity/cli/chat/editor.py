"""Write a message in the user's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from contextinfinity.errors import InvalidInput

EDITORS = ("VISUAL", "EDITOR")


def written_in_editor(text: str, data_dir: Path) -> str:
    """Open an editor with a text and return what was written; the file is private, and removed afterwards.

    Where the data_dir is encrypted, it is kept in memory. Raises ``InvalidInput`` if the editor cannot be started.
    """
    from contextinfinity.storage.encryption.protection import scratch_folder

    command = next((os.environ[name] for name in EDITORS if os.environ.get(name)), "vi")
    descriptor, name = tempfile.mkstemp(prefix="chat_history.", suffix=".md", dir=scratch_folder(data_dir))
    file = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        if (code := _run([*shlex.split(command), name], command)) != 0:
            raise InvalidInput(f"The editor {command!r} ended with code {code}; nothing is sent.")
        return file.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    finally:
        for left in file.parent.glob(f"{file.name}*"):  # and the editor's own copies
            left.unlink(missing_ok=True)


def _run(arguments: list[str], command: str) -> int:
    from contextinfinity.cli.chat.keyboard import keyboard_of_readline

    try:
        with keyboard_of_readline():
            return subprocess.run(arguments, check=False).returncode  # noqa: S603 - the user's own editor
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"The editor {command!r} cannot be started ({error}).", hint="Set EDITOR to the one you use."
        ) from error
