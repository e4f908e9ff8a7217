"""Read a question: its words, the exact ones among them, whom and when it is about, and whether it asks for a list.

A speaker's name is said by the other person more often than by the speaker, so it is no search word: it says whose
messages are preferred. Words that name a time are no search words either. An exact word (with a digit, an identifier,
a path, a quoted phrase) matches itself only, see ``exact``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec import Struct

from contextinfinity.retrieval.dates import TimeSpan, spans_in
from contextinfinity.retrieval.exact import exact_words
from contextinfinity.retrieval.vocabulary import pattern
from contextinfinity.text.keywords import terms, terms_of

MOST_WORDS = 32
"""Words of a question that are looked at; a longer one is a text."""
LONGEST = 4_000
QUESTION_MARKS = ("?", "？", "؟")
_SHORTEST_NAME = 3
"""Letters of a name from which its front alone may be meant by it."""
_NAME = re.compile(r"[^\W\d_][\w'’-]*")


class SearchQuestion(Struct, frozen=True, kw_only=True):
    """What is asked, and when; ``standalone`` is the same with all that it refers to, where it was made explicit.

    ``terms`` are words of the conversation that it may refer to; they help, and count far less than its own.
    """

    text: str
    asked_at: datetime
    standalone: str = ""
    terms: tuple[str, ...] = ()

    @property
    def full(self) -> str:
        """Both forms in one."""
        return "\n".join(filter(None, (self.text[:LONGEST], self.standalone[:LONGEST])))


class ParsedQuestion(Struct, frozen=True, kw_only=True):
    """A question, read."""

    words: tuple[str, ...]
    """Its terms as the index knows them, without names of speakers and words that name a time."""
    helpers: tuple[str, ...] = ()
    """Terms of the conversation that it may refer to."""
    exact: tuple[str, ...] = ()
    only_exact: bool = False
    """Whether it consists of nothing but exact words."""
    spans: tuple[TimeSpan, ...] = ()
    speakers: frozenset[str] = frozenset()
    """The speakers it names, in lower case."""
    of_assistant: bool = False
    """Whether it asks for something the assistant said."""
    lists: bool = False
    """Whether it asks for several things or for their number."""
    is_question: bool = False
    """Whether it asks at all: it holds a question mark, or opens as a question does."""


def search_terms(question: SearchQuestion) -> tuple[str, ...]:
    """Return the terms by which the index is searched, each once."""
    return tuple(dict.fromkeys((*terms(question.full), *terms(" ".join(question.terms)))))[:MOST_WORDS]


def exact_terms(question: SearchQuestion) -> tuple[str, ...]:
    """Return the terms of the question's exact words, by which texts that hold them are found."""
    return tuple(dict.fromkeys(terms(" ".join(exact_words(question.full)))))[:MOST_WORDS]


def may_name_a_speaker(question: SearchQuestion) -> bool:
    """Return whether a question holds a word in capitals, which could be somebody's name."""
    text = question.full
    opening = pattern("asks").sub("", text, count=1) if pattern("asks").match(text) else text
    return any(word[0].isupper() for word in _NAME.findall(opening))


def vector_text(question: SearchQuestion, speakers: Collection[str]) -> str:
    """Return the text that is embedded for a question: without speakers' names, which nobody says of themselves."""
    text = question.standalone or question.text
    named = _named(text, speakers)
    if not named:
        return text
    left = re.sub(rf"\b(?:{'|'.join(map(re.escape, named))})\b(?:['’]s\b|['’])?", " ", text)
    return " ".join(left.split()) or text


def read_question(
    question: SearchQuestion, speakers: Collection[str], *, newest: datetime | None = None
) -> ParsedQuestion:
    """Read a question; ``newest`` is the time of the newest text that was found.

    Times are reckoned from when the question is asked, or, where all that was found is older than what they then mean,
    from the newest of it: in an old conversation people mean the days of that conversation.
    """
    text = question.full
    spans = spans_in(text, question.asked_at)
    if newest is not None and spans and all(span.start > newest for span in spans):
        spans = spans_in(text, newest)
    named = _named(text, speakers)
    times = [span.words for span in spans]
    hidden = set(terms(" ".join((*named, *times))))
    words = tuple(term for term in dict.fromkeys(terms(text)) if term not in hidden)[:MOST_WORDS]
    exact = exact_words(text, times)
    helpers = dict.fromkeys(term for term in terms(" ".join(question.terms)) if term not in hidden.union(words))
    return ParsedQuestion(
        words=words,
        helpers=tuple(helpers),
        exact=exact,
        only_exact=bool(exact) and set(words) <= set(terms(" ".join(exact))),
        spans=spans,
        speakers=frozenset(_meant(named, speakers)),
        of_assistant=pattern("yours").search(text) is not None,
        lists=pattern("lists").search(text) is not None,
        is_question=any(mark in text for mark in QUESTION_MARKS) or pattern("asks").match(text.lstrip()) is not None,
    )


def _named(text: str, speakers: Collection[str]) -> list[str]:
    """Return the words of a text that stand for a speaker: a name, or its front with a capital letter."""
    parts = {part.lower() for name in speakers for part in _NAME.findall(name) if len(part) >= _SHORTEST_NAME}
    found = dict.fromkeys(_without_s(word) for word in _NAME.findall(text)) if parts else ()
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
