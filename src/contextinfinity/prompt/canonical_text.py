"""The canonical form of a text, in which ``quoting`` looks for tags that a model could take for its own.

Until nothing changes: remove invisible characters and combining marks, replace look-alike characters by ASCII, and
decode references and escapes (HTML, percent, quoted-printable, UTF-7, those of programming languages). Then collapse
white space. Disguises are undone in any order of nesting.

Every character of the canonical form has its source span, so that a tag that is found in the canonical form can be
changed in the source.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

_SUSPECT = re.compile(r"&\W{0,9}#?\w|\\[uxn07]|[^\x00-\x7f]|[<\[]/?\s{2,}|<\s<|>\s>|\\\W|[%=][\da-f]|%u|\+A", re.I)
"""A text without any of these is already canonical."""
_REFERENCE = re.compile(
    r"\\n\{[a-z -]{2,40}\}"
    r"|&#?\w{1,40};?|\\u\{[\da-f]{1,12}\}|\\u[\da-f]{4}(?:[\da-f]{4})?|\\x[\da-f]{2}|\\0?[1-7][0-7]{1,2}|%u[\da-f]{4}"
    r"|%[0-7][\da-f]|%[cd][\da-f]%[89ab][\da-f]|%e[\da-f](?:%[89ab][\da-f]){2}|%f[0-7](?:%[89ab][\da-f]){3}"
    r"|=(?:2f|3[ce]|5[bd]|7c)|\+A(?-i:Dw|D4|C8|Hw|Fs|F0)-",
    re.I,
)
_UTF_7 = {"Dw": "<", "D4": ">", "C8": "/", "Hw": "|", "Fs": "[", "F0": "]"}
_ROUNDS = 8
"""The maximum nesting depth of references that are decoded."""
_BLANK = re.compile(r"\s{2,}|(?<=<)\s(?=<)|(?<=>)\s(?=>)")
_LOOKS_BLANK = frozenset("\u2800\u3164\u115f\u1160\uffa0\U0001d159")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode's default-ignorable code points."""


class CanonicalText(Struct, frozen=True):
    """The canonical form, and the source span of each of its characters."""

    text: str
    spans: list[tuple[int, int]]

    def source(self, start: int, end: int) -> tuple[int, int]:
        """Return the source span of a span of the canonical form."""
        return self.spans[start][0], self.spans[end - 1][1]


def canonical_form(text: str, alike: Callable[[str], str]) -> CanonicalText | None:
    """Return the canonical form of a text, or None if it equals the text.

    ``alike`` replaces each character by the ASCII character that it looks like.
    """
    if not _SUSPECT.search(text):
        return None
    plain = _seen(CanonicalText(text, [(place, place + 1) for place in range(len(text))]), alike)
    for _ in range(_ROUNDS):
        decoded = _decoded(plain)
        if decoded is plain:
            break
        plain = _seen(decoded, alike)
    plain = _joined(plain)
    return None if plain.text == text else plain


def _seen(plain: CanonicalText, alike: Callable[[str], str]) -> CanonicalText:
    """Remove invisible characters; replace look-alikes by a space or an ASCII character."""
    if plain.text.isascii():
        return plain
    kept = [(_blank_or(sign), span) for sign, span in zip(plain.text, plain.spans, strict=True) if _is_seen(sign)]
    return CanonicalText(alike("".join(sign for sign, _ in kept)), [span for _, span in kept])


def _is_seen(sign: str) -> bool:
    return sign.isascii() or (_INVISIBLE.match(sign) is None and unicodedata.category(sign) not in ("Mn", "Me", "Cf"))


def _blank_or(sign: str) -> str:
    return " " if sign in _LOOKS_BLANK or unicodedata.category(sign) == "Zs" else sign


def _decoded(plain: CanonicalText) -> CanonicalText:
    """Decode all references once; return the same object if there are none."""
    signs: list[str] = []
    spans: list[tuple[int, int]] = []
    place = 0
    for found in _REFERENCE.finditer(plain.text):
        decoded = _decoded_reference(found[0])
        if decoded is None:
            continue
        sign, length = decoded
        end = found.start() + length
        signs += [plain.text[place : found.start()], sign]
        spans += plain.spans[place : found.start()]
        spans += [plain.source(found.start(), end)] * len(sign)
        place = end
    if not signs:
        return plain
    return CanonicalText("".join([*signs, plain.text[place:]]), [*spans, *plain.spans[place:]])


def _decoded_reference(reference: str) -> tuple[str, int] | None:
    """Return the decoded reference and its length: in "&ltsystem" only a prefix is the reference."""
    if reference[0] == "+":
        return _UTF_7[reference[2:4]], len(reference)
    if reference[0] in "%=" and reference[1] not in "uU":
        octets = bytes.fromhex(reference[1:].replace("%", ""))
        return octets.decode(errors="replace"), len(reference)
    if reference[:3] in ("\\N{", "\\n{"):
        with suppress(KeyError):
            return unicodedata.lookup(reference[3:-1]), len(reference)
        return None
    if reference[0] in "\\%":
        is_octal = reference[1].isdecimal()
        code = int(reference[1:], 8) if is_octal else int(reference[2:].strip("{}"), 16)
        return (chr(code), len(reference)) if code <= 0x10FFFF else None
    if reference[1] == "#":
        return _numbered(reference)
    decoded = html.unescape(reference)
    if decoded == reference:
        return None
    rest = 0
    while rest < min(len(decoded) - 1, len(reference)) and decoded[-1 - rest] == reference[-1 - rest]:
        rest += 1
    return decoded[: len(decoded) - rest], len(reference) - rest


def _numbered(reference: str) -> tuple[str, int] | None:
    number = re.match(r"&#(?:x([\da-f]+)|(\d+));?", reference, re.I)
    if number is None:
        return None
    code = int(number[1], 16) if number[1] else int(number[2])
    return (chr(code), number.end()) if code <= 0x10FFFF else None


def _joined(plain: CanonicalText) -> CanonicalText:
    """Collapse runs of white space."""
    signs: list[str] = []
    spans: list[tuple[int, int]] = []
    place = 0
    for found in _BLANK.finditer(plain.text):
        signs.append(plain.text[place : found.start()])
        spans += plain.spans[place : found.start()]
        beside = plain.text[max(0, found.start() - 1) : found.start()], plain.text[found.end() : found.end() + 1]
        if beside not in (("<", "<"), (">", ">")):
            signs.append("\n" if "\n" in found[0] else " ")
            spans.append(plain.source(*found.span()))
        place = found.end()
    return CanonicalText("".join([*signs, plain.text[place:]]), [*spans, *plain.spans[place:]])
