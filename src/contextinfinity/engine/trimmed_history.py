"""Compare the messages that a client sent with the end of a stored branch: for clients that drop old messages.

Consecutive messages of one side are compared as one (a *side*), after the normalisation of ``domain.trail``. The sent
messages match if they equal the last sides of the branch, one by one. Only the very first sent message may be unknown,
only where messages of the branch were dropped, and only in front of a whole exchange: it is the client's own summary of
them. Everything else is a contradiction.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import Message, Role
from contextinfinity.domain.prefix_hash import plain_text, says_the_same

MIN_EXCHANGES = 2
MIN_USER_CHARACTERS = 200
"""What has to match before a conversation is recognised by its end: common phrases are shorter."""


class TailMatch(Struct, frozen=True, kw_only=True):
    """Sent messages that equal the end of a branch."""

    summary: Message | None
    """The message in front that is not stored."""
    is_whole: bool
    """Whether they are the whole branch."""
    exchanges: int
    user_characters: int

    @property
    def is_certain(self) -> bool:
        """Whether so much matches that no other conversation is likely to end alike."""
        return self.exchanges >= MIN_EXCHANGES and self.user_characters >= MIN_USER_CHARACTERS


def rows_of(messages: Sequence[Message]) -> list[list[Message]]:
    """Group consecutive messages of one side; messages without content are left out.

    System messages say nothing of their own: they stand in the row that they precede, or at the end of the last one.
    """
    rows: list[list[Message]] = []
    waiting: list[Message] = []
    is_answer = False  # the last row
    for message in messages:
        role = message.role
        if role == "system":
            waiting.append(message)
        elif not message.blocks:
            continue
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
    return any(message.role == "assistant" for message in row)


def side_of(row: Sequence[Message]) -> Message:
    """Join the messages of a row, without system messages and as blocks only."""
    role: Role = "assistant" if _is_answer(row) else "user"
    if len(row) == 1 and row[0].role == role:
        return row[0] if row[0].wire is None else replace(row[0], wire=None)
    said = (message for message in row if message.role != "system")
    return Message(role=role, blocks=tuple(block for message in said for block in message.blocks))


def match_tail(sent: Sequence[Message], stored: Sequence[Message]) -> TailMatch | None:
    """Compare sent messages with a branch; None: they contradict it.

    ``stored`` is the whole branch, or the end of it that is longer than ``sent``.
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
    else:  # it replaces a stored question whose answer follows: an edited question, not a summary
        return None
    asked = [side for side in known if side.role != "assistant"]
    return TailMatch(
        summary=summary,
        is_whole=summary is None and len(known) == len(sides),
        exchanges=len(asked),
        user_characters=sum(len(plain_text(side)) for side in asked),
    )
