"""The turns before a message, and the things they name.

Short names are merged into their longest form ("Zappa" into "Frank Zappa"). The time is bounded: of a long conversation
only the first and the newest turns are read, each in part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct, field

from contextinfinity.domain.thread import Turn
from contextinfinity.rewriting.names import Gender, Kind, Mention, mentions, name_words
from contextinfinity.text.vocabulary import words

TURNS: Final = 20
"""The number of newest turns that are read, besides the first."""
NEAR: Final = 4
"""The number of these that are read at length."""
LONG: Final = 1_500
"""The number of characters that are read of such a turn."""
SHORT: Final = 400
"""The number of characters that are read of an older turn."""
MOST: Final = 200
"""The maximum number of things."""

_CLASSES: Final = words("en", "references")
_CAPITAL: Final = re.compile(r"[A-ZÀ-Ý]\w+")
_JOINING: Final = (" and ", " or ", ", and ", ", or ", " & ")
_GOES_ON: Final = re.compile(r",? (?:and|or) |, [A-ZÀ-Ý]")
_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


class ReferredThing(Struct, eq=False, kw_only=True):
    """Something that was named."""

    name: str
    kind: Kind
    gender: Gender = ""
    is_person: bool = False
    may_be_person: bool = False
    noun: str = ""
    """The noun that was used for it: "film"."""
    words: frozenset[str] = frozenset()
    order: int = 0
    """The rank by first mention; later ones are larger."""
    beside: list[ReferredThing] = field(default_factory=list)
    """The things that were named together with it."""
    turns: list[int] = field(default_factory=list)
    """The turns that name it, once per mention; -1 means the memories."""

    @property
    def last(self) -> int:
        """The last turn that names it."""
        return self.turns[-1]

    def add(self, mention: Mention, turn: int) -> None:
        """Add a mention; the longest name is kept."""
        if len(mention.name) > len(self.name) and mention.kind == self.kind:
            self.name, self.words = mention.name, self.words | name_words(mention.name)
        if mention.is_person and not self.is_person:
            self.kind, self.is_person, self.may_be_person = "person", True, True
        self.gender = self.gender or mention.gender
        self.turns.append(turn)

    def set_same_kind(self, other: ReferredThing) -> None:
        """Return two things that were named together the same kind: "Einstein and Newton"."""
        self.beside.append(other)
        other.beside.append(self)
        for one, two in ((self, other), (other, self)):
            if one.is_person and two.may_be_person:
                two.is_person, two.kind = True, "person"
            elif one.noun and not two.noun:
                two.kind, two.noun, two.is_person, two.may_be_person = one.kind, one.noun, False, False


class ReferenceContext(Struct, kw_only=True):
    """The turns, oldest first, and the things they name."""

    texts: list[str]
    users: list[int]
    """The indexes of the user's turns."""
    answer: int
    """The index of the newest turn if it is the assistant's, otherwise -2."""
    things: list[ReferredThing]

    @classmethod
    def of(cls, turns: Sequence[Turn], snippet: str | None) -> ReferenceContext:
        """Read the turns before a message and the memories of the user."""
        said = [turn for turn in turns if turn.role in ("user", "assistant")]
        read = said if len(said) <= TURNS else [said[0], *said[1 - TURNS :]]
        texts = [window(turn.content, LONG if index >= len(read) - NEAR else SHORT) for index, turn in enumerate(read)]
        users = [index for index, turn in enumerate(read) if turn.role == "user"]
        answer = len(read) - 1 if read and read[-1].role == "assistant" else -2
        conversation = cls(texts=texts, users=users, answer=answer, things=[])
        if snippet:
            conversation._read(window(snippet, LONG), -1)
        for index, text in enumerate(texts):
            conversation._read(text, index)
        return conversation

    @property
    def newest(self) -> int:
        """The index of the newest turn."""
        return len(self.texts) - 1

    def ranked(self) -> list[ReferredThing]:
        """Return the things, most recently named first."""
        return sorted(self.things, key=lambda thing: (-thing.last, thing.order))

    def pronoun_turns(self, pronoun: Gender) -> list[int]:
        """Return the user's turns that use a pronoun."""
        return [index for index in self.users if not _CLASSES[pronoun].isdisjoint(low_words(self.texts[index]))]

    def _read(self, text: str, turn: int) -> None:
        is_answer = turn > 0 and self.texts[turn - 1].rstrip().endswith("?")
        found = [*_without_regions(text, mentions(text, is_answer=is_answer))]
        named = [self._add_mention(mention, turn) for mention in found]
        for (one, first), (other, second) in pairwise(zip(named, found, strict=True)):
            if text[first.end : second.start] in _JOINING:
                one.set_same_kind(other)
        self._count_openers(text, turn)
        people = [(thing, mention) for thing, mention in zip(named, found, strict=True) if thing.may_be_person]
        if people and len({id(thing) for thing, _ in people}) == 1:
            _infer_gender(*people[0], text)

    def _count_openers(self, text: str, turn: int) -> None:
        """Count known one-word names that start a sentence of this text."""
        capitals = {*_CAPITAL.findall(text)}
        for thing in self.things:
            if thing.name in capitals and thing.last != turn:
                thing.turns.append(turn)

    def _add_mention(self, mention: Mention, turn: int) -> ReferredThing:
        known = self._thing_named_by(mention)
        if known is None:
            known = ReferredThing(
                name=mention.name,
                kind=mention.kind,
                is_person=mention.is_person,
                may_be_person=mention.may_be_person,
                noun=mention.noun,
                words=name_words(mention.name),
                order=len(self.things),
            )
            if len(self.things) < MOST:
                self.things.append(known)
        known.add(mention, turn)
        return known

    def _thing_named_by(self, mention: Mention) -> ReferredThing | None:
        """Find the thing that a mention names: with the same name, or the only one whose name contains it."""
        named = name_words(mention.name)
        same = [thing for thing in self.things if thing.words == named or thing.name == mention.name]
        if same:
            return same[-1]
        if mention.kind in ("date", "number", "file", "function"):
            return None
        near = [
            thing
            for thing in self.things
            if (named < thing.words or (thing.words < named and (thing.is_person or mention.is_person)))
            and thing.kind not in ("date", "number", "file", "function")
        ]
        agreeing = [thing for thing in near if not (thing.gender and mention.gender and thing.gender != mention.gender)]
        return agreeing[0] if len(agreeing) == 1 else None


