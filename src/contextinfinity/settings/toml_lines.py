"""Find the line number of each key of a TOML text.

``tomllib`` returns values without locations, and error messages need them. The text has already been parsed by
``tomllib``, so this scanner only finds where keys, strings and brackets begin and end; the spelling of a key is decoded
by ``tomllib``. A table in an array is identified by its index, from 0.

    [models.gpt]                 ("models",): 1, ("models", "gpt"): 1
    provider = "openai"          ("models", "gpt", "provider"): 2
    [[router.rules]]             ("router",): 3, ("router", "rules"): 3, ("router", "rules", 0): 3
    model = "gpt"                ("router", "rules", 0, "model"): 4
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from contextlib import suppress

Path = tuple[str | int, ...]

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


def key_lines(text: str) -> dict[Path, int]:
    """Return the line, from 1, on which each key and each table first appears."""
    scanner = _Scanner(text)
    # If the scan fails, a message without a line is better than none.
    with suppress(ValueError, RecursionError):
        scanner.document()
    return scanner.lines


class _Scanner:
    """Scan a TOML text once, from left to right, and record where keys begin."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._text = text
        self._at = 0
        self._tables: dict[Path, int] = {}
        """The number of tables in each array of tables so far."""
        self._line_ends = [found.start() for found in re.finditer("\n", text)]

    def document(self) -> None:
        table: Path = ()
        self._take(_BLANK)
        while self._at < len(self._text):
            if self._sees("["):
                table = self._header(is_array=self._sees("[["))
            else:
                self._entry(table)
            self._take(_BLANK)

    def _header(self, *, is_array: bool) -> Path:
        """Read a table header; a table inside an array of tables belongs to the newest element."""
        self._pass("[")
        line, parts = self._line(), _spelled(self._take(_KEY))
        self._pass("]")
        path: Path = ()
        for depth, part in enumerate(parts, 1):
            path = self._note((*path, part), line)
            if depth < len(parts) and path in self._tables:
                path = (*path, self._tables[path] - 1)
        if not is_array:
            return path
        number = self._tables.get(path, 0)
        self._tables[path] = number + 1
        return self._note((*path, number), line)

    def _entry(self, table: Path) -> None:
        line, path = self._line(), table
        for part in _spelled(self._take(_KEY)):
            path = self._note((*path, part), line)
        self._pass("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        if self._sees("{"):
            self._items("}", self._note(path, self._line()))
        elif self._sees("["):
            self._items("]", path)
        elif self._sees('"') or self._sees("'"):
            self._take(_STRING)
        else:
            self._take(_BARE)

    def _items(self, end: str, path: Path) -> None:
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

    def _note(self, path: Path, line: int) -> Path:
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
