"""Find the names in a text and the kind of thing each of them denotes.

``text.entities`` finds paths, symbols, dates, numbers and names; this module adds names at the start of a sentence and
classifies people, places and organisations by the vocabulary. Kinds are guesses: ``gender`` and ``is_person`` are set
only if a first name, a title or a kinship term indicates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.text.entities import MONTHS, Entity, entities
from contextinfinity.text.vocabulary import everywhere, words

Kind: TypeAlias = Literal["person", "organisation", "place", "work", "thing", "file", "function", "number", "date"]
Gender: TypeAlias = Literal["he", "she", ""]

MOST_READ: Final = 512
"""The number of texts whose names are cached: consecutive messages share most of their history."""

_FIRST: Final = words("names", "first_names")
_PLACES: Final = words("names", "places")
_PEOPLE: Final = words("en", "people")
_PARTS: Final = words("en", "name_parts")
_PLAIN: Final = everywhere("plain", "openers")
_NOUNS: Final[dict[str, Kind]] = {
    noun: kind  # type: ignore[misc]
    for kind, nouns in words("en", "kinds").items()
    for noun in nouns
}
_KINDS: Final[dict[str, Kind]] = {"path": "file", "symbol": "function", "date": "date", "number": "number"}
_OPENING: Final = re.compile(r"(?:^|[.!?:;…\n])\s{0,3}[\"“'(*-]{0,3}\s?([A-ZÀ-Ý][\w'’-]+)(?=[ ,.'’?!)]|$)")
_COORDINATED: Final = re.compile(r"(?:, (?:and |or )?| and | or )[A-ZÀ-Ý]\w|['’]s ")
_PARTICLE: Final = re.compile(r" (?:de la|van der|von der|de|da|di|del|la|le|van|von|bin|al|el) ")
_BEFORE: Final = re.compile(r"([\w-]+),? (?:is |was )?(?:called |named |titled )?(?:the )?[\"“'(]?$")
_WHO: Final = re.compile(r"\bwho(?:'s| is| was| are| were) (?:the \w+ )?$", re.I)
_POSSESSED: Final = re.compile(
    r"\b(?:my|our|his|her|their|your|user's)(?: [a-z]+)? ([a-z]+),?(?: is| was)?(?: called| named)? $", re.I
)
_TITLES: Final = "|".join(
    title.capitalize() for title in _PEOPLE["titles"] | _PEOPLE["titles_men"] | _PEOPLE["titles_women"]
)
_TITLE: Final = re.compile(rf"\b((?:{_TITLES})\.? )$")
_ORIGIN: Final = re.compile(r"[\w-]{2,40}(?:can|ian|ish|ese|ean)s?|French|German|Dutch|Swiss|Greek|Roman|Asian")
_YEAR: Final = re.compile(r"(?:1[0-9]|20)\d\d")
_TRAILING: Final = re.compile(r"['’]s?$")


class Mention(Struct, frozen=True, kw_only=True):
    """A name in a text."""

    name: str
    kind: Kind
    start: int
    end: int
    gender: Gender = ""
    is_person: bool = False
    noun: str = ""
    """The noun next to it that says what it is: "film"."""

    @property
    def may_be_person(self) -> bool:
        """Whether nothing indicates that it is something else."""
        return self.is_person or (self.kind == "thing" and not self.noun and self.name[:1].isupper())


@lru_cache(maxsize=MOST_READ)
def mentions(text: str, *, is_answer: bool = False) -> tuple[Mention, ...]:
    """Return the names in a text, in order and without overlaps.

    An answer of one word is a name: "Who wrote it?" "Goethe."
    """
    found = [mention for entity in _join_parts(text, entities(text)) if (mention := _mention(text, entity)) is not None]
    taken = {place for mention in found for place in range(mention.start, mention.end)}
    found += [one for one in _names_at_sentence_starts(text, is_answer) if one.start not in taken]
    return tuple(sorted(found, key=lambda mention: mention.start))


def noun_kind(noun: str) -> Kind | None:
    """Return the kind of thing that a noun names; None for any other word."""
    return _NOUNS.get(noun) or _NOUNS.get(noun.removesuffix("s"))


def name_words(name: str) -> frozenset[str]:
    """Return the words that identify a name."""
    found = re.findall(r"\w+", name.lower())
    return frozenset(word for word in found if word not in _PLAIN) or frozenset(found)


def _join_parts(text: str, found: Iterable[Entity]) -> Iterator[Entity]:
    """Join the parts of a name ("Juan de la Cruz", "Dr. Okafor") and separate owners from what they own."""
    last: Entity | None = None
    for entity in (part for each in found for part in _split_possessives(text, each)):
        if (
            last is not None
            and last.kind == entity.kind == "name"
            and _PARTICLE.fullmatch(text, last.end, entity.start)
        ):
            last = Entity("name", text[last.start : entity.end], last.start, entity.end)
            continue
        if last is not None:
            yield last
        last = entity
    if last is not None:
        yield last


def _split_possessives(text: str, entity: Entity) -> Iterator[Entity]:
    """Split "Peter Green's Fleetwood Mac" into two names, and include a title before a name."""
    if entity.kind != "name":
        yield entity
        return
    start = entity.start
    if title := _TITLE.search(text, max(0, start - 12), start):
        start = title.start(1)
    for part in re.split(r"(?<=['’]s) ", text[start : entity.end]):
        yield Entity("name", part, start, start + len(part))
        start += len(part) + 1


def _mention(text: str, entity: Entity) -> Mention | None:
    if entity.kind != "name":
        kind = "date" if _YEAR.fullmatch(entity.text) else _KINDS.get(entity.kind)
        return kind and Mention(name=entity.text, kind=kind, start=entity.start, end=entity.end)
    start, name = entity.start, entity.text
    while (first := name.partition(" "))[0].lower() in _PLAIN:
        if not first[2]:
            return None
        start, name = start + len(first[0]) + 1, first[2]
    name = _TRAILING.sub("", name)
    if _ORIGIN.fullmatch(name) and name.lower() not in _PLACES["one_word"]:
        return None  # "an American politician"
    return _classified(text, name, start) if len(name) > 1 else None


def _names_at_sentence_starts(text: str, is_answer: bool) -> Iterator[Mention]:
    """Find one-word names at the start of a sentence, if more than the capital letter indicates a name."""
    for match in _OPENING.finditer(text):
        word = _TRAILING.sub("", match[1])
        low = word.lower()
        if low in _PLAIN or low in _NOUNS or len(word) < 2:
            continue
        known = low in _FIRST["men"] or low in _FIRST["women"] or low in _PLACES["one_word"] or low in _FIRST["either"]
        end = match.start(1) + len(word)
        alone = is_answer and text.strip(" .?!\n") == word
        titled = _TITLE.search(text, max(0, match.start(1) - 12), match.start(1))
        if titled:
            word = text[titled.start(1) : end]
        if known or alone or titled or _COORDINATED.match(text, end):
            yield _classified(text, word, end - len(word))


def _classified(text: str, name: str, start: int) -> Mention:
    parts = [part.strip(".,'’").lower() for part in name.split()]
    before = text[max(0, start - 60) : start]
    if name.lower() in MONTHS:
        return Mention(name=name, kind="date", start=start, end=start + len(name))
    noun = match[1].lower() if (match := _BEFORE.search(before)) and match[1].lower() in _NOUNS else ""
    mention = Mention(name=name, kind="thing", start=start, end=start + len(name), noun=noun)
    if kin := _gender_by_kinship(before):
        return replace(mention, kind="person", is_person=True, gender=kin[0] or _gender_of_first_name(parts), noun="")
    if (gender := _gender_of_person(parts)) is not None:
        return replace(mention, kind="person", is_person=True, gender=gender, noun="")
    if not _PARTS["organisation"].isdisjoint(parts) or "&" in name:
        return replace(mention, kind="organisation")
    if (
        parts[-1] in _PLACES["one_word"]
        or "_".join(parts) in _PLACES["several_words"]
        or not _PARTS["place"].isdisjoint(parts)
    ):
        return replace(mention, kind="place")
    if _WHO.search(before):
        return replace(mention, kind="person", is_person=True, noun="")
    kind = noun_kind(noun) if noun else None
    return replace(mention, kind=kind) if kind in ("work", "organisation", "place") else mention


def _gender_by_kinship(before: str) -> tuple[Gender] | None:
    """Return the gender implied by a kinship term before a name ("my sister Clara"); None without one."""
    match = _POSSESSED.search(before)
    if match is None:
        return None
    word = match[1].lower()
    if word in _PEOPLE["kin"]:
        return ("",)
    return ("he",) if word in _PEOPLE["kin_men"] else ("she",) if word in _PEOPLE["kin_women"] else None


def _gender_of_person(parts: list[str]) -> Gender | None:
    """Return the gender of a person's name, "" if it may be either; None if it is not a person's name."""
    if len(parts) > 1 and parts[0] in _PEOPLE["titles_men"]:
        return "he"
    if len(parts) > 1 and parts[0] in _PEOPLE["titles_women"]:
        return "she"
    if len(parts) > 1 and parts[0] in _PEOPLE["titles"]:
        return _gender_of_first_name(parts[1:])
    known = any(parts[0] in row for row in _FIRST.values())
    is_group = parts[-1] in _PARTS["organisation"] or parts[-1] in _PARTS["place"]
    is_place = len(parts) == 1 and parts[0] in _PLACES["one_word"]
    return _gender_of_first_name(parts) if known and not is_group and not is_place else None


def _gender_of_first_name(parts: list[str]) -> Gender:
    return "he" if parts[0] in _FIRST["men"] else "she" if parts[0] in _FIRST["women"] else ""