def _without_regions(text: str, found: Sequence[Mention]) -> Iterator[Mention]:
    """Drop the region of a place ("Paris, France") and places named after their town ("Prague Castle")."""
    towns = [name_words(one.name) for one in found if one.kind == "place"]
    for index, mention in enumerate(found):
        before = found[index - 1] if index else None
        if mention.kind == "place":
            follows = before is not None and before.kind == "place" and text[before.end : mention.start] == ", "
            if follows and not _GOES_ON.match(text, mention.end):
                continue
            if any(town < name_words(mention.name) for town in towns):
                continue
        yield mention


def _infer_gender(thing: ReferredThing, mention: Mention, text: str) -> None:
    """Infer the gender of the only person in a text from the pronouns after the name."""
    before, after = low_words(text[: mention.start]), low_words(text[mention.end :])
    used: list[Gender] = [one for one in ("he", "she") if not _CLASSES[one].isdisjoint(after)]
    if len(used) == 1 and not thing.gender and not any(_CLASSES[one] & before for one in ("he", "she")):
        thing.gender, thing.is_person, thing.kind = used[0], True, "person"


def low_words(text: str) -> set[str]:
    """Return the words of a text in lower case."""
    return {word.lower().replace("’", "'") for word in _WORD.findall(text)}


def window(text: str, most: int = LONG) -> str:
    """Return the part of a text that is read: its beginning and a part of its end, without splitting words."""
    if len(text) <= most:
        return text
    front, end = text[: most * 2 // 3], text[-most // 3 :]
    cut = max(front.rfind(" "), front.rfind("\n"))
    return f"{front[:cut] if cut > 0 else front}\n{end[max(0, end.find(' ')) :]}"
