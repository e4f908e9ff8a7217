"""Where a message points at something it does not name."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.rewriting.lexicon import CLASSES, NOUNS, ORDINALS, OWNING, SLIPS, Pronoun, listed

Points: TypeAlias = Literal[
    "pronoun", "possessive", "this", "description", "definite", "choice", "there", "then", "more"
]
"""How it points: "he", "his", "this", "that book", "the prototypes", "the second one", "there", "then", "else"."""

_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_MARK = re.compile(r"[,.;:?!()]")
_PREPOSITIONS = listed(
    """
    after before since during about of from with to by like for on in at until into over than besides through
    because regarding against
    """
)
_AUXILIARIES = listed("is are was were do does did has have had can could will would be been what why how")
_STARTERS = listed(
    """
    he she it they we you i the a an his her their there this that these those is are was were do does did has
    have had can could would will
    """
)
_NOT_OWNED = (
    _PREPOSITIONS
    | _STARTERS
    | _AUXILIARIES
    | listed(
        """
        and or but so too again now then today yesterday tomorrow when where if while as well not please later
        soon
        """
    )
)
"""Words behind "her" that nobody owns."""
_MORE = listed("else other others another additional more next")
_NOT_MORE = listed("each the no once his her their its my our your")
"""Words before "other" or "more" with which it does not ask for more."""
_EXPLETIVE = re.compile(
    r"\b(?:is|was|would|isn't|will) it (?:be )?(?:true|possible|ok|okay|necessary|likely|raining|fair"
    r"|correct)\b"
    r"|\bit(?:'s|’s| is| was) (?:true|possible|raining|that|clear|important|time)\b"
    r"|\bit (?:take|takes|took|seems?|rains?)\b|\bmake it clear\b|\bwhat time is it\b",
    re.I,
)
_THERE_IS = re.compile(
    r"\b(?:is|are|was|were|has|have|had|been|be|isn't|aren't|wasn't|weren't|where|will|would) there\b"
    r"|\bthere(?:'s|’s| is| are| was| were| has| have| been| any| will)\b",
    re.I,
)


class Token(Struct, frozen=True):
    """A word of a message; ``closes`` when a mark or nothing follows it."""

    text: str
    low: str
    start: int
    end: int
    closes: bool


class Reference(Struct, frozen=True, kw_only=True):
    """A place in a message that points elsewhere."""

    points: Points
    start: int
    end: int
    text: str
    pronoun: Pronoun | None = None
    acts: bool = True
    """It can be the one who acts; "him" cannot."""
    noun: str = ""
    place: int | None = None
    """Which of several: 0 is the first, -1 the last, None the other one."""


def tokens(message: str) -> list[Token]:
    """Give the words of a message."""
    matches = [*_TOKEN.finditer(message)]
    ends = [*(match.start() for match in matches[1:]), len(message)]
    return [
        Token(
            match[0],
            match[0].lower().replace("’", "'"),
            match.start(),
            match.end(),
            end == len(message) or _MARK.search(message, match.end(), end) is not None,
        )
        for match, end in zip(matches, ends, strict=False)
    ]


def references(message: str, said: list[Token]) -> list[Reference]:
    """Find the places, in the order in which they stand."""
    idle = {match.start() + match[0].lower().find("it") for match in _EXPLETIVE.finditer(message)}
    idle |= {match.start() + match[0].lower().find("there") for match in _THERE_IS.finditer(message)}
    found: list[Reference] = []
    for index, token in enumerate(said):
        if (found and token.start < found[-1].end) or token.start in idle:
            continue
        reference = _reference(said, index)
        if reference is not None:
            found.append(reference)
    return found


def _reference(said: list[Token], index: int) -> Reference | None:
    token = said[index]
    low = token.low.removesuffix("'s")
    after = None if token.closes else said[index + 1]
    before = said[index - 1].low if index else ""
    if low in CLASSES or low in SLIPS:
        return _pronoun(token, low, after)
    if low in ("this", "that", "these", "those"):
        return _demonstrative(token, before, after)
    if low == "the" and after is not None:
        following = said[index + 2] if not after.closes else None
        return _definite(token, after, following)
    if low == "there":
        return _at("there", token)
    if low == "then":
        late = (after is None and index > 0) or before in ("back", "by", "since", "until")
        return _at("then", token) if late else None
    if low in _MORE and before not in _NOT_MORE and not before.endswith("'s"):
        return None if low in ("more", "next") and after is not None else _at("more", token)
    return None


def _at(
    points: Points, first: Token, last: Token | None = None, *, pronoun: Pronoun | None = None, noun: str = ""
) -> Reference:
    end, text = (last.end, f"{first.text} {last.text}") if last else (first.end, first.text)
    return Reference(points=points, start=first.start, end=end, text=text, pronoun=pronoun, noun=noun)


def _pronoun(token: Token, low: str, after: Token | None) -> Reference:
    pronoun = CLASSES.get(low) or SLIPS[low]
    owns = after is not None and (low in OWNING or low in SLIPS or (low == "her" and after.low not in _NOT_OWNED))
    return Reference(
        points="possessive" if owns else "pronoun",
        start=token.start,
        end=token.start + len(low),
        text=token.text[: len(low)],
        pronoun=pronoun,
        acts=owns or low not in ("him", "them", "her"),
    )


def _demonstrative(token: Token, before: str, after: Token | None) -> Reference | None:
    plural = token.low in ("these", "those")
    pronoun: Pronoun = "they" if plural else "it"
    if after is None:
        return _at("this", token, pronoun=pronoun)
    if after.low in ("one", "ones"):
        return _at("pronoun", token, after, pronoun=pronoun)
    if after.low in NOUNS:
        return _at("description", token, after, pronoun=pronoun, noun=after.low)
    if token.low == "that" and before and before not in _AUXILIARIES and before not in _PREPOSITIONS:
        return None  # "the man that won": it joins
    if after.low in _STARTERS or after.low in _PREPOSITIONS:
        return _at("this", token, pronoun=pronoun)
    if after.low.removesuffix("s") in NOUNS or after.low in NOUNS or before in _PREPOSITIONS or plural:
        return _at("description", token, after, pronoun=pronoun, noun=after.low)
    return _at("this", token, pronoun=pronoun)


def _definite(token: Token, after: Token, following: Token | None) -> Reference | None:
    one = following is not None and following.low in ("one", "ones")
    if after.low in ("former", "latter"):
        return _choice(token, after, 0 if after.low == "former" else -1)
    if after.low in ORDINALS and (following is None or one):
        return _choice(token, following or after, ORDINALS[after.low])
    if after.low in ("last", "other") and following is not None and one:
        return _choice(token, following, -1 if after.low == "last" else None)
    if after.low in NOUNS and NOUNS[after.low] not in ("date", "number"):
        return _at("description", token, after, noun=after.low)
    if after.text[0].isupper() or after.low in _STARTERS or after.low in _PREPOSITIONS:
        return None
    return _at("definite", token, after, noun=after.low)


def _choice(first: Token, last: Token, place: int | None) -> Reference:
    text = f"{first.text} {last.text}"
    return Reference(points="choice", start=first.start, end=last.end, text=text, place=place)


def worded(reference: Reference, name: str) -> str:
    """Give a name the form that the place of a reference asks for."""
    if reference.points == "possessive":
        return f"{name}'" if name.endswith("s") else f"{name}'s"
    return f"in {name}" if reference.points in ("there", "then") else name
