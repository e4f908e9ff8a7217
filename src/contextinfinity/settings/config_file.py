"""Read ``config.toml``: parse it into values with their line numbers.

The result is a document or a ``SettingsError`` with the location. Problems in a file that is valid TOML are collected
by the ``SettingsReader``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, TypeGuard

from msgspec import Struct

from contextinfinity.errors import SettingsError
from contextinfinity.settings.keys import MODELS, clipped, dotted, nearest, sections
from contextinfinity.settings.settings_reader import SettingsReader, sections_with
from contextinfinity.settings.toml_lines import key_lines


class ConfigFile(Struct, frozen=True, kw_only=True):
    """A file that is valid TOML; its keys are not checked yet."""

    path: Path
    document: dict[str, Any]
    lines: dict[tuple[str | int, ...], int]

    def place_of(self, *path: str | int) -> str:
        """Return the location of a key as ``file:line``; if its line is unknown, that of its table."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.path}:{self.lines[path]}" if path else str(self.path)


def read_config_file(path: Path) -> ConfigFile | None:
    """Read and parse the file; return None if it does not exist. Raises ``SettingsError``."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"{path} cannot be read: {reason}.") from error
    try:
        text = raw.decode("utf-8-sig")  # Windows editors write a byte order mark
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path}:{line}: this is not UTF-8 text.", hint="Save the file as UTF-8.") from error
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(_syntax_problem(path, text, error)) from error
    return ConfigFile(path=path, document=document, lines=key_lines(text))


def _syntax_problem(path: Path, text: str, error: Exception) -> str:
    """Format a parser error with its location first."""
    if isinstance(error, RecursionError):
        return f"{path}: this is nested too deeply."
    words = str(error)
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", words)
    if found is None:
        return f"{path}: this is not TOML: {words}."
    line = found[1] or len(text.splitlines())
    column = f" at column {found[2]}" if found[2] else " at the end of the file"
    return f"{path}:{line}: this is not TOML: {words[: found.start()]}{column}."


def take_file(reading: SettingsReader, file: ConfigFile) -> None:
    """Pass every key of the file to the reader; report unknown sections."""
    for name, content in file.document.items():
        place = file.place_of(name)
        if name in sections():
            _take_table((name,), content, reading, file)
        elif name == MODELS and _is_table(content, (MODELS,), reading, place):
            for model, entry in content.items():
                _take_model(model, entry, reading, file)
        elif name != MODELS and not reading.refuses_secret((name,), place):
            reading.complain(place, _not_a_section(name, content))


def _take_model(name: str, entry: object, reading: SettingsReader, file: ConfigFile) -> None:
    path, place = (MODELS, name), file.place_of(MODELS, name)
    if reading.refuses_secret(path, place) or not _is_table(entry, path, reading, place):
        return
    if reading.declare_model(name, place):
        _take_table(path, entry, reading, file)


def _take_table(path: tuple[str, ...], content: object, reading: SettingsReader, file: ConfigFile) -> None:
    if _is_table(content, path, reading, file.place_of(*path)):
        for name, value in content.items():
            where, folder = file.place_of(*path, name), file.path.parent
            reading.take((*path, name), value, place=where, folder=folder, locate=file.place_of)


def _is_table(content: object, path: tuple[str, ...], reading: SettingsReader, place: str) -> TypeGuard[dict[str, Any]]:
    if isinstance(content, dict):
        return True
    header = "models.NAME" if path == (MODELS,) else dotted(*path)
    reading.complain(place, f"{clipped(dotted(*path))} must be a section, written as [{clipped(header)}].")
    return False


def _not_a_section(name: str, content: object) -> str:
    written = clipped(dotted(name))
    if isinstance(content, dict | list):
        near = nearest(name, [*sections(), MODELS])
        rest = f"did you mean [{near[0]}]?" if near else f"there are {', '.join([*sections(), 'models.NAME'])}."
        return f"there is no section [{written}]; {rest}"
    belongs = sections_with(name)
    rest = f"did you mean {belongs[0]}?" if belongs else "every key belongs to a section."
    return f"{written} is outside of every section; {rest}"
