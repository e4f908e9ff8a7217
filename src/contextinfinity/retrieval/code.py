"""Rate the split before each line of code.

Code structured by indentation is split before definitions, together with the decorators and comments above them; code
with braces after closing braces; other code after empty lines. Nothing is parsed: the code may be incomplete, and the
time must be linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

GLUE = -3.0
"""The lines before and after belong together."""
FUNCTION = 7.5
METHOD = 6.0
STATEMENT = 5.0
BLANK = 4.0
LINE = 2.0

_INDENTED = frozenset({"python", "py", "python3", "pyi", "gdscript", "nim", "coffee", "coffeescript"})
_OPENS = re.compile(r"(?:async\s+)?def\s|class\s")
_LEADS = re.compile(r"@|#")
_HOLDS = re.compile(r"^[^)]*\{|\b(?:class|interface|struct|enum|trait|impl|object|record|extension)\b|^\W*function\b")
"""A line that opens a block of functions, rather than the body of one."""
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\]|\\.)*+\'|`[^`]*+`|//.*|/\*.*?\*/')
_LONGEST = 500
"""The number of characters of a line that are read."""

_CODE_LINE = re.compile(
    r"""
    \s*+(?:
      (?:async\s+)?def\s+\w+\s*\( | class\s+\w+ | (?:from\s+\S+\s+)?import\s | return\b | \#include\b | \#\[ | @\w+
    | (?:pub\s+)?(?:fn|struct|enum|impl|trait|mod)\s | (?:export\s+)?(?:async\s+)?function\b | func\s+[\w(]
    | (?:public|private|protected|static|const|let|var|package|using|namespace)\s+\w | (?:if|for|while|switch)\s*\(
    | (?:elif|else|try|except|finally)\b.{0,80}: | (?:if|for|while|with)\s.{1,120}:$
    | [\w.\[\]"']+\s*(?:[+*/-]?=|\+=)\s*\S | "[^"\n]{1,80}"\s*:\s | (?<=[\ \t])[\w.-]{1,60}:(?:\s|$)
    | (?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|FROM|WHERE|GROUP|ORDER|HAVING|LIMIT|UNION|VALUES|SET|AND|OR
      |RETURNS?|LANGUAGE|GRANT|REVOKE)\b
    | (?:(?:LEFT|RIGHT|INNER|OUTER|FULL|CROSS)\s)?JOIN\b | (?:raise|throw|print|echo|export|await|yield|assert|fi|end)\b
    | [{}()\[\]]+[;,]?$ | //|/\*|\*/ | [\w.]+\(.{0,200}\)\s*[;{]?$ | </?\w+[^>]{0,200}>
    )
    | .{0,400}[;{}]\s*$
    """,
    re.X,
)
_LOOKED_AT = 200
_ENOUGH = 4
_SHARE = 0.65
_SURE = 0.2
"""The minimum share of lines that are clearly code: indented text may also be a list or verse."""
_DENSE = re.compile(r"[{}()\[\];=<>]")
_QUOTES = re.compile(r"[\"':,]")
_PACKED, _DENSITY, _SAMPLE = 60, 0.08, 4_000
"""The minimum length of minified code, the minimum share of code characters in it, and the sample size."""


def looks_like_code(lines: Sequence[str]) -> bool:
    """Return whether lines without a code fence are code, judging by their beginnings."""
    some = [line.rstrip()[:_LONGEST] for line in lines[: 2 * _LOOKED_AT] if line.strip()][:_LOOKED_AT]
    if _packed(max(lines, key=len, default=""), sum(map(len, lines))):
        return True
    if len(some) < _ENOUGH:
        return False
    sure = [_CODE_LINE.match(line) is not None for line in some]
    likely = sum(known or line[0] in " \t" for known, line in zip(sure, some, strict=True))
    return likely >= _SHARE * len(some) and sum(sure) >= _SURE * len(some)


def _packed(longest: str, whole: int) -> bool:
    """Return whether most of a text is one line of minified code or data."""
    text = longest[:_SAMPLE]
    if len(text) < _PACKED or 2 * len(longest) < whole:
        return False
    signs = len(_DENSE.findall(text))
    return signs >= _DENSITY * len(text) and signs + len(_QUOTES.findall(text)) >= 2 * _DENSITY * len(text)


def strengths(lines: Sequence[str], language: str = "") -> list[float]:
    """Return the strength of a split before each line."""
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
    lead, before = -1, 0  # start of the comments and decorators above a definition; indentation of the previous line
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
    inner = METHOD  # strength between the blocks of the outermost one: high in a class, low in a function
    before = ""
    for place, line in enumerate(lines):
        if not line.strip():
            found.append(LINE)
            continue
        if comment:
            strength = LINE
        elif closed and depth < 2:
            strength = FUNCTION if depth == 0 else inner
        else:
            strength = _plain(lines, place) / (1 + depth / 2)
        if line.lstrip()[:1] in "})]":
            strength = GLUE
        found.append(strength)
        code = _QUOTED.sub("", line[:_LONGEST])
        comment = (comment or "/*" in code) and "*/" not in line
        if not comment:
            after = max(0, depth + code.count("{") - code.count("}"))
            if depth == 0 < after:
                opening = before + code if code.strip() == "{" else code
                inner = METHOD if _HOLDS.search(opening) else LINE
            closed = "}" in code and after <= depth
            depth, before = after, code
    return found
