"""Find where the newest topic of a conversation begins, without a model.

Messages are mappings or objects with ``role`` and ``content`` (a text, or blocks, of which only the text is used), and
optionally ``created_at`` or ``timestamp`` (a datetime, an ISO 8601 text, or seconds since 1970). Only the last
``LOOKED_AT`` are examined; indexes refer to the whole list.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from contextinfinity.errors import InvalidInput
from contextinfinity.text import cues
from contextinfinity.text.entities import HARD, entities
from contextinfinity.text.orders import neutral
from contextinfinity.text.topics import LONGEST, shift_scores

LOOKED_AT = 50
CONVINCING = 0.5

_PAUSE = 3_600.0
_TERMS = 6
_LONGEST_TERM = 60
_MILLISECONDS = 1e11
"""A larger time is in milliseconds: as seconds it would be in the year 5138."""


class TopicBoundary(Struct, frozen=True, kw_only=True):
    """The beginning of the newest topic.

    ``boundary_index`` is its first message, or None if there is only one topic; ``boundary_reason`` explains it,
    ``confidence`` is from 0 to 1, ``summary`` describes in a few words what came before.
    """

    boundary_index: int | None
    boundary_reason: str
    confidence: float
    summary: str


SAFE_BOUNDARY = TopicBoundary(
    boundary_index=None, boundary_reason="No new topic was found.", confidence=0.0, summary=""
)
"""The result if no boundary can be determined: one topic."""


class TopicMessage(Struct, frozen=True, kw_only=True):
    """A message as the topic detection sees it; ``index`` is its position in the whole list."""

    index: int
    role: str
    text: str
    seconds: float | None = None


def find_topic_boundary(messages: Iterable[object]) -> TopicBoundary:
    """Return the start of the newest topic; ``SAFE_BOUNDARY`` if there is only one."""
    topic_messages = checked_messages(messages)
    if len(topic_messages) < 2:
        return SAFE_BOUNDARY
    scores = _scores(topic_messages)
    openings = [place for place, score in enumerate(scores) if score >= CONVINCING]
    if not openings:
        return SAFE_BOUNDARY
    newest, topic_before = openings[-1], openings[-2] if len(openings) > 1 else 0
    return TopicBoundary(
        boundary_index=topic_messages[newest].index,
        boundary_reason=_reason(topic_messages, newest),
        confidence=round(scores[newest], 4),
        summary=_terms(topic_messages[topic_before:newest]),
    )


def checked_messages(messages: Iterable[object]) -> list[TopicMessage]:
    """Read the last messages of a list; raise ``InvalidInput`` if it is not a list of messages."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise InvalidInput(
            f"A {type(messages).__name__} is not a list of messages.",
            hint="Give a list of mappings with role and content, the oldest first.",
        )
    numbered = list(enumerate(messages))
    return [_read(index, message) for index, message in numbered[-LOOKED_AT:]]


def _scores(topic_messages: list[TopicMessage]) -> list[float]:
    from contextinfinity.embedders.static import built_in

    texts = [one.text[:LONGEST] for one in topic_messages]
    roles, times = [one.role for one in topic_messages], [one.seconds for one in topic_messages]
    found: list[float] = shift_scores(texts, built_in().encode(texts), roles=roles, times=times).tolist()
    return found


# --- Reading messages -------------------------------------------------------------------------------


def _read(index: int, message: object) -> TopicMessage:
    if not isinstance(message, Mapping) and not hasattr(message, "role"):
        raise InvalidInput(
            f"Message {index} is a {type(message).__name__}; it must have a role and content.",
            hint="A message is a mapping, or an object, with role and content.",
        )
    content = _part(message, "content")
    return TopicMessage(
        index=index,
        role=_words(_part(message, "role")).strip().lower(),
        text=_words(_part(message, "blocks") if content is None else content),
        seconds=_seconds(_part(message, "created_at")) or _seconds(_part(message, "timestamp")),
    )


def _part(message: object, name: str) -> object:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def _words(content: object) -> str:
    """Return the text of a content: the text itself, or that of its text blocks."""
    if isinstance(content, list | tuple):
        return "\n".join(filter(None, map(_text_of_block, content)))
    return str(content) if isinstance(content, str | int | float) else _text_of_block(content)


def _text_of_block(block: object) -> str:
    text = block if isinstance(block, str) else _part(block, "text")
    return text if isinstance(text, str) else ""


def _seconds(time: object) -> float | None:
    """Return a time as seconds since 1970, or None if it is not a time."""
    try:
        if isinstance(time, str):
            time = datetime.fromisoformat(time)
        if isinstance(time, datetime):
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        if isinstance(time, bool) or not isinstance(time, int | float) or not math.isfinite(time):
            return None
        return float(time) / 1_000 if abs(time) > _MILLISECONDS else float(time)
    except (ValueError, OverflowError, OSError):
        return None


# --- Saying what was found --------------------------------------------------------------------------


def _reason(topic_messages: list[TopicMessage], place: int) -> str:
    if phrase := cues.leaves_topic(topic_messages[place].text):
        return f'It contains "{neutral(phrase)}".'
    before, now = topic_messages[place - 1].seconds, topic_messages[place].seconds
    if before is not None and now is not None and now - before >= _PAUSE:
        return f"It comes {(now - before) / 3_600:.0f} h after the previous message and has another topic."
    return "It has little in common with the messages before it."


def _terms(topic_messages: list[TopicMessage]) -> str:
    """Describe messages in a few words: their most frequent names, then their most frequent words."""
    texts = [one.text[:LONGEST] for one in topic_messages if one.role != "system"]
    named = Counter(found.text for text in texts for found in entities(text) if found.kind in HARD - {"number", "date"})
    common = Counter(word for text in texts for word in set(cues.words(text)) if _is_informative(word))
    terms = [
        *(name for name, _ in named.most_common(_TERMS // 2)),
        *(word for word, _ in common.most_common(4 * _TERMS)),
    ]
    chosen: list[str] = []
    for term in terms:
        if not any(term.lower() in earlier.lower() for earlier in chosen):
            chosen.append(term[:_LONGEST_TERM])
    return neutral(", ".join(chosen[:_TERMS]))


def _is_informative(word: str) -> bool:
    return len(word) > 3 and cues.carries_content(word) and not word.isdecimal()
