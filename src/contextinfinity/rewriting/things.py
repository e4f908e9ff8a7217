"""Something that was named in a conversation, and what is known of it."""

from __future__ import annotations

import re

from msgspec import Struct, field

from contextinfinity.rewriting.lexicon import NO_NAMES, Gender, Kind, Pronoun
from contextinfinity.rewriting.naming import Mention

GENDERS: dict[str, Gender] = {"he": "m", "she": "f"}
COUNTED: tuple[Kind, ...] = ("date", "number")
"""Kinds that no pronoun means."""
MAYBE_HUMAN = 0.3
"""From here on a name may be a person's."""

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
            words=name_words(mention.name),
        )

    def fits(self, pronoun: Pronoun) -> float:
        """Tell how well a pronoun can mean it, from 0 to 1."""
        if self.kind in COUNTED:
            return 0.0
        if pronoun == "they":
            alone = 0.08 if self.gender else 0.5 * (1 - self.human)
            return 1.0 if self.plural else 0.8 if self.kind == "organisation" else alone
        if pronoun == "it":
            if self.gender:
                return 0.0 if self.is_sure else 0.3 * (1 - self.human)
            return (1 - self.human) * (0.3 if self.plural or self.kind == "place" else 1.0)
        if self.plural or (self.is_sure and self.gender != GENDERS[pronoun]):
            return 0.0
        return self.human * (1.0 if self.gender == GENDERS[pronoun] else 0.12 if self.gender else 0.7)

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


def name_words(name: str) -> frozenset[str]:
    """Give the words by which a name is known."""
    words = _WORD.findall(name.lower())
    return frozenset(word for word in words if word not in NO_NAMES) or frozenset(words)
