"""Something that was named in a conversation, and what is known of it."""

from __future__ import annotations

import re

from msgspec import Struct, field

from contextinfinity.rewriting.lexicon import NO_NAMES, PLACES, Gender, Kind, Pronoun
from contextinfinity.rewriting.naming import Mention

GENDERS: dict[str, Gender] = {"he": "m", "she": "f"}
COUNTED: tuple[Kind, ...] = ("date", "number")
"""Kinds that no pronoun means."""
MOST = 300
"""Things kept in mind."""
MAYBE_HUMAN = 0.3
"""From here on a name may be a person's."""
_SOMEBODY = 0.9
"""From here on it is a person's."""

_DAY = re.compile(r"(?:^|\s)\d{1,2}(?:st|nd|rd|th)?(?:,|\s|$)|day$")
_WORD = re.compile(r"\w+")


class Thing(Struct, eq=False):
    """Something that was named."""

    name: str
    kind: Kind
    human: float = 0.0
    """How likely it is a person."""
    gender: Gender = ""
    is_sure: bool = False
    """A pronoun has told the gender; a first name alone may mislead."""
    titled: bool = False
    """A title is about it: a pronoun may mean it, whatever its name seems to tell."""
    plural: bool | None = None
    weight: float = 0.0
    turn: int = -1
    """The turn that named or meant it last, counted from 0; -1 when only the memories name it."""
    order: int = 0
    """Grows with every mention: the larger, the later."""
    by_user: int = -1
    """The last turn in which the user named or meant it."""
    meant: int = -1
    """The last turn in which a pronoun of the user meant it."""
    is_part: bool = False
    """It only says where another one lies, or closes a span: "Paris, France"."""
    is_beside: bool = False
    """The user did something with or at it that has no name: "I bought shoes from Adidas"; "it" is rather the shoes."""
    article: str = ""
    """The word "the", where it was said before the name."""
    nouns: set[str] = field(default_factory=set)
    """Words that were said for it: "album"."""
    words: frozenset[str] = frozenset()

    @classmethod
    def of(cls, mention: Mention) -> Thing:
        """Begin with what a mention tells."""
        return cls(
            name=mention.name,
            kind=mention.kind,
            human=mention.human,
            gender=mention.gender,
            plural=mention.plural,
            article=mention.article,
            words=name_words(mention.name),
        )

    @property
    def called(self) -> str:
        """The name as it stands in a sentence."""
        return f"{self.article} {self.name}".lstrip()

    @property
    def lead(self) -> str:
        """The word that goes before a place or a date, in a sentence that says no other: "at the Hilton"."""
        if self.kind == "date":
            return "on" if _DAY.search(self.name) else "in"
        if self.kind == "organisation" or self.name.startswith("the "):
            return "at"
        return "at" if self.article and not self.words <= PLACES else "in"

    def fits(self, pronoun: Pronoun) -> float:
        """Tell how well a pronoun can mean it, from 0 to 1."""
        if self.kind in COUNTED:
            return 0.0
        if pronoun == "they":
            if self.kind in ("file", "function"):
                return 0.0
            alone = 0.08 if self.gender else 0.5 * (1 - self.human)
            return 1.0 if self.plural else 0.8 if self.kind == "organisation" else alone
        if pronoun == "it":
            if self.is_beside or (self.is_part and self.kind == "thing"):
                return 0.2 * (1 - self.human)
            if self.human >= _SOMEBODY and not self.titled:
                return 0.0
            if self.gender:
                return 0.0 if self.is_sure else 0.3 * (1 - self.human)
            return (1 - self.human) * (0.3 if self.plural or self.kind == "place" else 1.0)
        if self.plural or (self.is_sure and self.gender != GENDERS[pronoun]):
            return 0.0
        contradicts = self.gender not in ("", GENDERS[pronoun])
        if not self.titled and (contradicts or self.human < MAYBE_HUMAN):
            return 0.0
        return self.human * (0.04 if contradicts else 1.0 if self.gender else 0.7)

    def learn(self, pronoun: Pronoun) -> None:
        """Take from a pronoun that meant it what it tells."""
        if pronoun in GENDERS and not self.is_sure:
            self.gender, self.is_sure, self.human, self.kind = GENDERS[pronoun], True, 1.0, "person"
        elif pronoun == "they" and self.plural is None and not self.gender:
            self.plural, self.human = True, min(self.human, 0.2)

    def grow(self, mention: Mention) -> None:
        """Take the longer name."""
        self.name, self.words, self.kind = mention.name, name_words(mention.name), mention.kind
        self.human, self.gender = max(self.human, mention.human), self.gender or mention.gender


class Things:
    """The things named so far, found by the words of their names."""

    def __init__(self) -> None:
        self.all: list[Thing] = []
        self._by_word: dict[str, list[Thing]] = {}

    def called(self, name: str) -> Thing | None:
        """Find the thing that is called so, in part or in full."""
        words = name_words(name)
        fitting = [thing for thing in self._by_word.get(next(iter(words), ""), ()) if words <= thing.words]
        return max(fitting, key=lambda thing: thing.weight, default=None)

    def same(self, mention: Mention) -> Thing | None:
        """Find the thing a mention names: by a part of its name, or by a longer form of it."""
        known = self.called(mention.name)
        if known is not None or mention.human < MAYBE_HUMAN:
            return known
        words = name_words(mention.name)
        for thing in (thing for word in words for thing in self._by_word.get(word, ())):
            if thing.words < words and thing.human >= MAYBE_HUMAN:
                thing.grow(mention)
                self._index(thing)
                return thing
        return None

    def add(self, mention: Mention) -> Thing:
        """Begin a new thing; it is kept while there is room. What lies in a known place is a part of it."""
        thing = Thing.of(mention)
        around = (one for word in thing.words for one in self._by_word.get(word, ()))
        thing.is_part = thing.kind == "place" and any(one.kind == "place" and one.words < thing.words for one in around)
        if len(self.all) < MOST:
            self.all.append(thing)
            self._index(thing)
        return thing

    def _index(self, thing: Thing) -> None:
        for word in thing.words:
            called = self._by_word.setdefault(word, [])
            if thing not in called:
                called.append(thing)


def name_words(name: str) -> frozenset[str]:
    """Give the words by which a name is known."""
    words = _WORD.findall(name.lower())
    return frozenset(word for word in words if word not in NO_NAMES) or frozenset(words)
