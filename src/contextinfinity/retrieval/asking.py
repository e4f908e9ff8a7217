"""A question as a search reads it: whom it is about, when, and by which words it is answered.

    words     those that mean something, without the names of the speakers and without the words that name a time
    persons   a speaker who is named; without one, "my" stands for the user and "your" for the assistant
    spans     the times it names

A speaker's name is said by others more than by the speaker: as a word it leads astray, so it counts as a voice instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec import Struct

from contextinfinity.domain.chunk import ChunkSide
from contextinfinity.retrieval.dates import TimeSpan, spans_in
from contextinfinity.retrieval.lexicon import Word, words_of
from contextinfinity.text.keywords import terms, terms_of

MOST_WORDS = 32
"""Words of a question that are looked at; a longer one is a text."""
LONGEST = 4_000
_SHORTEST_NAME = 3
"""Letters of a name from which its front alone may be meant by it."""

_NAME = re.compile(r"[^\W\d_][\w'’-]*")
_MINE = re.compile(
    r"\b(?:my|mine|(?:did|have|had|was|am|do) I|I (?:said|told|wanted)|mein\w*|meus?|mon|mes|mis?)\b", re.I
)
_YOURS = re.compile(
    r"\b(?:your|yours|(?:did|have|had|were) you|you (?:said|told|suggested)|dein\w*|ton|tes|tus?)\b", re.I
)


class Question(Struct, frozen=True, kw_only=True):
    """What is asked, and when; ``standalone`` is the same with all that it refers to, where it was made explicit."""

    text: str
    asked_at: datetime
    standalone: str = ""
    terms: tuple[str, ...] = ()
    """Words of the conversation that the question leaves out; measured best at about 0.15 of an own word's weight."""

    @property
    def full(self) -> str:
        """Both forms in one."""
        return "\n".join(filter(None, (self.text[:LONGEST], self.standalone[:LONGEST])))


class Asked(Struct, frozen=True, kw_only=True):
    """A question, read."""

    words: tuple[Word, ...]
    spans: tuple[TimeSpan, ...] = ()
    speakers: frozenset[str] = frozenset()
    """Those it names, small."""
    side: ChunkSide | None = None
    """Whom "my" or "your" stands for, where no speaker is named."""


def search_terms(question: Question) -> tuple[str, ...]:
    """Give what a question is looked up by in an index of words, each once."""
    return tuple(dict.fromkeys(terms(question.full)))[:MOST_WORDS]


def vector_text(question: Question, speakers: Collection[str]) -> str:
    """Give the text that is placed for a question: without the speakers' names, which nobody says of themselves."""
    text = question.standalone or question.text
    named = _named(text, speakers)
    if not named:
        return text
    left = re.sub(rf"\b(?:{'|'.join(map(re.escape, named))})\b(?:['’]s\b|['’])?", " ", text)
    return " ".join(left.split()) or text


def read_question(question: Question, speakers: Collection[str], *, newest: datetime | None = None) -> Asked:
    """Read a question; ``newest`` is when the last of what was found was said.

    Times are reckoned from when the question is asked, or, where all that was found is older than what they then mean,
    from the newest of it: in an old conversation people mean the days of that conversation.
    """
    text = question.full
    spans = spans_in(text, question.asked_at)
    if newest is not None and spans and all(span.start > newest for span in spans):
        spans = spans_in(text, newest)
    named = _named(text, speakers)
    hidden = {word.term for word in words_of(" ".join((*named, *(span.words for span in spans))))}
    found = {word.term: word for word in reversed(words_of(text)) if word.term not in hidden}
    return Asked(
        words=tuple(reversed(found.values()))[:MOST_WORDS],
        spans=spans,
        speakers=frozenset(_meant(named, speakers)),
        side=None if named else _side(question.text),
    )


def _named(text: str, speakers: Collection[str]) -> list[str]:
    """Give the words of a text that stand for a speaker: a name, or its front with a capital letter."""
    parts = {part.lower() for name in speakers for part in _NAME.findall(name) if len(part) >= _SHORTEST_NAME}
    found = dict.fromkeys(_without_s(word) for word in _NAME.findall(text))
    return [word for word in found if _is_name(word, parts)]


def _without_s(word: str) -> str:
    return re.sub(r"['’]s?$", "", word)


def _is_name(word: str, parts: Collection[str]) -> bool:
    low, capital = word.lower(), word[:1].isupper()
    if low in parts:
        return capital or bool(terms_of(word))
    return capital and len(low) >= _SHORTEST_NAME and any(part.startswith(low) for part in parts)


def _meant(named: Sequence[str], speakers: Collection[str]) -> list[str]:
    lows = [word.lower() for word in named]
    return [
        name.lower()
        for name in speakers
        if any(part.lower().startswith(low) for part in _NAME.findall(name) for low in lows)
    ]


def _side(text: str) -> ChunkSide | None:
    mine, yours = _MINE.search(text) is not None, _YOURS.search(text) is not None
    if mine == yours:
        return None
    return "user" if mine else "assistant"
