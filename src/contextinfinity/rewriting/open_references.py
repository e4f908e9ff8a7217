"""Find the references in a message to something it does not name: "he", "that book", "there", "the file"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from contextinfinity.rewriting.names import Kind, noun_kind
from contextinfinity.text.cues import carries_content
from contextinfinity.text.vocabulary import everywhere, phrases, words

Points: TypeAlias = Literal["he", "she", "they", "it", "there", "then", "noun"]

SPARSE: Final = 4
"""A message without a name and with up to this many content words omits something: "Any awards?"."""
FULL: Final = 6
"""A message with more content words names its subject."""

_TABLE: Final = words("en", "references")
_CLASS: Final[dict[str, Points]] = {
    word: points for points in ("he", "she", "they", "it", "there", "then") for word in _TABLE[points]
}
_OPEN: Final = everywhere("references", "open") | _TABLE["pointing"]
_GOING_ON: Final = _TABLE["going_on"]
_INSIDE: Final = everywhere("references", "inside")
_TOKEN: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_IDLE: Final = re.compile(
    rf"\b(?:{'|'.join((*phrases('en', 'references')['idle_it'], *phrases('en', 'references')['idle_there']))})\b", re.I
)
_AT_END: Final = re.compile(r"\b(?:which|what) [\w ]{2,40} are there\W*$", re.I)
"""Phrases in which a final "there" is still a place: "Which museums are there?"."""
_POINTERS: Final = ("the", "this", "that")
_DEFINED: Final = re.compile(r" (?:of|that|which|who|where|in|from|called|named)\b|['’]s ")
"""What follows a noun that the message itself defines: "the capital of Peru"."""
_GOING: Final = re.compile(r"\b(?:get|go|going|went|come|travel|drive|fly|walk|move|moved|back|been) $", re.I)
_LED: Final = re.compile(r"\b(?:from|near|around|to|in|at|by|since|until) $", re.I)


class Reference(Struct, frozen=True, kw_only=True):
    """A reference in a message."""

    points: Points
    start: int
    end: int
    text: str
    owns: bool = False
    """Whether it is possessive and replaces "Anna's", not "Anna"."""
    kind: Kind | None = None
    """The kind of thing that its noun names: "that city"."""


def references(message: str) -> list[Reference]:
    """Return the references of an English message, in order."""
    said = [*_TOKEN.finditer(message)]
    idle = [] if _AT_END.search(message) else [match.span() for match in _IDLE.finditer(message)]
    found: list[Reference] = []
    for index, token in enumerate(said):
        after = said[index + 1] if index + 1 < len(said) else None
        reference = _reference(message, token, after)
        if reference is not None and not any(start <= reference.start < end for start, end in idle):
            found.append(reference)
    return found


def is_open(message: str, named_at: int | None) -> bool:
    """Return whether a message may omit something, in any language of the vocabulary.

    ``named_at`` is the position of the first name in the message: later references may refer to it.
    """
    said = [match[0].lower().replace("’", "'") for match in _TOKEN.finditer(message)]
    content = sum(carries_content(word) for word in said)
    if content > FULL or (named_at is None and content <= SPARSE):
        return content <= SPARSE
    goes_on = bool(said) and (said[0] in _GOING_ON or "_".join(said[:2]) in _GOING_ON)
    before = any((named_at is None or one.start < named_at) and one.points != "noun" for one in references(message))
    return goes_on or before or not _OPEN.isdisjoint(said) or any(word in message for word in _INSIDE)


def put(message: str, reference: Reference, names: Sequence[str]) -> str:
    """Replace a reference by names, in the grammatical form that the sentence needs."""
    name = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    if reference.text.endswith(("'s", "’s")):
        return message  # ambiguous: "he's" may be "he is" or "he has"
    if reference.owns:
        name += "'" if name.endswith("s") else "'s"
    elif reference.points in ("there", "then") and not _LED.search(message[: reference.start]):
        name = f"{'to' if _GOING.search(message[: reference.start]) else 'in'} {name}"
    return f"{message[: reference.start]}{name}{message[reference.end :]}"


def _reference(message: str, token: re.Match[str], after: re.Match[str] | None) -> Reference | None:
    low = token[0].lower().replace("’", "'")
    joined = after is not None and message[token.end() : after.start()] == " "
    following = after[0].lower() if after is not None and joined else ""
    if (points := _CLASS.get(low)) is not None:
        owns = bool(following) and (low in _TABLE["owning"] or (low == "her" and following not in _TABLE["not_owned"]))
        return Reference(points=points, start=token.start(), end=token.end(), text=token[0], owns=owns)
    if low not in _POINTERS or after is None or not following or _DEFINED.match(message, after.end()):
        return None
    if (kind := noun_kind(following)) is not None:
        text = f"{token[0]} {after[0]}"
        return Reference(points="noun", start=token.start(), end=after.end(), text=text, kind=kind)
    return None
