"""Parse a question: its words, the exact ones among them, speakers and times it names, and whether it asks for a list.

A speaker's name is used more often by the other person than by the speaker, so it is not a search word; it determines
whose messages are preferred. Words that name a time are not search words either. An exact word (with a digit, an
identifier, a path, a quoted phrase) matches only itself, see ``exact``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from contextinfinity.retrieval.dates import TimeSpan, spans_in
from contextinfinity.retrieval.exact import exact_words
from contextinfinity.retrieval.vocabulary import pattern
from contextinfinity.text.keywords import terms, terms_of

MOST_WORDS = 32
"""The number of words of a question that are used."""
LONGEST = 4_000
QUESTION_MARKS = ("?", "？", "؟")
_SHORTEST_NAME = 3
"""The minimum length of a prefix that may stand for a name."""
_NAME = re.compile(r"[^\W\d_][\w'’-]*")
_CAPITALISED = re.compile(r"(?<=[^\sA-Z.!?:…] )[A-Z][^\W\d_A-Z]{2,}\b")
"""A capitalised word within a sentence."""
_SENTENCES = re.compile(r"(?<=[.!?？؟])\s+|\n+")


class SearchQuestion(Struct, frozen=True, kw_only=True):
    """A question and its time; ``standalone`` is its rewritten form without open references, if there is one.

    ``terms`` are words of the conversation that it may refer to; they have a much lower weight than its own words.
    """

    text: str
    asked_at: datetime
    standalone: str = ""
    terms: tuple[str, ...] = ()

    @property
    def full(self) -> str:
        """The question followed by its standalone form."""
        return "\n".join(filter(None, (self.text[:LONGEST], self.standalone[:LONGEST])))


class ParsedQuestion(Struct, frozen=True, kw_only=True):
    """A parsed question."""

    words: tuple[str, ...]
    """Its index terms, without speakers' names and words that name a time."""
    helpers: tuple[str, ...] = ()
    """Index terms of the conversation that it may refer to."""
    exact: tuple[str, ...] = ()
    only_exact: bool = False
    """Whether it consists of exact words only."""
    spans: tuple[TimeSpan, ...] = ()
    speakers: frozenset[str] = frozenset()
    """The speakers it names, in lower case."""
    of_assistant: bool = False
    """Whether it asks for something that the assistant said."""
    names: tuple[tuple[str, ...], ...] = ()
    """The index terms of each name in it, except those of speakers."""
    lists: bool = False
    """Whether it asks for several things or for a count."""
    is_question: bool = False
    """Whether it is a question: it contains a question mark, or begins like one."""


def search_terms(question: SearchQuestion) -> tuple[str, ...]:
    """Return the distinct terms to search the index for."""
    return tuple(dict.fromkeys((*terms(question.full), *terms(" ".join(question.terms)))))[:MOST_WORDS]


def exact_terms(question: SearchQuestion) -> tuple[str, ...]:
    """Return the index terms of the question's exact words."""
    return tuple(dict.fromkeys(terms(" ".join(exact_words(question.full)))))[:MOST_WORDS]


def vector_text(question: SearchQuestion, speakers: Collection[str]) -> str:
    """Return the text to embed for a question: without speakers' names, because people rarely name themselves."""
    text = question.standalone or question.text
    named = _named(text, speakers)
    if not named:
        return text
    left = re.sub(rf"\b(?:{'|'.join(map(re.escape, named))})\b(?:['’]s\b|['’])?", " ", text)
    return " ".join(left.split()) or text


def read_question(
    question: SearchQuestion, speakers: Collection[str], *, newest: datetime | None = None
) -> ParsedQuestion:
    """Parse a question; ``newest`` is the time of the newest message that was found.

    Relative times refer to the time of the question, or to ``newest`` if they would otherwise lie after all
    messages found: in an old conversation people mean the days of that conversation.
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
        names=tuple(name for name in _other_names(text) if not hidden.issuperset(name) and {*name} & {*words}),
        of_assistant=pattern("yours").search(text) is not None,
        lists=pattern("lists").search(text) is not None,
        is_question=any(mark in text for mark in QUESTION_MARKS) or pattern("asks").match(text.lstrip()) is not None,
    )


def _other_names(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the terms of capitalised words within the sentences that ask, unless the language capitalises all nouns."""
    if pattern("capitalises").search(text):
        return
    sentences = _SENTENCES.split(text)
    for sentence in [each for each in sentences if each.endswith(QUESTION_MARKS)] or sentences:
        found = _CAPITALISED.findall(sentence)
        if 2 * len(found) < len(sentence.split()):  # otherwise every word is capitalised, as in a title
            yield from map(terms_of, found)


def _named(text: str, speakers: Collection[str]) -> list[str]:
    """Return the words of a text that refer to a speaker: a name, or a capitalised prefix of one."""
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
