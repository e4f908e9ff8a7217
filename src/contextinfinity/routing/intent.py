"""Detect the intent of a message from its words: offline, deterministic, in linear time.

The input is the message (contextualised, if it was rewritten) and the user's earlier messages; the result is one of
five intents and a reason that quotes nothing from the message. Anything unclear is ``other``: a wrong intent costs more
than none. Only the two ends of a long message are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from contextinfinity.domain.plan import Intent
from contextinfinity.routing import intent_words
from contextinfinity.routing.intent_words import IntentSigns
from contextinfinity.text.cues import pointing, starts_like_follow_up, words
from contextinfinity.text.entities import Entity, entities

LOOKED_AT = 1000
"""The number of characters that are read at each end of a message."""
LONG = 6000
"""From this length a message is treated as a document."""
FAIRLY_LONG = 2000
"""The same if the message asks to work on a text."""
LINES_SEEN = 200
SHORT_FOLLOW_UP = 8
"""Words of a message that may be a follow-up without an opening phrase."""
SHORT_SMALL_TALK = 12
SHORT_SEARCH = 12
"""Words of a message that may be a search query rather than a sentence."""
EARLIER = 3


GOES_ON = 0.9
"""The factor for the confidence of a follow-up message."""


class Purpose(Struct, frozen=True):
    """The intent of a message, and the reason.

    ``confidence`` is the expected share of correct labels for this reason: (right + 1) / (given + 2) of the messages in
    ``tests/samples/intents`` to which no rule was adjusted.
    """

    intent: Intent
    reason: str
    confidence: float


OTHER = Purpose("other", "it needs no particular kind of model", 0.48)
UNKNOWN = Purpose("other", "not classified", 0.0)


def intent_of(text: str, earlier: Sequence[str] = ()) -> Purpose:
    """Return the intent of a message; ``earlier`` are the user's earlier messages, newest last.

    A follow-up ("now with a loop", "and in Germany?") has the intent of the message before it.
    """
    alone = _intent_without_history(text)
    if alone.intent != "other" or not _is_follow_up(text):
        return alone
    for before in reversed(earlier[-EARLIER:]):
        found = _intent_without_history(before)
        confidence = round(GOES_ON * found.confidence, 2)
        if found.intent == "code" or (found.intent == "factual" and _continues_question(text)):
            return Purpose(found.intent, f"it continues a message with this reason: {found.reason}", confidence)
        if not _is_follow_up(before):
            break
    return alone


def _intent_without_history(text: str) -> Purpose:
    if len(text) >= LONG:
        return _intent_of_long_text(text)
    ends = _first_and_last_part(text)
    read = IntentSigns(ends)
    if _is_small_talk(read):
        return Purpose("small_talk", "it is a greeting, thanks or the like", 0.9)
    if len(text) >= FAIRLY_LONG and intent_words.WORKING_ON_A_TEXT.seen_in(read) and not _looks_like_code(text):
        return Purpose("long_document", "it includes a text to work on", 0.85)
    if intent_words.BROUGHT_ALONG.seen_in(read) and intent_words.DOCUMENT.seen_in(read):
        return Purpose("long_document", "it is about an included document", 0.89)
    return _intent_of_short_text(ends, read)


def _first_and_last_part(text: str) -> str:
    return text if len(text) <= 2 * LOOKED_AT else f"{text[:LOOKED_AT]}\n{text[-LOOKED_AT:]}"


def _intent_of_long_text(text: str) -> Purpose:
    if _looks_like_code(text):
        return Purpose("code", "most of it is code", 0.85)
    return Purpose("long_document", "it includes a long text", 0.9)


def _intent_of_short_text(text: str, read: IntentSigns) -> Purpose:
    named = entities(text)
    code = _code_score(text, read, named)
    if code >= 3:
        return Purpose("code", "it contains code or is mostly about code", 0.9)
    fact = _requested_fact(text, named)
    if fact and fact.is_firm:
        return fact.purpose
    if code >= 2:
        return Purpose("code", "it mentions programs", 0.88)
    return fact.purpose if fact else OTHER


# --- code


def _looks_like_code(text: str) -> bool:
    """Return whether a large part of the first lines is code."""
    lines = [line for line in text[: LINES_SEEN * 80].splitlines()[:LINES_SEEN] if line.strip()]
    like = sum(intent_words.CODE_LINE.search(line[:300]) is not None for line in lines)
    return "```" in text or 4 * like >= len(lines) > 0


def _code_score(text: str, read: IntentSigns, named: Sequence[Entity]) -> int:
    """Score the evidence for code: 2 is likely, 3 or more is certain."""
    score = 3 if "```" in text or intent_words.CODE_ERROR.search(text) else 0
    score += 2 * intent_words.SURELY_CODE.seen_in(read) + intent_words.TOOLS.number_in(read)
    score += 2 * (text.count("`") >= 2) + 2 * (intent_words.SHELL_PIPE.search(text) is not None)
    score += min(3, sum(_code_evidence(entity) for entity in named))
    score += 2 * any(intent_words.CODE_LINE.search(line[:300]) for line in text.splitlines()[:LINES_SEEN])
    spoken = intent_words.PROGRAMMING.number_in(read)
    return score + spoken if score else spoken - 1


def _code_evidence(entity: Entity) -> int:
    """Score a name as evidence for code; a word with an inner capital may be a typo or a brand."""
    if entity.kind == "path":
        return 2 * (entity.text.rpartition(".")[2].lower() in intent_words.CODE_ENDINGS)
    if entity.kind != "symbol" or entity.text.lower() in intent_words.NO_SYMBOLS:
        return 0
    return 1 if entity.text.isalpha() else 2


# --- small talk


def _is_small_talk(read: IntentSigns) -> bool:
    if not read.list:
        return not read.text.isascii()  # such as emoji
    if len(read.list) > SHORT_SMALL_TALK:
        return False
    left = intent_words.PHATIC.words_outside(read)
    is_kind = len(left) < len(read.words) or not intent_words.GREETINGS.isdisjoint(left)
    return is_kind and intent_words.AROUND_GREETINGS.issuperset(left)


# --- facts


class _Fact(Struct, frozen=True):
    reason: str
    is_firm: bool
    """It applies even if the message also mentions programs."""
    confidence: float

    @property
    def purpose(self) -> Purpose:
        return Purpose("factual", self.reason, self.confidence)


def _requested_fact(text: str, named: Sequence[Entity]) -> _Fact | None:
    """Return the fact that a message asks for, if any."""
    asked = IntentSigns(intent_words.LEADING_UP.sub("", text))
    if intent_words.TASKS.open(asked) or not intent_words.ABOUT_US.isdisjoint(asked.words):
        return None
    has_name = any(entity.kind in ("name", "date") for entity in named)
    if not has_name and not intent_words.POINTING.isdisjoint(asked.words):
        return None
    is_fresh, is_known = intent_words.FRESH.seen_in(asked), intent_words.FACTS.seen_in(asked)
    if intent_words.ASKS_FIRMLY.open(asked):
        return _Fact("it asks who, when, where or how many", True, 0.92)
    if intent_words.ASKS.open(asked) and (is_fresh or is_known):
        if is_fresh:
            return _Fact("it asks for current information", True, 0.8)
        return _Fact("it asks for a general fact", False, 0.75)
    if intent_words.ASKS.open(asked) and has_name and not intent_words.SUPPOSING.seen_in(asked):
        return _Fact("it asks about something with a name", False, 0.8)
    if is_known and (is_fresh or has_name or len(asked.list) <= 3) and _looks_like_search_query(asked):
        return _Fact("it asks for news", False, 0.75)
    return None


def _looks_like_search_query(asked: IntentSigns) -> bool:
    return len(asked.list) <= SHORT_SEARCH and "." not in asked.text.rstrip(". ")


# --- what was said before


def _is_follow_up(text: str) -> bool:
    first_words = words(_first_and_last_part(text))
    return starts_like_follow_up(text) or (
        len(first_words) <= SHORT_FOLLOW_UP and (pointing(first_words) > 0 or "now" in first_words)
    )


def _continues_question(text: str) -> bool:
    return "?" in text or words(text[:100])[:1] in (["and"], ["und"], ["et"], ["y"])
