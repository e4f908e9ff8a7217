"""Compare the sent messages with the end of a stored branch, for clients that drop old messages.

Consecutive messages of one side are compared as one (a *side*), after the normalisation of ``domain.prefix_hash``. The
sent messages match if they equal the last sides of the branch, one by one. Only the first sent message may be unknown,
only if messages of the branch were dropped, and only before a whole exchange: it is the client's summary. Everything
else is a contradiction.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import Message, Role, joined
from contextinfinity.domain.prefix_hash import plain_text, says_the_same

MIN_EXCHANGES = 2
MIN_USER_CHARACTERS = 200
"""The minimum number of matching user characters: common phrases are shorter."""


class TailMatch(Struct, frozen=True, kw_only=True):
    """The sent messages that equal the end of a branch."""

    summary: Message | None
    """The first message, if it is not stored."""
    is_whole: bool
    """Whether they equal the whole branch."""
    exchanges: int
    user_characters: int

    @property
    def is_certain(self) -> bool:
        """Whether enough matches that no other conversation is likely to end the same way."""
        return self.exchanges >= MIN_EXCHANGES and self.user_characters >= MIN_USER_CHARACTERS


def rows_of(messages: Sequence[Message]) -> list[list[Message]]:
    """Group consecutive messages of one side.

    System messages, and messages without content, belong to the row that they precede, or to the last one.
    """
    rows: list[list[Message]] = []
    waiting: list[Message] = []
    is_answer = False  # of the last row
    for message in messages:
        role = message.role
        if role == "system" or not message.blocks:
            waiting.append(message)
        else:
            if not rows or is_answer is not (role == "assistant"):
                rows.append([])
                is_answer = role == "assistant"
            rows[-1] += [*waiting, message] if waiting else (message,)
            waiting = []
    if waiting and rows:
        rows[-1] += waiting
    return rows


def _is_answer(row: Sequence[Message]) -> bool:
    return any(message.role == "assistant" and message.blocks for message in row)


def side_of(row: Sequence[Message]) -> Message:
    """Join the messages of a row into one, without system messages and wire data."""
    only = row[0] if len(row) == 1 else None
    if only is not None and only.blocks and (only.role == "user" or only.role == "assistant"):  # the usual row
        return only if only.wire is None else replace(only, wire=None)
    role: Role = "assistant" if _is_answer(row) else "user"
    messages = (message for message in row if message.role != "system")
    if role == "assistant":
        return Message(role=role, blocks=tuple(block for message in messages for block in message.blocks))
    return Message(role=role, blocks=joined(messages))


def match_tail(sent: Sequence[Message], stored: Sequence[Message]) -> TailMatch | None:
    """Compare the sent messages with a branch; return None if they contradict it.

    ``stored`` is the whole branch, or an end of it that is longer than ``sent``.
    """
    rows, sides = rows_of(sent), [side_of(row) for row in rows_of(stored)]
    first, later = rows[0], rows[1:]
    if len(sides) < len(later):
        return None
    known = sides[len(sides) - len(later) :]
    if not all(says_the_same(side_of(row), side) for row, side in zip(later, known, strict=True)):
        return None
    summary = None
    before = sides[-len(rows)] if len(sides) >= len(rows) else None
    if before is not None and says_the_same(side_of(first), before):
        known = [before, *known]
    elif before is None or len(sides) == len(rows):  # nothing was dropped
        return None
    elif len(first) > 1 and says_the_same(side_of(first[1:]), before):
        known, summary = [before, *known], first[0]
    elif len(first) == 1 and first[0].role == "assistant":
        summary = first[0]
    else:  # it replaces an answered question: an edit, not a summary
        return None
    user_sides = [side for side in known if side.role != "assistant"]
    return TailMatch(
        summary=summary,
        is_whole=summary is None and len(known) == len(sides),
        exchanges=len(user_sides),
        user_characters=sum(len(plain_text(side)) for side in user_sides),
    )
