"""What a message leaves out: what else was said, and whom or what it is about."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from contextinfinity.rewriting.focus import Focus
from contextinfinity.rewriting.lexicon import FOREIGN, FOREIGN_THERE, listed
from contextinfinity.rewriting.message import Change, Message, asks, orders
from contextinfinity.rewriting.phrases import gist, gists, tidy
from contextinfinity.rewriting.resolve import Resolved
from contextinfinity.rewriting.things import COUNTED, MAYBE_HUMAN, name_words

_BESIDES, _ROOM = 5, 70
"""What else was said: how many answers, and words of them all."""
_LATELY, _SCANT = 2, 30
"""The same where no title says that all of them are about one thing."""
_SHORT = 3
"""A question of so few words names nothing."""
_FEW = 6
"""Words of what was said last that may stand beside an order."""
_WHY = re.compile(r"\W*(?:why|how so|how come|since when|such as|like what|really)\b", re.I)
Open: TypeAlias = Literal["", "that", "pronoun", "short", "vague"]
"""How a message points at what it does not say: "why is that", "was it", "why?", "the music"."""
_EXCEPT = listed("than besides except apart aside beyond")
_OWN = listed("i i'm i'd i've my we our us")
_WORD = re.compile(r"[^\W\d_]{4,}")
_DEFINING = re.compile(r"\W*what(?:'s|’s| is| are| does)? (?:an? )?(?!the )[\w-]+(?: [\w-]+)?(?: mean)?\W*$", re.I)
_SIGNS = re.compile(r"\bthere\b|\bthe\b|\bany(?:one|thing|body)?\b|\bhappen|\bdid\b|\bwas\b|\bwere\b", re.I)


def completed(message: Message, focus: Focus, told: Resolved) -> list[Change]:
    """Add what else was said, and in brackets what the message is about, where it does not say so."""
    if not message.is_english:
        return _in_brackets(message, focus)
    besides = _besides(message, focus)
    lacks = _within_title(message, focus) if _names_something(message, focus) else _lacks(message, focus)
    is_open = "" if besides else _open(message, told, lacks)
    changes = bool(told.changes or besides or is_open)
    whole = _whole(message, focus, told, is_open)
    if any(whole in change.words for change in besides):
        whole = ""
    brackets = [Change(start=message.end, end=message.end, words=f" ({whole})", sure=0.85 if changes else lacks)]
    return [*(_in_full(message, focus) if changes else ()), *besides, *(brackets if whole else ())]


def _whole(message: Message, focus: Focus, told: Resolved, is_open: Open) -> str:
    """Give what stands in the brackets: the topic, what of it, and what was said last."""
    parts = _about(message, focus, told, is_open=bool(is_open))
    if focus.titled is not None:
        said = gist(focus.answer or focus.question) if is_open else ""
    elif _leaves_open(message, told) and is_open != "that":
        return ""  # a guess beside a pronoun that was not understood helps nobody
    elif not asks(message.text):
        said = gist(focus.latest) if is_open == "that" else ""
        return said if len(said.split()) <= _FEW else ""
    elif is_open == "that" or (is_open == "short" and _WHY.match(message.text)):
        said = gist(focus.latest)
    else:
        named = parts and any(one.points == "definite" for one in message.references)
        said = gist(focus.question) if is_open == "short" and not named else ""
    unsaid = [part for part in parts if part.lower() not in said.lower()]
    return ": ".join(filter(None, (", ".join(unsaid), said)))


def _leaves_open(message: Message, told: Resolved) -> bool:
    """Tell whether a pronoun or a "there" was not understood."""
    places = {place for change in told.changes for place in (change.start, change.end)}
    pointing = (one for one in message.references if one.points in ("pronoun", "possessive", "there", "then", "choice"))
    return any(one.start not in places and one.end not in places for one in pointing) and not told.doubts


def _about(message: Message, focus: Focus, told: Resolved, *, is_open: bool) -> list[str]:
    """Give the topic, where the message does not speak of it, and what of it a title named."""
    topic = focus.titled if _within_title(message, focus) > 0.5 else focus.topic
    settled = focus.titled is None and bool(told.changes)
    parts = [topic.called] if topic and not settled and not _speaks_of_topic(message, focus, told) else []
    specific = any(change.thing not in (None, topic) for change in told.changes)
    if focus.aspect and (parts or is_open) and not specific:
        parts.append(tidy(focus.aspect))
    return parts


def _besides(message: Message, focus: Focus) -> list[Change]:
    if not any(reference.points == "more" for reference in message.references) or message.words & _EXCEPT:
        return []
    if focus.titled is None and message.words & {"anywhere", "somewhere"}:
        return []
    answers, room = (_BESIDES, _ROOM) if focus.titled else (_LATELY, _SCANT)
    said = gists(reversed(focus.answers[-answers:]), room)
    return [Change(start=message.end, end=message.end, words=f" besides {said}", sure=0.85)] if said else []


def _in_full(message: Message, focus: Focus) -> list[Change]:
    """Give the topic its whole name in a message that changes anyway; alone it would be a change without need."""
    topic = focus.topic
    return [
        Change(start=mention.start, end=mention.end, words=topic.name, sure=0.85)
        for mention in message.mentions[:1]
        if topic is not None and focus.known(mention.name) is topic and name_words(mention.name) < topic.words
    ]


def _names_something(message: Message, focus: Focus) -> bool:
    """Tell whether a message names what it is about: with a capital, or in the small letters of a hasty writer."""
    if any(not (mention.leads and mention.start < 2) for mention in message.mentions):
        return True
    aspect = set(_WORD.findall(focus.aspect.lower()))
    if len(aspect) > 1 and aspect <= message.words | {f"{word}s" for word in message.words}:
        return True
    low = f" {' '.join(token.low for token in message.tokens)} "
    names = (thing.name.lower() for thing in focus.things if thing.kind not in COUNTED)
    return any(" " in name and f" {name} " in low for name in names)


def _speaks_of_topic(message: Message, focus: Focus, told: Resolved) -> bool:
    topic = focus.topic
    return (
        any(focus.known(mention.name) is topic for mention in message.mentions)
        or any(change.thing is topic or (topic and topic.name in change.words) for change in told.changes)
        or bool(topic and topic.words & message.words)
    )


def _within_title(message: Message, focus: Focus) -> float:
    """Tell how sure it is that those a message names belong to what the title is about: the people of a play."""
    title = focus.titled
    if title is None or title.human >= MAYBE_HUMAN or title.plural:
        return 0.5
    return 0.65 if all(one.human >= MAYBE_HUMAN for one in message.mentions) else 0.5


def _lacks(message: Message, focus: Focus) -> float:
    """Tell how sure it is that a message without names is about something it does not say."""
    if orders(message.text) or _DEFINING.match(message.text):
        return 0.3
    if message.words & _OWN or not asks(message.text):
        return 0.4
    return 0.75 if _SIGNS.search(message.text) else 0.65 if focus.titled else 0.5


def _open(message: Message, told: Resolved, lacks: float) -> Open:
    """Tell how the message points at something that was not found: an event, or all that was said last."""
    if orders(message.text):
        return ""
    places = {change.start for change in told.changes}
    pointing = [one for one in message.references if one.pronoun in ("it", "they")]
    if any(one.start in places or one.end in places for one in pointing):
        return ""
    if any(one.points == "this" for one in pointing):
        return "that"
    if any(one.points in ("pronoun", "possessive") and not _is_named(one.start, message) for one in pointing):
        return "pronoun"
    if len(message.tokens) <= _SHORT and not message.mentions and not told.changes and lacks >= 0.5:
        return "short"
    vague = any(
        (one.points == "description" and one.start not in places) or (one.points == "definite" and not told.changes)
        for one in message.references
    )
    shown = any(one.points == "description" and one.pronoun and one.start not in places for one in message.references)
    return "that" if shown else "vague" if vague and lacks >= 0.6 else ""


def _is_named(start: int, message: Message) -> bool:
    return any(mention.start < start and mention.kind != "place" for mention in message.mentions)


def _in_brackets(message: Message, focus: Focus) -> list[Change]:
    """Name what a pronoun of another language means, without touching the sentence."""
    if any(focus.known(mention.name) for mention in message.mentions):
        return []
    if message.words & FOREIGN_THERE and (places := focus.newest("place")):
        return [Change(start=message.end, end=message.end, words=f" ({places[0].name})", sure=0.8)]
    for token in message.tokens:
        low = re.split(r"['-]", token.low)[-1]  # "a-t-il", "qu'il"
        if low in FOREIGN:
            pronoun = FOREIGN[low]
            best = [thing for _, thing in focus.candidates(pronoun)[:1]] if pronoun else [focus.topic]
            if best and best[0] is not None and not best[0].words & message.words:
                return [Change(start=message.end, end=message.end, words=f" ({best[0].name})", sure=0.8)]
    return []
