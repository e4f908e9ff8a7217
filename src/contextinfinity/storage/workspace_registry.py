"""Which workspaces repeat conversations of a data_dir: a file of JSON lines, one per conversation and folder.

A deletion needs it to find the lines and images outside the data_dir. It holds no text of a conversation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from contextinfinity.domain.ids import SessionId
from contextinfinity.storage.encryption.protection import protection_of
from contextinfinity.storage.folders import make_private, sync_file

FILE = "workspaces.jsonl"


class Registration(NamedTuple):
    """A conversation that a history file repeats; ``name`` is a session of it there."""

    session_id: SessionId
    folder: Path
    name: str


def register(data_dir: Path, registration: Registration) -> None:
    """Record that a history file repeats a conversation; durable when this returns."""
    if registration in registrations(data_dir):
        return
    make_private(data_dir)
    session_id, folder, name = registration
    line = json.dumps({"session": session_id, "folder": str(folder), "name": name}).encode()
    descriptor = os.open(data_dir / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, protection_of(data_dir / FILE).seal_line(line) + b"\n")
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def registrations(data_dir: Path) -> list[Registration]:
    """Return what is registered; a torn last line is left out."""
    return list(dict.fromkeys(_read(data_dir / FILE)))


def _read(file: Path) -> Iterator[Registration]:
    try:
        lines = file.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    protection = protection_of(file)
    for line in filter(None, lines):
        try:
            found = json.loads(protection.open_line(line))
            yield Registration(found["session"], Path(found["folder"]), found["name"])
        except (ValueError, KeyError, TypeError):
            continue
