"""Messages from elsewhere, in every store: the contract, and how messages become turns.

A message is the same as one that is there when its conversation has its ``external_id`` already or, without one, when
the same words came from the same place. A question opens a turn and the assistant's next words answer it; results of
tools that follow each other are one message, because a model has to see them together. Any other message of the
assistant is a turn by itself.
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
    """Messages from elsewhere, each once. What all verbs of a store share, these share."""

    async def add(self, branch_id: BranchId, arrivals: Sequence[ImportedMessage]) -> ImportCounts:
        """Append those that the session does not have yet: turns that are Done, nobody's, in the order given.

        One state counts past them all. If the first one answers, and the branch's newest turn arrived without an
        answer, from a place before it, and nothing came after it, it is that turn's answer. Two that are new with one
        between them that was there before do not become one turn. ``OutOfOrder`` while turns of the branch are not
        settled, unless there is nothing to add.
        """
        ...

    async def add_turns(self, session_id: SessionId, turns: Sequence[ImportedTurn]) -> ImportCounts:
        """Add those turns that the session does not have yet, in one transaction; parents come before their children.

        A turn goes to the end of its parent's branch or, where that has gone on, to a new branch that leaves it there;
        the first one without a parent begins the main branch. What is counted are messages; one that several branches
        have is counted once. Turns that follow one that was deleted are left out (``clashing``). ``OutOfOrder`` while
        turns of a branch are not settled.
        """
        ...

    async def origins(self, turn_ids: Collection[TurnId]) -> dict[TurnId, tuple[Origin, ...]]:
        """Tell where the messages of turns came from, question first; turns that were said here are left out."""
        ...

    async def beginning(self, session_id: SessionId, *, limit: int = 64) -> tuple[Origin, ...]:
        """Read the origins of a session with the lowest places, in their order."""
        ...


class Pair(NamedTuple):
    """Messages that become one turn."""

    said: tuple[ImportedMessage, ...]
    answer: ImportedMessage | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can be answered."""
        return self.answer is None and self.said[0].message.role != "assistant"


def pairs_of(arrivals: Sequence[ImportedMessage], there: Collection[int] = ()) -> list[Pair]:
    """Put messages together to turns, except across places that were there before."""
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
    """Give a pair as the turn it becomes; it was said when its first message was."""
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
    """Hash what a message says, short: to know it again among those of one conversation."""
    return wire.content_hash(arrival.message)[:HASH_BYTES]


def check_arrivals(arrivals: Sequence[ImportedMessage]) -> None:
    """Refuse messages from elsewhere that cannot be kept."""
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
