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
_MOST = 20
"""Entries of a list that are counted."""
_MORE = listed("else other others another additional more next")
_NOT_MORE = listed("each the no once his her their its my our your")
"""Words before "other" or "more" with which it does not ask for more."""
_EXPLETIVE = re.compile(
    r"\b(?:is|was|would|isn't|will) it (?:be )?(?:true|possible|ok|okay|necessary|likely|raining|fair"
    r"|correct)\b"
    r"|\bit(?:'s|’s| is| was) (?:true|possible|raining|that|clear|important|time)\b"
    r"|\bit (?:take|takes|took|seems?|rains?)\b|\bmake it(?! (?:to|in|on|for|from|with|at)\b)|\bwhat time is it\b"
    r"|\bworth it\b|\bfar is it (?=to\b|from \w{1,30} to\b)"
    r"|\bis it (?:warm|cold|hot|sunny|windy|safe to|better to|worth)\b"
    r"|\bthat['’]s it\b|\bhow much (?:does|did|would|will) it cost to\b|\bwho (?:is|was) it\b"
    r"|\bwhat (?:is|was) it like\b|\bis it going to (?=rain|snow|be\b)|\bwill it (?:rain|snow)\b"
    r"|\b(?:cold|warm|hot|late|dark) (?:is|was|will) it\b"
    r"|\b(?:undo|redo|try|repeat) it\b|\bdo it(?= (?:myself|yourself|again|now|for)\b|\W*$)",
    re.I,
)
_THERE_IS = re.compile(
    r"\b(?:is|are|was|were|has|have|had|been|be|isn't|aren't|wasn't|weren't|where|will|would) there\b"
    r"|\bthere(?:'s|’s| is| are| was| were| has| have| been| any| will)\b",
    re.I,
)


_WHICH_THERE = re.compile(r"\b(?:which|what) [\w ]{2,40} are there\W*$", re.I)
"""Where "there" at the end is a place all the same: "Which museums are there?"."""
_TO = listed(
    """
    get go goes going gone went come comes coming came travel drive driving fly flying walk move moved moving
    head return been back
    """
)
"""Words behind which "there" says whither."""
_FROM = listed("from near around to in at")
"""Words behind which it is only a name."""
_COUNTED = listed("number option no")


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
    lead: str = ""
    """The word that goes before a place or a date: "in", "to"; none where the message has one."""


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
    if _WHICH_THERE.search(message) is None:
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
        return None if token.low == "it's" else _pronoun(token, low, after)
    if low in ("this", "that", "these", "those"):
        return _demonstrative(token, before, after)
    if low == "the" and after is not None:
        following = said[index + 2] if not after.closes else None
        return _definite(token, after, following)
    if low in ("there", "then"):
        return _adverb(token, low, before, after)
    if low in _COUNTED and after is not None and after.low.isdecimal() and 0 < int(after.low[:3]) <= _MOST:
        return _choice(token, after, int(after.low[:3]) - 1)
    if low in _MORE and before not in _NOT_MORE and not before.endswith("'s"):
        return None if low in ("more", "next") and after is not None else _at("more", token)
    return None


def _adverb(token: Token, low: str, before: str, after: Token | None) -> Reference | None:
    if low == "there":
        lead = "" if before in _FROM else "to" if before in _TO else "in"
        return Reference(points="there", start=token.start, end=token.end, text=token.text, lead=lead)
    lead = "" if before in ("by", "since", "until") else "in"
    if not (lead == "" or before == "back" or (after is None and before)):
        return None  # "then" only goes on
    return Reference(points="then", start=token.start, end=token.end, text=token.text, lead=lead)


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
        end=token.end if token.low.endswith("'s") else token.start + len(low),
        text=token.text if token.low.endswith("'s") else token.text[: len(low)],
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
    if (which := after.low.removesuffix("'s")) in ("former", "latter"):
        return _choice(token, after, 0 if which == "former" else -1)
    if after.low in ORDINALS and (following is None or one or following.low in ("and", "or")):
        return _choice(token, following if following and one else after, ORDINALS[after.low])
    if after.low in ("last", "other") and following is not None and one:
        return _choice(token, following, -1 if after.low == "last" else None)
    if after.low in NOUNS and NOUNS[after.low] not in ("date", "number"):
        return _at("description", token, after, noun=after.low)
    if after.text[0].isupper() or after.low in _STARTERS or after.low in _PREPOSITIONS:
        return None
    return _at("definite", token, after, noun=after.low)


def _choice(first: Token, last: Token, place: int | None) -> Reference:
    said = last.text.removesuffix("'s").removesuffix("’s")  # the ending stays for the name: "the former's"
    text, end = f"{first.text} {said}", last.start + len(said)
    return Reference(points="choice", start=first.start, end=end, text=text, place=place)


def worded(reference: Reference, name: str, lead: str = "") -> str:
    """Give a name the form that the place of a reference asks for; ``lead`` stands in for "in": "at", "on"."""
    if reference.text[-2:] in ("'s", "’s"):  # "he's" may be "he is" or "he has"
        return f"{reference.text} ({name})"
    if reference.points == "possessive":
        return f"{name}'" if name.endswith("s") else f"{name}'s"
    before = lead or "in" if reference.lead == "in" else reference.lead
    return f"{before} {name}".lstrip()
