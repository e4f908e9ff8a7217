"""Where a piece of code may be cut: how good a cut would be before each of its lines.

Code that is told apart by indentation is cut before definitions, with the decorators and comments above them; code
with braces where they are closed again; all other before a line that follows an empty one. Nothing is parsed: code of
strangers is often torn, and the time must grow with its length only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

GLUE = -3.0
"""What stands before and after belongs together."""
FUNCTION = 7.5
METHOD = 6.0
STATEMENT = 5.0
BLANK = 4.0
LINE = 2.0

_INDENTED = frozenset({"python", "py", "python3", "pyi", "gdscript", "nim", "coffee", "coffeescript"})
_OPENS = re.compile(r"(?:async\s+)?def\s|class\s")
_LEADS = re.compile(r"@|#")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\]|\\.)*+\'|`[^`]*+`|//.*|/\*.*?\*/')
_LONGEST = 500
"""Characters of a line that are looked at."""

_CODE_LINE = re.compile(
    r"""
    \s*+(?:
      (?:async\s+)?def\s+\w+\s*\( | class\s+\w+ | (?:from\s+\S+\s+)?import\s | return\b | \#include\b | \#\[ | @\w+
    | (?:pub\s+)?(?:fn|struct|enum|impl|trait|mod)\s | (?:export\s+)?(?:async\s+)?function\b | func\s+[\w(]
    | (?:public|private|protected|static|const|let|var|package|using|namespace)\s+\w | (?:if|for|while|switch)\s*\(
    | (?:elif|else|try|except|finally)\b.{0,80}: | (?:if|for|while|with)\s.{1,120}:$
    | [\w.\[\]"']+\s*(?:[+*/-]?=|\+=)\s*\S
    | [{}()\[\]]+[;,]?$ | //|/\*|\*/ | [\w.]+\(.{0,200}\)\s*[;{]?$ | </?\w+[^>]{0,200}>
    )
    | .{0,400}[;{}]\s*$
    """,
    re.X,
)
_LOOKED_AT = 200
_ENOUGH = 4
_SHARE = 0.65


def looks_like_code(lines: Sequence[str]) -> bool:
    """Tell whether lines that nobody marked as code are code, by their beginning."""
    some = [line.rstrip()[:_LONGEST] for line in lines[: 2 * _LOOKED_AT] if line.strip()][:_LOOKED_AT]
    if len(some) < _ENOUGH:
        return False
    return sum(_CODE_LINE.match(line) is not None or line[0] in " \t" for line in some) >= _SHARE * len(some)


def strengths(lines: Sequence[str], language: str = "") -> list[float]:
    """Say for each line how good a cut before it would be."""
    if language in _INDENTED or (not language and any(_is_definition(line) for line in lines)):
        return _by_indentation(lines)
    if any("{" in line for line in lines):
        return _by_braces(lines)
    return [_plain(lines, place) for place in range(len(lines))]


def _is_definition(line: str) -> bool:
    return _OPENS.match(line.lstrip()) is not None and line.rstrip().endswith((":", "(", ","))


def _plain(lines: Sequence[str], place: int) -> float:
    if place and not lines[place - 1].strip():
        return BLANK
    return LINE / (1 + _indent(lines[place]) / 4)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _by_indentation(lines: Sequence[str]) -> list[float]:
    found: list[float] = []
    lead, before = -1, 0  # where comments and decorators above a definition begin; how far the line before was set in
    for place, line in enumerate(lines):
        inner = line.lstrip(" \t")
        if not inner.strip():
            found.append(LINE)
            lead = -1
            continue
        indent = len(line) - len(inner)
        found.append(_plain(lines, place))
        if _OPENS.match(inner):
            first = lead if lead >= 0 else place
            found[first + 1 :] = [GLUE] * (place - first)
            found[first] = FUNCTION if indent == 0 else max(METHOD - indent / 4 + 1, LINE)
        elif indent == 0 < before and lead < 0:
            found[-1] = STATEMENT
        lead = (lead if lead >= 0 else place) if _LEADS.match(inner) else -1
        before = indent
    return found


def _by_braces(lines: Sequence[str]) -> list[float]:
    found: list[float] = []
    depth, closed, comment = 0, False, False
    for place, line in enumerate(lines):
        if not line.strip():
            found.append(LINE)
            continue
        if comment:
            strength = LINE
        elif closed and depth < 2:
            strength = FUNCTION if depth == 0 else METHOD
        else:
            strength = _plain(lines, place) / (1 + depth / 2)
        if line.lstrip()[:1] in "})]":
            strength = GLUE
        found.append(strength)
        code = _QUOTED.sub("", line[:_LONGEST])
        comment = (comment or "/*" in code) and "*/" not in line
        if not comment:
            after = max(0, depth + code.count("{") - code.count("}"))
            closed = "}" in code and after <= depth
            depth = after
    return found
