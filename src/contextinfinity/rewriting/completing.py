"""What a message leaves out: the question it goes on with, what else was said, and whom or what it is about."""

from __future__ import annotations

import re

from contextinfinity.rewriting.focus import Focus
from contextinfinity.rewriting.lexicon import FOREIGN, listed
from contextinfinity.rewriting.message import Change, Message, applied
from contextinfinity.rewriting.naming import mentions
from contextinfinity.rewriting.phrases import gist, gists, tidy
from contextinfinity.rewriting.resolve import Resolved, resolved
from contextinfinity.rewriting.things import COUNTED, name_words

_BESIDES, _ROOM = 5, 70
"""What else was said: how many answers, and words of them all."""
_SHORT = 3
"""A question of so few words names nothing."""
_EXCEPT = listed("than besides except apart aside beyond")
_OWN = listed("i i'm i'd i've my we our us")
_WORD = re.compile(r"[^\W\d_]{4,}")
_DOING = re.compile(
    r"\W*(?:how (?:do|can|should|to)|please|can you (?:write|make|help)|could you (?:write|make|help)|write|create"
    r"|translate|generate|make|let's|define|rewrite|shorten|summari[sz]e|explain)\b",
    re.I,
)
_DEFINING = re.compile(r"\W*what(?:'s|’s| is| are| does)? (?:an? )?[\w-]+(?: [\w-]+)?(?: mean)?\W*$", re.I)
_ASKING = re.compile(
    r"\W*(?:who|whom|whose|what|which|when|where|why|how|did|do|does|was|were|is|are|has|have|had|can|could|would|any"
    r"|anything|tell me|so)\b",
    re.I,
)
_SIGNS = re.compile(r"\bthere\b|\bthe\b|\bany(?:one|thing|body)?\b|\bhappen|\bdid\b|\bwas\b|\bwere\b", re.I)
_ELLIPSIS = re.compile(
    r"\W*(?:(?:and|but|so) (?:what|how) about|(?:what|how) about|and|but)\s+"
    r"((?:in|for|with|of|on|at|from|to|during)\s+)?((?:the\s+)?[\w'’.-]+(?:\s[\w'’.-]+){0,3})\s*\?*\s*$",
    re.I,
)


# --- Going on with a question -----------------------------------------------------------------------


def continued(message: Message, focus: Focus) -> str | None:
    """Say in full what goes on with the last question: an answer to a question back, or "and in Germany?"."""
    if focus.asks_back and focus.question and len(message.tokens) <= 5 and not message.text.rstrip().endswith("?"):
        return f"{_explicit_question(focus)} {focus.asks_back} {message.text}"
    match = _ELLIPSIS.match(message.text)
    if match is None or not focus.question or message.references:
        return None
    said = match[2].removeprefix("the ")
    question = _explicit_question(focus)
    new = next(iter(mentions(said, titled=True)), None)
    old = [one for one in mentions(question) if new is not None and one.kind == new.kind and one.name != new.name]
    if new is None or not old:
        return None
    return question[: old[-1].start] + match[2] + question[old[-1].end :]


def _explicit_question(focus: Focus) -> str:
    told = resolved(Message.of(focus.question), focus)
    return applied(focus.question, [change for change in told.changes if change.thing is not None]).strip()


# --- What else, and about what ----------------------------------------------------------------------


def completed(message: Message, focus: Focus, told: Resolved) -> list[Change]:
    """Add what else was said, and in brackets what the message is about, where it does not say so."""
    if not message.is_english:
        return _in_brackets(message, focus)
    besides = _besides(message, focus)
    lacks = 0.5 if _names_something(message, focus) else _lacks(message, focus)
    is_open = not besides and _is_open(message, told, lacks)
    changes = bool(told.changes or besides or is_open)
    parts = _about(message, focus, told, is_open=is_open)
    whole = ": ".join(filter(None, (", ".join(parts), gist(focus.answer or focus.question) if is_open else "")))
    brackets = [Change(start=message.end, end=message.end, words=f" ({whole})", sure=0.85 if changes else lacks)]
    return [*(_in_full(message, focus) if changes else ()), *besides, *(brackets if whole else ())]


def _about(message: Message, focus: Focus, told: Resolved, *, is_open: bool) -> list[str]:
    """Give the topic, where the message does not speak of it, and what of it a title named."""
    topic = focus.topic
    settled = focus.titled is None and bool(told.changes)
    parts = [topic.name] if topic and not settled and not _speaks_of_topic(message, focus, told) else []
    specific = any(change.thing not in (None, topic) for change in told.changes)
    if focus.aspect and (parts or is_open) and not specific:
        parts.append(tidy(focus.aspect))
    return parts


def _besides(message: Message, focus: Focus) -> list[Change]:
    if not any(reference.points == "more" for reference in message.references) or message.words & _EXCEPT:
        return []
    said = gists(reversed(focus.answers[-_BESIDES:]), _ROOM)
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


def _lacks(message: Message, focus: Focus) -> float:
    """Tell how sure it is that a message without names is about something it does not say."""
    if _DOING.match(message.text) or _DEFINING.match(message.text):
        return 0.3
    if message.words & _OWN or not (message.text.rstrip().endswith("?") or _ASKING.match(message.text)):
        return 0.4
    return 0.75 if _SIGNS.search(message.text) else 0.65 if focus.titled else 0.5


def _is_open(message: Message, told: Resolved, lacks: float) -> bool:
    """Tell whether the message points at something that was not found: an event, or all that was said last."""
    if _DOING.match(message.text):
        return False
    places = {change.start for change in told.changes}
    pointing = [one for one in message.references if one.pronoun in ("it", "they")]
    if any(one.start in places or one.end in places for one in pointing):
        return False
    if any(one.points == "this" for one in pointing):
        return True
    if any(one.points in ("pronoun", "possessive") and not _is_named(one.start, message) for one in pointing):
        return True
    vague = any(
        (one.points == "description" and one.start not in places) or (one.points == "definite" and not told.changes)
        for one in message.references
    )
    short = len(message.tokens) <= _SHORT and not message.mentions and not told.changes
    return (vague and lacks >= 0.6) or (short and lacks >= 0.5)


def _is_named(start: int, message: Message) -> bool:
    return any(mention.start < start for mention in message.mentions)


def _in_brackets(message: Message, focus: Focus) -> list[Change]:
    """Name what a pronoun of another language means, without touching the sentence."""
    if any(focus.known(mention.name) for mention in message.mentions):
        return []
    for token in message.tokens:
        low = re.split(r"['-]", token.low)[-1]  # "a-t-il", "qu'il"
        if low in FOREIGN:
            pronoun = FOREIGN[low]
            best = [thing for _, thing in focus.candidates(pronoun)[:1]] if pronoun else [focus.topic]
            if best and best[0] is not None and not best[0].words & message.words:
                return [Change(start=message.end, end=message.end, words=f" ({best[0].name})", sure=0.8)]
    return []
