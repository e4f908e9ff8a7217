"""Add a model to config.toml, and leave everything else in it as it is."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from contextinfinity.errors import InvalidInput, Refused

_GENERAL = re.compile(r"^[ \t]*\[general\][ \t]*(?:#.*)?$", re.MULTILINE)


def read_text(file: Path) -> str:
    """Return the text of a config.toml; empty if there is none."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{file} cannot be read ({error}).", hint="Check the file.") from error


def with_model(text: str, name: str, fields: Mapping[str, str | bool], *, default: bool) -> str:
    """Return the text of a config.toml with one more model.

    ``default``: it becomes ``general.default_model``, unless one is set already. A model of that name raises
    ``InvalidInput``.
    """
    known = tomllib.loads(text)
    if name in known.get("models", {}):
        raise InvalidInput(f"There is a model {name} in config.toml already.", hint="Choose another --name.")
    lines = [f"[models.{_key(name)}]", *(f"{key} = {json.dumps(value)}" for key, value in fields.items())]
    if default and "default_model" not in known.get("general", {}):
        line = f"default_model = {json.dumps(name)}"
        if found := _GENERAL.search(text):
            text = f"{text[: found.end()]}\n{line}{text[found.end() :]}"
        elif "general" not in known:
            text = f"[general]\n{line}\n\n{text}"
    return f"{text.rstrip()}\n\n" * bool(text.strip()) + "\n".join(lines) + "\n"


def write_private(file: Path, text: str) -> None:
    """Replace a file atomically; only its owner can read it."""
    partial = file.with_name(f".{file.name}.partial")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    except OSError as error:
        raise Refused(f"{file} cannot be written ({error.strerror}).", hint="Check the folder.") from error


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
