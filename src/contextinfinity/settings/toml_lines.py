"""On which line each key of a TOML text stands.

``tomllib`` gives values without places, and a person who mistyped a key needs the place. The text has
passed ``tomllib`` before it comes here, so this scanner knows only where keys, strings and brackets
begin and end; what a key spells it asks ``tomllib``. Keys inside arrays have no path and no line.

    [models.gpt]                 ("models",): 1, ("models", "gpt"): 1
    provider = "openai"          ("models", "gpt", "provider"): 2
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from contextlib import suppress

Path = tuple[str, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BETWEEN = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_BASIC = r'"(?:[^"\\\n]|\\.)*"'
_LITERAL = r"'[^'\n]*'"
_PART = rf"(?:{_BASIC}|{_LITERAL}|[A-Za-z0-9_-]+)"
_KEY = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*")
# The long strings come first, since each begins like an empty short one; they may end in up to five
# quotes, of which the first two belong to the text.
_STRING = re.compile(
    rf'"""(?:[^\\]|\\.)*?"{{3,5}}|\'\'\'.*?\'{{3,5}}|{_BASIC}|{_LITERAL}',
    re.DOTALL,
)
# A date may have a blank before its time; every other bare value ends at a blank.
_BARE = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]*|[^\s,\]}#]+")


def key_lines(text: str) -> dict[Path, int]:
    """Give the line, counted from 1, on which each key and each table is first named."""
    scanner = _Scanner(text)
    # Where the text cannot be followed, a message without a line is better than none.
    with suppress(ValueError, RecursionError):
        scanner.document()
    return scanner.lines


class _Scanner:
    """Walks a TOML text once, from left to right, and notes where keys begin."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._text = text
        self._at = 0
        self._line_ends = [found.start() for found in re.finditer("\n", text)]

    def document(self) -> None:
        table: Path = ()
        self._take(_BLANK)
        while self._at < len(self._text):
            if self._sees("["):
                self._pass("[")
                table = self._key(())
                self._pass("]")
            else:
                self._entry(table)
            self._take(_BLANK)

    def _entry(self, table: Path | None) -> None:
        path = self._key(table)
        self._pass("=")
        self._value(path if table is not None else None)

    def _value(self, path: Path | None) -> None:
        if self._sees("{"):
            self._items("}", path)
        elif self._sees("["):
            self._items("]", None)
        elif self._sees('"') or self._sees("'"):
            self._take(_STRING)
        else:
            self._take(_BARE)

    def _items(self, end: str, path: Path | None) -> None:
        """Walk an inline table or an array, whose opening bracket is next."""
        self._at += 1
        self._take(_BETWEEN)
        while not self._sees(end):
            if end == "}":
                self._entry(path)
            else:
                self._value(None)
            self._take(_BETWEEN)
        self._at += 1

    def _key(self, table: Path | None) -> Path:
        line = bisect_right(self._line_ends, self._at) + 1
        parts = _spelled(self._take(_KEY))
        if table is None:
            return ()
        for depth in range(1, len(parts) + 1):
            self.lines.setdefault(table + parts[:depth], line)
        return table + parts

    def _sees(self, mark: str) -> bool:
        return self._text.startswith(mark, self._at)

    def _pass(self, mark: str) -> None:
        """Go past the mark, once or doubled, and the blanks around it."""
        self._take(re.compile(rf"[ \t]*{re.escape(mark)}{{1,2}}[ \t]*"))

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise ValueError(f"not TOML at character {self._at}")
        self._at = found.end()
        return found.group()


def _spelled(key: str) -> Path:
    """Give the parts of a dotted key, with quotes and escapes resolved by the real parser."""
    parts = []
    value: object = tomllib.loads(f"{key} = 0")
    while isinstance(value, dict):
        (part, value) = next(iter(value.items()))
        parts.append(part)
    return tuple(parts)
