"""Read ``config.toml``: parse it into values with their line numbers.

The result is a document or a ``SettingsError`` with the location. Problems in a file that is valid TOML are collected
by the ``SettingsReader``.

``tomllib`` returns values without locations, and error messages need them. The text has already been parsed by
``tomllib``, so this scanner only finds where keys, strings and brackets begin and end; the spelling of a key is decoded
by ``tomllib``. A table in an array is identified by its index, from 0.

    [models.gpt]                 ("models",): 1, ("models", "gpt"): 1
    provider = "openai"          ("models", "gpt", "provider"): 2
    [[router.rules]]             ("router",): 3, ("router", "rules"): 3, ("router", "rules", 0): 3
    model = "gpt"                ("router", "rules", 0, "model"): 4

A model is added to config.toml without changing anything else in it.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeGuard

from msgspec import Struct

from contextinfinity.errors import InvalidInput, Refused, SettingsError
from contextinfinity.settings.keys import MODELS, clipped, dotted, nearest, sections
from contextinfinity.settings.settings_reader import SettingsReader, sections_with

KeyPath = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BETWEEN = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_BASIC = r'"(?:[^"\\\n]|\\.)*"'
_LITERAL = r"'[^'\n]*'"
_PART = rf"(?:{_BASIC}|{_LITERAL}|[A-Za-z0-9_-]+)"
_KEY = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*")
# Long strings come first, because each starts like an empty short one; they may end in up to five
# quotes, of which the first two belong to the text.
_STRING = re.compile(
    rf'"""(?:[^\\]|\\.)*?"{{3,5}}|\'\'\'.*?\'{{3,5}}|{_BASIC}|{_LITERAL}',
    re.DOTALL,
)
# A date may have a space before its time; every other bare value ends at white space.
_BARE = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]*|[^\s,\]}#]+")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, on which each key and each table first appears."""
    scanner = _Scanner(text)
    # If the scan fails, a message without a line is better than none.
    with suppress(ValueError, RecursionError):
        scanner.document()
    return scanner.lines


class _Scanner:
    """Scan a TOML text once, from left to right, and record where keys begin."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._tables: dict[KeyPath, int] = {}
        """The number of tables in each array of tables so far."""
        self._line_ends = [found.start() for found in re.finditer("\n", text)]

    def document(self) -> None:
        table: KeyPath = ()
        self._take(_BLANK)
        while self._at < len(self._text):
            if self._sees("["):
                table = self._header(is_array=self._sees("[["))
            else:
                self._entry(table)
            self._take(_BLANK)

    def _header(self, *, is_array: bool) -> KeyPath:
        """Read a table header; a table inside an array of tables belongs to the newest element."""
        self._pass("[")
        line, parts = self._line(), _spelled(self._take(_KEY))
        self._pass("]")
        path: KeyPath = ()
        for depth, part in enumerate(parts, 1):
            path = self._note((*path, part), line)
            if depth < len(parts) and path in self._tables:
                path = (*path, self._tables[path] - 1)
        if not is_array:
            return path
        number = self._tables.get(path, 0)
        self._tables[path] = number + 1
        return self._note((*path, number), line)

    def _entry(self, table: KeyPath) -> None:
        line, path = self._line(), table
        for part in _spelled(self._take(_KEY)):
            path = self._note((*path, part), line)
        self._pass("=")
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        if self._sees("{"):
            self._items("}", self._note(path, self._line()))
        elif self._sees("["):
            self._items("]", path)
        elif self._sees('"') or self._sees("'"):
            self._take(_STRING)
        else:
            self._take(_BARE)

    def _items(self, end: str, path: KeyPath) -> None:
        """Scan an inline table or an array that starts here."""
        self._at += 1
        self._take(_BETWEEN)
        number = 0
        while not self._sees(end):
            if end == "}":
                self._entry(path)
            else:
                self._value((*path, number))
                number += 1
            self._take(_BETWEEN)
        self._at += 1

    def _note(self, path: KeyPath, line: int) -> KeyPath:
        self.lines.setdefault(path, line)
        return path

    def _line(self) -> int:
        return bisect_right(self._line_ends, self._at) + 1

    def _sees(self, mark: str) -> bool:
        return self._text.startswith(mark, self._at)

    def _pass(self, mark: str) -> None:
        """Skip the bracket, single or doubled, and the white space around it."""
        self._take(re.compile(rf"[ \t]*{re.escape(mark)}{{1,2}}[ \t]*"))

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise ValueError(f"not TOML at character {self._at}")
        self._at = found.end()
        return found.group()


def _spelled(key: str) -> tuple[str, ...]:
    """Return the parts of a dotted key, with quotes and escapes resolved by ``tomllib``."""
    parts = []
    value: object = tomllib.loads(f"{key} = 0")
    while isinstance(value, dict):
        (part, value) = next(iter(value.items()))
        parts.append(part)
    return tuple(parts)


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
