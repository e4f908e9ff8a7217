"""Highlight code by class names, in linear time, whatever it holds.

One regular expression per comment style finds comments, strings, numbers and words; the words that are keywords of
common languages are marked. Pygments knows languages better, but several of its lexers take quadratic time, inside one
regular expression that holds the interpreter lock: 20,000 hostile characters stop the whole server for 30 seconds. Here
every alternative consumes what it looked at, so no character is looked at twice.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HASH = _words("bash conf dockerfile ini makefile perl php powershell py python r rb ruby sh shell toml yaml yml zsh")

SLASHES = _words(
    "c c# c++ cpp cs csharp css go java javascript js json jsx kotlin php rs rust scala swift ts tsx typescript zig"
)

DASHES = _words("haskell lua sql")

MARKUP = _words("html svg xml")
"""The languages by how their comments begin."""

KEYWORDS = _words(
    "and as assert async await begin bool boolean break case catch char class const continue create def default"
    " defer del delete do double done echo elif else elsif end enum esac except export extends extern false fi final"
    " finally float fn for foreach from func function go goto group guard if impl implements import in insert"
    " int interface internal into is join lambda let limit local long loop match mod module mut namespace new nil none"
    " not null of on or order override package pass private protected pub public raise range require return select self"
    " set short sizeof static string struct super switch table template then this throw throws trait true try type"
    " typedef typeof union unless unsafe until update use using val values var virtual void volatile when where while"
    " with yield"
)

_REST = (
    r"""(?P<s>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*`?)"""
    r"""|(?P<m>\b\d[\w.]*)|(?P<w>[^\W\d]\w*)"""
)

_COMMENTS = {
    "hash": r"#[^\n]*",
    "slashes": r"//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?",
    "dashes": r"--[^\n]*",
    "markup": r"<!--(?:[^-]|-(?!->))*(?:-->)?",
}

_STYLES = (("hash", HASH), ("slashes", SLASHES), ("dashes", DASHES), ("markup", MARKUP))


def highlight(code: str, language: str) -> str:
    """Return escaped code with ``<span class>`` around comments (c), strings (s), numbers (m) and keywords (k).

    An unknown language gives an empty string.
    """
    styles = tuple(style for style, known in _STYLES if language.lower() in known)
    if not styles:
        return ""
    made, done = [], 0
    for found in _pattern(styles).finditer(code):
        made.append(escape(code[done : found.start()]))
        made.append(_marked(found))
        done = found.end()
    return "".join(made) + escape(code[done:])


@cache
def _pattern(styles: tuple[str, ...]) -> re.Pattern[str]:
    comments = "|".join(_COMMENTS[style] for style in styles)
    return re.compile(f"(?P<c>{comments})|{_REST}")


def _marked(found: re.Match[str]) -> str:
    kind, text = found.lastgroup, found[0]
    if kind == "w":
        kind = "k" if text.lower() in KEYWORDS else None
    return escape(text) if kind is None else f'<span class="{kind}">{escape(text)}</span>'
