"""The contract for imported messages, and how messages become turns.

A message is a duplicate if its conversation already has its ``external_id`` or, without one, if the same text was
imported from the same position. A user message starts a turn, and the next assistant message answers it. Consecutive
tool results form one message, because a model must see them together. Any other assistant message is a turn of its own.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from contextinfinity.domain import wire
from contextinfinity.domain.ids import BranchId, SessionId, TurnId
from contextinfinity.domain.imported import ImportCounts, ImportedMessage, ImportedTurn, Origin
from contextinfinity.domain.message import Message, ToolResultBlock
from contextinfinity.domain.turn import Exchange
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.invariants import LARGEST_COUNT, check_json, check_message

LONGEST_ID = 512
HASH_BYTES = 16


class ImportStore(Protocol):
    """Imported messages, each stored once. The rules of ``storage.contract`` apply."""

    async def add(self, branch_id: BranchId, arrivals: Sequence[ImportedMessage]) -> ImportCounts:
        """Append the messages that the session does not have yet, as turns in phase Done without an owner.

        One state covers all of them. If the first message is an answer, and the branch's newest turn was imported
        without one from an earlier position, it becomes that turn's answer. Two new messages with an existing one
        between them do not form one turn. Raises ``OutOfOrder`` if there is something to add while turns of the branch
        are neither committed nor failed.
        """
        ...

    async def add_turns(self, session_id: SessionId, turns: Sequence[ImportedTurn]) -> ImportCounts:
        """Add the turns that the session does not have yet, in one transaction; parents must precede their children.

        A turn is appended to its parent's branch, or to a new branch forked after the parent if that branch has
        continued; the first turn without a parent starts the main branch. The result counts messages; one that
        several branches share is counted once. Turns after a deleted turn are left out (``clashing``). Raises
        ``OutOfOrder`` while turns of a branch are neither committed nor failed.
        """
        ...

    async def origins(self, turn_ids: Collection[TurnId]) -> dict[TurnId, tuple[Origin, ...]]:
        """Return the origins of the messages of turns, question first; turns that were not imported are left out."""
        ...

    async def beginning(self, session_id: SessionId, *, limit: int = 64) -> tuple[Origin, ...]:
        """Return the origins of a session with the lowest positions, in order."""
        ...


class Pair(NamedTuple):
    """Messages that become one turn."""

    said: tuple[ImportedMessage, ...]
    answer: ImportedMessage | None = None

    @property
    def is_open(self) -> bool:
        """Whether the turn still lacks an answer."""
        return self.answer is None and self.said[0].message.role != "assistant"


def pairs_of(arrivals: Sequence[ImportedMessage], there: Collection[int] = ()) -> list[Pair]:
    """Group messages into turns, but not across positions that exist already."""
    pairs: list[Pair] = []
    known = sorted(there)
    for each in arrivals:
        last = pairs[-1] if pairs else None
        if last is not None and bisect(known, last.said[-1].place) != bisect(known, each.place):
            last = None
        if last is not None and last.is_open and each.message.role == "assistant":
            pairs[-1] = Pair(last.said, each)
        elif last is not None and last.answer is None and _brings_results(each) and _brings_results(last.said[-1]):
            pairs[-1] = Pair((*last.said, each))
        else:
            pairs.append(Pair((each,)))
    return pairs


def exchange_of(pair: Pair) -> Exchange:
    """Return the turn that a pair becomes, with the time of its first message."""
    first, answer = pair.said[0], pair.answer
    blocks = tuple(block for each in pair.said for block in each.message.blocks)
    everything = pair.said if answer is None else (*pair.said, answer)
    return Exchange(
        message=first.message if len(pair.said) == 1 else Message(role="tool", blocks=blocks),
        answer=None if answer is None else answer.message,
        created_at=next((each.created_at for each in everything if each.created_at is not None), None),
        model=next((each.model for each in reversed(everything) if each.model), ""),
    )


def hash_of(arrival: ImportedMessage) -> bytes:
    """Return a short hash of a message's content, to recognise it within one conversation."""
    return wire.content_hash(arrival.message)[:HASH_BYTES]


def check_arrivals(arrivals: Sequence[ImportedMessage]) -> None:
    """Raise ``InvalidInput`` for imported messages that cannot be stored."""
    for each in arrivals:
        check_message(each.message)
        check_json(each.details, "details")
        if not 0 <= each.place <= LARGEST_COUNT:
            raise InvalidInput(f"place is {each.place}; it may be 0 to 2**53.")
        if each.external_id is not None and not 1 <= len(each.external_id) <= LONGEST_ID:
            raise InvalidInput(f"The id has {len(each.external_id)} characters; it may have 1 to {LONGEST_ID}.")


def _brings_results(arrival: ImportedMessage) -> bool:
    blocks = arrival.message.blocks
    return arrival.message.role == "tool" and any(isinstance(block, ToolResultBlock) for block in blocks)
