"""A message taken apart once, and the changes that make it explicit."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from contextinfinity.rewriting.lexicon import ENGLISH, NOT_ENGLISH, SMALL_TALK
from contextinfinity.rewriting.naming import Mention, mentions
from contextinfinity.rewriting.references import Reference, Token, references, tokens
from contextinfinity.rewriting.things import COUNTED, Thing

_ASKS = re.compile(
    r"\W*(?:who|whom|whose|what|which|when|where|why|how|did|do|does|was|were|is|are|has|have|had|can|could|would|any"
    r"|anything|tell me|so)\b",
    re.I,
)
_ORDERS = re.compile(
    r"\W*(?:how (?:do|can|should|to)|please|can you (?:write|make|help)|could you (?:write|make|help)|write|create"
    r"|translate|generate|make|tell|show|give|let's|define|rewrite|shorten|summari[sz]e|explain)\b",
    re.I,
)


class Change(Struct, frozen=True, kw_only=True):
    """Words to put in a place, and how sure we are that they belong there."""

    start: int
    end: int
    words: str
    sure: float
    thing: Thing | None = None


class Doubt(Struct, frozen=True, kw_only=True):
    """A reference that may mean several things."""

    reference: str
    candidates: tuple[Thing, ...]

    @property
    def in_order(self) -> list[Thing]:
        """The candidates as they were named, so that "the second" is the second."""
        return sorted(self.candidates, key=lambda thing: thing.order)


class Message(Struct, frozen=True, kw_only=True):
    """A message, its words, what it names and where it points."""

    text: str
    tokens: list[Token]
    words: frozenset[str]
    mentions: list[Mention]
    """What it names, but for dates and numbers."""
    references: list[Reference]

    @classmethod
    def of(cls, text: str) -> Message:
        """Take a message apart."""
        said = tokens(text)
        return cls(
            text=text,
            tokens=said,
            words=frozenset(token.low.removesuffix("'s") for token in said),
            mentions=[mention for mention in mentions(text) if mention.kind not in COUNTED],
            references=references(text, said),
        )

    @property
    def end(self) -> int:
        """Where its last word ends."""
        return len(self.text.rstrip(" ?.!\n"))

    @property
    def is_english(self) -> bool:
        """Tell whether it is not rather in another language that we know."""
        return len(self.words & NOT_ENGLISH) <= len(self.words & ENGLISH)

    @property
    def is_small_talk(self) -> bool:
        """Tell whether it says nothing but thanks and the like."""
        return self.words <= SMALL_TALK

    @property
    def thanks(self) -> bool:
        """Tell whether it closes something: "Thanks, that fixed it"."""
        return bool(self.tokens) and self.tokens[0].low in ("thanks", "thank") and "?" not in self.text


def asks(text: str) -> bool:
    """Tell whether a text is a question."""
    return text.rstrip().endswith("?") or _ASKS.match(text) is not None


def orders(text: str) -> bool:
    """Tell whether a text wants something done, and says what."""
    return _ORDERS.match(text) is not None


def applied(text: str, changes: Iterable[Change]) -> str:
    """Put all words in their places; of those for one place the first stands first."""
    written, place = [], 0
    for change in sorted(changes, key=lambda change: (change.start, change.end)):
        written += [text[place : change.start], change.words]
        place = change.end
    return "".join([*written, text[place:]])
