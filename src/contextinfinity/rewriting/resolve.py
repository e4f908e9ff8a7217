"""What the references of a message mean.

Each reference that can be told is a ``Change``, each that may well mean two things a ``Doubt``. What is left open is
for ``completing`` to speak of.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from contextinfinity.rewriting.focus import Focus
from contextinfinity.rewriting.lexicon import NOUNS, PLACES, Kind, Pronoun, listed
from contextinfinity.rewriting.message import Change, Doubt, Message
from contextinfinity.rewriting.phrases import items, objects, pair, plural, together
from contextinfinity.rewriting.references import Reference, worded
from contextinfinity.rewriting.things import MAYBE_HUMAN, Thing

_SCORES: dict[Pronoun, float] = {"he": 0.0, "she": 0.0, "they": 1.0, "it": 1.5}
"""What a thing has to score to stand for a pronoun when others could, too."""
_WORKING = listed("work works worked working study studies studied studying employed employees apply job jobs")
_IS_OBJECT = re.compile(r"\bthem\b|\b(?:are|were) they\b", re.I)

"""Where "they" may be things that nobody named."""
_ALONE = 0.6
"""What it has to score when no other comes near."""
_LISTED = 6
"""Entries of a list that "they" repeats."""
_CHOICES = 8
"""Candidates that a question back may have."""
_OF_PLACES = re.compile(r"\b(?:is|was|about|visit|to|of|from|like|leave|left|reach|in|than) it\b", re.I)
"""How people say "it" of a town or a country."""
_NEAR = 0.5
"""Of the best score, what makes another one a rival."""


class Resolved(Struct):
    """What was told of the references of a message."""

    changes: list[Change] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)


def resolved(message: Message, focus: Focus) -> Resolved:
    """Say what the references of a message mean, each thing once."""
    told = Resolved()
    done: set[str] = set()
    for reference in message.references:
        key = reference.pronoun or reference.noun or f"{reference.points} {reference.place}"
        found = None if key in done else _resolve(reference, message, focus, told)
        if isinstance(found, Doubt):
            if any(doubt.in_order == found.in_order for doubt in told.doubts):
                continue
            told.doubts.append(found)
            names = " or ".join(thing.name for thing in found.in_order)
            found = Change(start=reference.end, end=reference.end, words=f" ({names})", sure=0.8)
        if found is not None:
            told.changes.append(found)
            done.add(key)
    return told


def _resolve(reference: Reference, message: Message, focus: Focus, told: Resolved) -> Change | Doubt | None:
    match reference.points:
        case "pronoun" | "possessive":
            return _pronoun(reference, message, focus, told)
        case "description":
            return _description(reference, message, focus)
        case "choice":
            return _choice(reference, focus)
        case "there":
            return _newest(reference, focus, "place") or _workplace(reference, message, focus)
        case "then":
            return _newest(reference, focus, "date")
        case _:
            return None


# --- Pronouns ---------------------------------------------------------------------------------------


def _pronoun(reference: Reference, message: Message, focus: Focus, told: Resolved) -> Change | Doubt | None:
    pronoun = reference.pronoun
    if pronoun is None or _named_before(reference, message, focus):
        return None
    used = [change.thing for change in told.changes]
    scored = [pair for pair in focus.candidates(pronoun) if pair[1] not in used]
    score, thing = scored[0] if scored else (0.0, None)
    if pronoun == "they" and (thing is None or not thing.plural or score < _SCORES["they"]):
        several = _several(focus, is_object=_IS_OBJECT.search(message.text) is not None)
        if several:
            return _put(reference, several, 0.8)
    if thing is None or (pronoun == "they" and thing.gender):
        return None
    beside = focus.group if thing in focus.group else []
    others = [other for value, other in scored[1:] if value >= _NEAR * score or other in beside]
    rivals = _rivals(thing, others, focus)
    if rivals and pronoun != "they":
        return _doubt(reference, thing, rivals)
    if pronoun == "it" and thing.kind == "place" and not thing.titled:
        near = [other for _, other in scored if other.kind == "place" and other.turn >= focus.now - 1]
        if reference.points == "possessive" and near == [thing]:
            return _put(reference, thing.called, 0.9, thing)  # a country has "its" president
        if thing.words <= PLACES and not _OF_PLACES.search(message.text):
            return None
    alone = score >= _ALONE and (len(scored) == 1 or scored[1][0] < _NEAR * score)
    if score < _SCORES[pronoun] and not alone:
        return None
    return _put(reference, thing.called, 0.95 if pronoun in ("he", "she") else 0.9, thing)


def _doubt(reference: Reference, thing: Thing, rivals: list[Thing]) -> Doubt | None:
    """Return all candidates as a doubt; None if they are too many to choose from."""
    return Doubt(reference=reference.text, candidates=(thing, *rivals)) if len(rivals) < _CHOICES else None


def _rivals(thing: Thing, others: list[Thing], focus: Focus) -> list[Thing]:
    """Give those that a reference may mean as well: named in the same turn by the same speaker, and nothing decides."""
    if thing is focus.titled or thing.meant >= 0:
        return []
    group = {*focus.group}
    return [
        other
        for other in _named_beside(thing, others)
        if (_is_told(thing) and _is_told(other)) or {thing, other} <= group
    ]


def _named_beside(thing: Thing, others: list[Thing]) -> list[Thing]:
    """Give those of the same kind that the same speaker named in the same turn."""
    return [
        other
        for other in others
        if (other.turn, other.by_user) == (thing.turn, thing.by_user)
        and (other.kind == thing.kind or min(other.human, thing.human) >= MAYBE_HUMAN)
        and not other.is_part
    ]


def _is_told(thing: Thing) -> bool:
    """Tell whether it is known what a name stands for; a mere capital may open any sentence ("Wow")."""
    return thing.kind != "thing" or bool(thing.nouns)


def _named_before(reference: Reference, message: Message, focus: Focus) -> bool:
    """Tell whether the message itself has named what a pronoun means; "him" is never the one who acts."""
    if not reference.acts:
        return False
    for mention in message.mentions:
        if mention.start < reference.start and mention.kind != "place":
            thing = focus.known(mention.name)
            if reference.pronoun in ("it", "they") or (thing or mention).human >= MAYBE_HUMAN:
                return True
    return False


def _several(focus: Focus, *, is_object: bool) -> str:
    """Give those that "they" means when no group has a name: things named together, or a plural that was said."""
    listed = items(focus.texts[-1]) if focus.texts else []
    if 1 < len(listed) <= _LISTED:
        return together(listed)
    if focus.group and focus.grouped >= focus.now - 2:
        return together([thing.called for thing in focus.group[:4]])
    if (said := plural(focus.answer)) or focus.titled:
        return f"the {said}" if said else ""
    return objects(focus.question) if is_object else ""


def _put(reference: Reference, name: str, sure: float, thing: Thing | None = None) -> Change:
    """Put a name in the place of a reference."""
    words = worded(reference, name, thing.lead if thing else "")
    return Change(start=reference.start, end=reference.end, words=words, sure=sure, thing=thing)


# --- Descriptions -----------------------------------------------------------------------------------


def _description(reference: Reference, message: Message, focus: Focus) -> Change | Doubt | None:
    if NOUNS.get(reference.noun) == "date":
        return _time(reference, focus)
    if message.mentions:
        return None
    things = focus.described(reference.noun) or focus.described(reference.noun.removesuffix("s"))
    if not things:
        return None
    thing, *others = things
    if thing.words <= message.words:
        return None
    rivals = _rivals(thing, others, focus)
    if rivals and reference.pronoun != "they":
        return _doubt(reference, thing, rivals)
    words = f"{_the(reference)} {reference.text.split()[1]} {thing.name}"
    return Change(start=reference.start, end=reference.end, words=words, sure=0.85, thing=thing)


def _the(reference: Reference) -> str:
    return "The" if reference.text[0].isupper() else "the"


def _time(reference: Reference, focus: Focus) -> Change | Doubt | None:
    dates = focus.newest("date")
    if not dates:
        return None
    if reference.noun in ("time", "period") and (span := _doubted(reference, dates)):  # from the one to the other
        names = ", ".join(thing.name for thing in span.in_order)
        return Change(start=reference.end, end=reference.end, words=f" ({names})", sure=0.8)
    beside = Change(start=reference.end, end=reference.end, words=f" ({dates[0].name})", sure=0.8, thing=dates[0])
    return _doubted(reference, dates) or beside


def _newest(reference: Reference, focus: Focus, kind: Kind) -> Change | Doubt | None:
    things = focus.newest(kind)
    if not things:
        return None
    rivals = _places_beside(things)
    return _doubt(reference, things[0], rivals) if rivals else _put(reference, things[0].name, 0.8, things[0])


def _workplace(reference: Reference, message: Message, focus: Focus) -> Change | Doubt | None:
    """Where no place is known, what is spoken of may be one, and where people work an organisation will do."""
    topic = focus.topic
    if focus.titled is not None or topic is None or (topic.kind != "thing" and message.words.isdisjoint(_WORKING)):
        return None
    if topic.human >= MAYBE_HUMAN + 0.1 or topic.kind not in ("organisation", "thing"):
        return None
    beside = [one for one in focus.ranked()[:5] if one is not topic and one.kind != "person"]
    if rivals := _named_beside(topic, beside):
        return _doubt(reference, topic, rivals)
    return _put(reference, topic.called, 0.8, topic)


def _doubted(reference: Reference, things: list[Thing]) -> Doubt | None:
    """Return a doubt if two dates of one turn could be meant."""
    rivals = _places_beside(things)
    return _doubt(reference, things[0], rivals) if rivals else None


def _places_beside(things: list[Thing]) -> list[Thing]:
    """Return the places or dates that the same speaker named in the same turn as the first."""
    first = things[0]
    return [
        other
        for other in things[1:]
        if (other.turn, other.by_user) == (first.turn, first.by_user) and not other.is_part and not first.is_part
    ]


def _choice(reference: Reference, focus: Focus) -> Change | Doubt | None:
    """Say which of several is "the second one"."""
    listed = items(focus.answer) if focus.texts and focus.texts[-1] == focus.answer else []
    names = listed or [thing.called for thing in focus.group]
    if not names and reference.text.lower().endswith(("former", "latter", "one")):
        names = pair(focus.texts)
    if len(names) < 2:
        return None
    place = reference.place
    if place is None:
        if len(focus.group) > 2 and not listed:
            return Doubt(reference=reference.text, candidates=tuple(focus.group))
        last = max(focus.group, key=lambda thing: (thing.turn, thing.order), default=None)
        names = [name for name in names if last is None or name != last.called]
        place = 0
    if place >= len(names):
        return None
    return _put(reference, names[place], 0.9, focus.known(names[place]))
