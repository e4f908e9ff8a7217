"""Explicit requests of a user: "remember that …" and "forget that …"."""

from __future__ import annotations

import re
from typing import Final

from contextinfinity.domain.memory import LONGEST_MEMORY
from contextinfinity.memory.memory_findings import ForgetRequest, StatedFact, key_of
from contextinfinity.memory.third_person import sentence, to_third_person
from contextinfinity.text.keywords import terms
from contextinfinity.text.vocabulary import patterns

_PATTERNS: Final = patterns("statements")

_REMEMBER: Final = _PATTERNS["remember"]
_FORGET: Final = _PATTERNS["forget"]
_OF_ME = re.compile(r"\b(?:i|i'm|i've|my|me|mine|we|our|ich|mein\w*|je|mon|ma|mes|mi|mis)\b|^(?:that|about)\b", re.I)
_NO_MEMORY: Final = _PATTERNS["no_memory"]
"""Things that are forgotten in a conversation, not about a person."""
_SORTS = (
    (re.compile(r"^my name\b|^what i'm called", re.I), ("name",)),
    (re.compile(r"^where i live\b|^my (?:home|address|city|home town)\b", re.I), ("home", "my:address")),
    (re.compile(r"^my (?:job|work|profession|employer)\b|^where i work\b|^what i do\b", re.I), ("job", "employer")),
    (re.compile(r"^my age\b|^how old i am\b", re.I), ("age",)),
    (re.compile(r"^my diet\b|^what i eat\b", re.I), ("diet", "eats")),
    (re.compile(r"^my allerg(?:y|ies)\b", re.I), ("allergy",)),
)
_NOT = re.compile(r"\b(?:not|no|never|hate|\w+n't)\b", re.I)
_EVERYTHING: Final = _PATTERNS["everything"]
_STOP_ANSWERING: Final = _PATTERNS["stop_answering"]
"""An order that revokes a preference."""
_OFF_RECORD: Final = _PATTERNS["off_record"]
_ORDER: Final = _PATTERNS["order"]
_LABELLED = re.compile(r"\s*[:：]\s+|\s[-–—]\s")
_FIRST_PERSON = frozenset(["i", "im", "ive", "my", "me", "mine", "live", "work", "call", "name", "user"])


def is_order(text: str) -> bool:
    """Return whether a sentence instructs the assistant: it may bind a conversation, but is never a memory."""
    return _ORDER.match(text) is not None


def _orders(words: str) -> bool:
    """Return whether words are an order, also after a label ("my rule: always …")."""
    return any(map(is_order, _LABELLED.split(words)))


def request_in(text: str) -> StatedFact | None:
    """Return what a sentence asks to be remembered, as a note in the user's words; None for orders."""
    match = _REMEMBER.match(text)
    if match is None or '"' in match["x"] or len(terms(match["x"])) < 1 or _orders(match["x"]):
        return None
    words = match["x"]
    content = sentence(f"The user said: {to_third_person(words)}")
    if len(content) > LONGEST_MEMORY:
        return None
    about = ""
    if own := re.match(r"(?:my|our|the) ([\w' -]{2,40}?) (?:is|are|was)\b", words, re.I):
        about = f"my:{own[1].lower()}"
    return StatedFact(
        content=content,
        start=match.start("x"),
        end=match.end("x"),
        kind="note",
        about=about or f"note:{key_of(words)}",
        weight=7,
        origin="asked",
        confidence=1.0,
    )


def forget_request_in(text: str) -> tuple[ForgetRequest, str] | None:
    """Return what a sentence asks to be forgotten, and its words; None for phrases such as "forget it"."""
    if _EVERYTHING.match(text):
        return ForgetRequest(everything=True), ""
    if stopped := _STOP_ANSWERING.match(text):
        return ForgetRequest(abouts=("answers:language",), only=tuple(terms(stopped["x"]))), ""
    match = _FORGET.match(text)
    if match is None or not _OF_ME.search(text[match.start() : match.end()][6:]):
        return None
    named = match["x"]
    if _NO_MEMORY.search(named):
        return None
    words = tuple(dict.fromkeys(term for term in terms(named) if term not in _FIRST_PERSON))
    abouts: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    for pattern, sorts in _SORTS:
        if found := pattern.search(named):
            abouts, only = sorts, tuple(set(terms(named[found.end() :])) - _FIRST_PERSON)
            break
    unwanted = ForgetRequest(words=words, abouts=abouts, only=only, denied=_NOT.search(named) is not None)
    return (unwanted, named) if words or abouts else None


def is_off_record(message: str) -> bool:
    """Return whether the user asks that the message is not remembered."""
    return _OFF_RECORD.search(message.replace("’", "'")) is not None
