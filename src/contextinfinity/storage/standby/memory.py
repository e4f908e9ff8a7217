"""What this process has seen lately of its conversations, for when the ledger cannot even be read.

All of it are copies of what the ledger holds, so any of it may go: the branch that was idle for longest goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, SessionId, TurnId
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import NewStep, Turn

MOST_BRANCHES = 1000
MOST_CHARACTERS = 20_000_000
MOST_RUNNING = 4096
MOST_TURNS = 200
"""Of one branch, the newest."""


class Seed(Struct, frozen=True, kw_only=True):
    """What is known of a branch: its head, its last turns without gaps, and what runs."""

    branch_id: BranchId
    session: Session
    state: State
    turns: tuple[Turn, ...] = ()
    plan: Plan | None = None
    """Of the last of them."""


@dataclass
class Known:
    """One branch, as it was seen last."""

    session_id: SessionId | None = None
    state: State | None = None
    turns: dict[int, Turn] = field(default_factory=dict)
    plan: Plan | None = None
    characters: int = 0


class Memory:
    """Branches and sessions, the latest at hand."""

    def __init__(self, most_branches: int = MOST_BRANCHES, most_characters: int = MOST_CHARACTERS) -> None:
        self._most_branches = most_branches
        self._most_characters = most_characters
        self._branches: OrderedDict[BranchId, Known] = OrderedDict()
        self._sessions: OrderedDict[SessionId, Session] = OrderedDict()
        self._named: dict[tuple[Owner, str], SessionId] = {}
        self._characters = 0
        self.running: OrderedDict[TurnId, tuple[Turn, tuple[NewStep, ...]]] = OrderedDict()
        """The turns that this process answers, and what it asked for them; gone once they have ended."""

    def __len__(self) -> int:
        return len(self._branches)

    def see_session(self, session: Session) -> None:
        """Note a session."""
        self._sessions[session.id] = session
        self._sessions.move_to_end(session.id)
        if session.external_id is not None:
            self._named[session.owner, session.external_id] = session.id
        while len(self._sessions) > 2 * self._most_branches:
            _, gone = self._sessions.popitem(last=False)
            self._named.pop((gone.owner, gone.external_id or ""), None)

    def session(self, session_id: SessionId | None) -> Session | None:
        """Give a session that was seen."""
        return None if session_id is None else self._sessions.get(session_id)

    def named(self, owner: Owner, external_id: str) -> Session | None:
        """Give the owner's session of that foreign id, if it was seen."""
        return self.session(self._named.get((owner, external_id)))

    def see_state(self, state: State, branch_id: BranchId) -> None:
        """Note the head of a branch."""
        known = self._known(branch_id)
        known.session_id, known.state = state.session_id, state

    def see_turns(self, branch_id: BranchId, turns: Sequence[Turn]) -> None:
        """Note turns that a branch sees."""
        known = self._known(branch_id)
        for turn in turns:
            before = known.turns.get(turn.turn_seq)
            if before is None or before.updated_at != turn.updated_at:
                self._put(known, turn, before)
        while len(known.turns) > MOST_TURNS:
            self._drop(known, min(known.turns))
        while len(self._branches) > self._most_branches or self._characters > self._most_characters:
            _, idle = self._branches.popitem(last=False)
            self._characters -= idle.characters

    def see_step(self, turn: Turn, step: NewStep | None) -> None:
        """Note where a turn of this process stands, and what was asked for it."""
        _, steps = self.running.get(turn.id, (turn, ()))
        self.running[turn.id] = turn, steps if step is None else (*steps, step)
        while len(self.running) > MOST_RUNNING:  # some end without our hearing of it: others took them over
            self.running.popitem(last=False)
        if step is not None:
            self._known(turn.branch_id).plan = step.plan

    def seed(self, branch_id: BranchId) -> Seed | None:
        """Give what a branch can go on from; None when too little was seen of it."""
        known = self._branches.get(branch_id)
        session = self.session(known.session_id) if known is not None else None
        if known is None or known.state is None or session is None:
            return None
        last = _without_gaps(known.turns)
        return Seed(branch_id=branch_id, session=session, state=known.state, turns=last, plan=known.plan)

    def history(self, branch_id: BranchId, limit: int, before: int | None) -> tuple[Turn, ...] | None:
        """Give the newest turns of a branch as far as they were seen; None when none was."""
        if (known := self._branches.get(branch_id)) is None or not known.turns:
            return None
        turns = [turn for turn in _without_gaps(known.turns) if before is None or turn.turn_seq < before]
        return tuple(turns[max(len(turns) - limit, 0) :])

    def state(self, branch_id: BranchId) -> State | None:
        """Give the head of a branch as it was seen last."""
        return known.state if (known := self._branches.get(branch_id)) is not None else None

    def _known(self, branch_id: BranchId) -> Known:
        known = self._branches.setdefault(branch_id, Known())
        self._branches.move_to_end(branch_id)
        return known

    def _put(self, known: Known, turn: Turn, before: Turn | None) -> None:
        grown = _length(turn) - (0 if before is None else _length(before))
        known.turns[turn.turn_seq] = turn
        known.session_id = turn.session_id
        known.characters += grown
        self._characters += grown

    def _drop(self, known: Known, turn_seq: int) -> None:
        gone = _length(known.turns.pop(turn_seq))
        known.characters -= gone
        self._characters -= gone


def _length(turn: Turn) -> int:
    return len(turn.user_message.rendered_text) + len(turn.text)


def _without_gaps(turns: dict[int, Turn]) -> tuple[Turn, ...]:
    """Give the newest turns back to the first that is missing."""
    kept: list[Turn] = []
    for turn_seq in sorted(turns, reverse=True):
        if kept and kept[-1].turn_seq != turn_seq + 1:
            break
        kept.append(turns[turn_seq])
    return tuple(reversed(kept))
