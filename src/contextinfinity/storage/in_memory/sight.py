"""What a turn sees of its user's memories, in memory. What it does not see makes nothing untrue for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.memory import Memory, Recall
from contextinfinity.storage.in_memory.tables import Tables
from contextinfinity.storage.memories import sees
from contextinfinity.storage.rules import has_expired

if TYPE_CHECKING:
    from contextinfinity.storage.in_memory.memories import Kept


class Sight:
    """The memories of an owner as one turn sees them."""

    def __init__(self, tables: Tables, asked: Recall) -> None:
        self._tables, self._asked = tables, asked

    def true(self) -> list[Kept]:
        """Give what the turn sees, and sees nothing of that makes it untrue."""
        own = [kept for kept in self._tables.memories.values() if kept.memory.owner == self._asked.owner]
        there = [kept for kept in own if kept.thread in (None, self._asked.session_id)]
        true = [kept for kept in there if self.instead(kept) is kept]
        true = [kept for kept in true if not any(_is_later(other, kept) for other in true)]
        return [kept for kept in true if not any(self._is_nearer(other, kept) for other in true)]

    def instead(self, kept: Kept) -> Kept | None:
        """Find the last that the turn sees of what was said since; None where that was forgotten."""
        best = kept if self._sees(kept) else None
        while (by := kept.memory.superseded_by) is not None:
            if by not in self._tables.memories:
                return None
            kept = self._tables.memories[by]
            best = kept if self._sees(kept) else best
        return best

    def shown(self, kept: Kept) -> Memory:
        """Give one as it holds for the turn."""
        return replace(kept.shown(), superseded_by=None, valid_to=kept.memory.valid_to)

    def _sees(self, kept: Kept) -> bool:
        if not kept.sources or kept.memory.origin == "person":
            return True
        turns = [source.turn_id for source in kept.sources if not self._is_past(source.turn_id)]
        if kept.thread is None and (self._asked.other_branches or kept.memory.origin != "drawn"):
            return bool(turns)
        return any(map(self._is_in_line, turns))

    def _is_nearer(self, other: Kept, kept: Kept) -> bool:
        """Tell whether another says the same for this thread: its own holds, unless the user said so later in it."""
        if (
            not kept.memory.about
            or other.memory.about != kept.memory.about
            or (kept.thread is None) == (other.thread is None)
        ):
            return False
        users, threads = (kept, other) if kept.thread is None else (other, kept)
        last = max(users.sources, key=lambda source: source.said_at, default=None)
        is_here = last is not None and self._tables.turns[last.turn_id].session_id == self._asked.session_id
        is_over = is_here and users.said_at() > threads.said_at()
        return (other is users) == is_over

    def _is_past(self, turn_id: TurnId) -> bool:
        turn = self._tables.turns[turn_id]
        hours = self._tables.sessions[turn.session_id].ttl_hours
        return hours is not None and has_expired(turn.created_at, hours, self._asked.at)

    def _is_in_line(self, turn_id: TurnId) -> bool:
        tables, turn = self._tables, self._tables.turns[turn_id]
        here = turn.session_id == self._asked.session_id
        line = self._asked.branch_id if here else tables.sessions[turn.session_id].active_branch
        return sees(tables.lineage(tables.branch(line)), turn.branch_id, turn.turn_seq)


def holds(kept: Kept, asked: Recall) -> bool:
    """Tell whether it is neither over nor expired."""
    end = kept.memory.valid_to
    return kept.last_used() >= asked.oldest and (end is None or end > asked.at)


def _is_later(other: Kept, kept: Kept) -> bool:
    """Tell whether another is said later of the same, where one holds only since its correction is out of sight."""
    mine, theirs = kept.memory, other.memory
    if not mine.about or mine.superseded_by is None or (mine.about, kept.thread) != (theirs.about, other.thread):
        return False
    return other is not kept and (theirs.superseded_by is None or other.said_at() > kept.said_at())
