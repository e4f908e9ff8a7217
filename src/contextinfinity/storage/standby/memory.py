"""What this process has seen lately of its conversations, for when the ledger cannot even be read.

All of it are copies of what the ledger holds, so any of it may go: the branch that was idle for longest goes first.
What is deleted there goes here too, and nothing is given that is past its time to live.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId, TurnId, now
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import NewStep, Turn
from contextinfinity.storage.rules import has_expired

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
    last_seq: int = 0
    """The highest number that was given, where that is known: turns of higher ones may have been deleted."""


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

    def forget(self, session_id: SessionId) -> None:
        """Know nothing of a session any more: it is gone."""
        session = self._sessions.pop(session_id, None)
        if session is not None and session.external_id is not None:
            self._named.pop((session.owner, session.external_id), None)
        for turn_id in [turn_id for turn_id, (turn, _) in self.running.items() if turn.session_id == session_id]:
            del self.running[turn_id]
        self.forget_said(session_id)

    def forget_said(self, session_id: SessionId) -> None:
        """Know nothing of what was said in a session, and of what was made from it, until it is read again."""
        for branch_id in [branch_id for branch_id, known in self._branches.items() if known.session_id == session_id]:
            self._characters -= self._branches.pop(branch_id).characters

    def knows_head(self, branch_id: BranchId) -> bool:
        """Tell whether the head of a branch was seen."""
        return (known := self._branches.get(branch_id)) is not None and known.state is not None

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
        """Give the newest turns of a branch as far as they were seen; None when none was, or not whose they are."""
        known = self._branches.get(branch_id)
        session = self.session(known.session_id) if known is not None else None
        if known is None or session is None or not known.turns:
            return None
        seen = [turn for turn in _without_gaps(known.turns) if before is None or turn.turn_seq < before]
        turns = [turn for turn in seen if is_living(turn, session)]
        return tuple(turns[max(len(turns) - limit, 0) :])

    def state(self, branch_id: BranchId) -> State | None:
        """Give the head of a branch as it was seen last."""
        known = self._branches.get(branch_id)
        session = self.session(known.session_id) if known is not None else None
        return None if known is None or known.state is None or session is None else living_state(known.state, session)

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


def is_living(turn: Turn, session: Session) -> bool:
    """Tell whether a turn is not past its session's time to live."""
    return session.ttl_hours is None or not has_expired(turn.created_at, session.ttl_hours, now())


def living_state(state: State, session: Session) -> State:
    """Give a state without a summary that may hold something past its time; the turns stand word for word then.

    In a session that is younger than its time to live nothing can have expired.
    """
    hours = session.ttl_hours
    if hours is None or not state.summary or not has_expired(session.created_at, hours, now()):
        return state
    return replace(state, summary="", covers_turn_seq=0, token_count_est=0)


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
