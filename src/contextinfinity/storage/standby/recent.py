"""A bounded cache of the conversations that this process used last, for when the ledger cannot even be read.

All of it are copies of what the ledger holds, so any of it may be dropped; the branch that was idle for longest goes
first. What is deleted in the ledger is dropped here too, and nothing is returned that is past its time to live.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId, TurnId, now
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import IdempotencyKey, Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import NewStep, Phase, Turn
from contextinfinity.errors import LedgerAway
from contextinfinity.storage.invariants import check_same_request, has_expired

MOST_BRANCHES = 1000
MOST_CHARACTERS = 20_000_000
MOST_RUNNING = 4096
MOST_REQUESTS = 4096
MOST_TURNS = 200
"""Of one branch, the newest."""


_PHASES = {phase: place for place, phase in enumerate(Phase)}


class Seed(Struct, frozen=True, kw_only=True):
    """The cached knowledge of a branch: its session, its head (None: unknown), its last turns without gaps."""

    branch_id: BranchId
    session: Session
    state: State | None
    turns: tuple[Turn, ...] = ()
    plan: Plan | None = None
    """Of the last of them."""
    last_seq: int | None = None
    """The highest turn_seq that was given out, if that is known: turns of higher ones may have been deleted."""

    def head(self) -> State:
        """Return the head. Raises ``LedgerAway`` if it is unknown."""
        if self.state is None:
            raise LedgerAway(f"The head of branch {self.branch_id} was not read before.")
        return self.state

    def history(self, limit: int, before: int | None) -> tuple[Turn, ...]:
        """Return the newest turns. Raises ``LedgerAway`` if they are unknown."""
        if self.last_seq is None:
            raise LedgerAway(f"The turns of branch {self.branch_id} were not read before.")
        return newest(self.turns, self.session, limit, before)


@dataclass
class _Branch:
    session_id: SessionId | None = None
    state: State | None = None
    turns: dict[int, Turn] = field(default_factory=dict)
    plan: Plan | None = None
    characters: int = 0


class Recent:
    """Sessions and branches that were used last."""

    def __init__(self, most_branches: int = MOST_BRANCHES, most_characters: int = MOST_CHARACTERS) -> None:
        self._most_branches = most_branches
        self._most_characters = most_characters
        self._branches: OrderedDict[BranchId, _Branch] = OrderedDict()
        self._sessions: OrderedDict[SessionId, Session] = OrderedDict()
        self._characters = 0
        self.running: OrderedDict[TurnId, tuple[Turn, tuple[NewStep, ...]]] = OrderedDict()
        """The turns that this process answers, with the steps opened for them, until they end."""
        self._requests: OrderedDict[str, tuple[str, TurnId | SessionId]] = OrderedDict()
        """By idempotency key: the hash of the request, and what it made."""

    def __len__(self) -> int:
        return len(self._branches)

    def remember_session(self, session: Session) -> None:
        """Remember a session."""
        self._sessions[session.id] = session
        self._sessions.move_to_end(session.id)
        while len(self._sessions) > 2 * self._most_branches:
            self._sessions.popitem(last=False)

    def session(self, session_id: SessionId | None) -> Session | None:
        """Return a session that was seen."""
        return None if session_id is None else self._sessions.get(session_id)

    def named(self, owner: Owner, external_id: str) -> Session | None:
        """Return the owner's session of that external id, if it was seen."""
        found = (session for session in self._sessions.values() if session.external_id == external_id)
        return next((session for session in found if session.owner == owner), None)

    def remember_request(self, once: IdempotencyKey | None, made: TurnId | SessionId) -> None:
        """Remember what a request with an idempotency key made."""
        if once is not None:
            self._requests[once.key] = once.asked, made
            if len(self._requests) > MOST_REQUESTS:
                self._requests.popitem(last=False)

    def requested(self, once: IdempotencyKey) -> TurnId | SessionId | None:
        """Return what the request with this idempotency key made. Raises ``KeyReused`` if it was another request."""
        if (known := self._requests.get(once.key)) is None:
            return None
        check_same_request(once, known[0])
        return known[1]

    def forget(self, session_id: SessionId) -> None:
        """Drop a session with everything of it."""
        self._sessions.pop(session_id, None)
        for turn_id in [turn_id for turn_id, (turn, _) in self.running.items() if turn.session_id == session_id]:
            del self.running[turn_id]
        self.forget_turns(session_id)

    def forget_turns(self, session_id: SessionId) -> None:
        """Drop the turns and states of a session until they are read again."""
        for branch_id in [branch_id for branch_id, known in self._branches.items() if known.session_id == session_id]:
            self._characters -= self._branches.pop(branch_id).characters

    def knows_head(self, branch_id: BranchId) -> bool:
        """Return whether the head of a branch was seen."""
        return (known := self._branches.get(branch_id)) is not None and known.state is not None

    def remember_state(self, branch_id: BranchId, state: State) -> None:
        """Remember the head of a branch."""
        known = self._branch(branch_id)
        known.session_id, known.state = state.session_id, state

    def remember_turns(self, branch_id: BranchId, turns: Sequence[Turn]) -> None:
        """Remember turns of a branch's lineage."""
        known = self._branch(branch_id)
        for turn in turns:
            known.session_id = turn.session_id
            before = known.turns.get(turn.turn_seq)
            if before is None or _age(before) < _age(turn):
                known.turns[turn.turn_seq] = turn
                self._grow(known, _length(turn) - (0 if before is None else _length(before)))
        while len(known.turns) > MOST_TURNS:
            self._grow(known, -_length(known.turns.pop(min(known.turns))))
        while len(self._branches) > self._most_branches or self._characters > self._most_characters:
            _, idle = self._branches.popitem(last=False)
            self._characters -= idle.characters

    def remember_step(self, turn: Turn, step: NewStep | None) -> None:
        """Remember the phase of a turn that this process answers, and a step that was opened for it."""
        _, steps = self.running.get(turn.id, (turn, ()))
        self.running[turn.id] = turn, steps if step is None else (*steps, step)
        while len(self.running) > MOST_RUNNING:  # another worker may have ended some of them
            self.running.popitem(last=False)
        if step is not None:
            self._branch(turn.branch_id).plan = step.plan

    def recall(self, branch_id: BranchId) -> Seed | None:
        """Return what was seen of a branch; None if its session was not seen."""
        known = self._branches.get(branch_id)
        session = None if known is None else self.session(known.session_id)
        if known is None or session is None:
            return None
        return Seed(
            branch_id=branch_id,
            session=session,
            state=None if known.state is None else unexpired_state(known.state, session),
            turns=newest(_without_gaps(known.turns), session, MOST_TURNS),
            plan=known.plan,
            last_seq=max(known.turns, default=None),
        )

    def _branch(self, branch_id: BranchId) -> _Branch:
        known = self._branches.setdefault(branch_id, _Branch())
        self._branches.move_to_end(branch_id)
        return known

    def _grow(self, known: _Branch, characters: int) -> None:
        known.characters += characters
        self._characters += characters


def newest(turns: Iterable[Turn], session: Session, limit: int, before: int | None = None) -> tuple[Turn, ...]:
    """Return the last turns before a turn_seq that are not past their session's time to live."""
    hours, moment = session.ttl_hours, now()
    found = [turn for turn in turns if before is None or turn.turn_seq < before]
    living = [turn for turn in found if hours is None or not has_expired(turn.created_at, hours, moment)]
    return tuple(living[max(len(living) - limit, 0) :])


def unexpired_state(state: State, session: Session) -> State:
    """Return a state without a summary that may hold something past its time to live.

    In a session that is younger than its time to live nothing can have expired.
    """
    hours = session.ttl_hours
    if hours is None or not state.summary or not has_expired(session.created_at, hours, now()):
        return state
    return replace(state, summary="", covers_turn_seq=0, token_count_est=0)


def _age(turn: Turn) -> tuple[datetime, int]:
    """Return what orders the versions of a turn: two phases may be written in the same millisecond."""
    return turn.updated_at, _PHASES[turn.phase]


def _length(turn: Turn) -> int:
    return len(turn.user_message.rendered_text) + len(turn.text)


def _without_gaps(turns: dict[int, Turn]) -> tuple[Turn, ...]:
    """Return the newest turns back to the first that is missing."""
    kept: list[Turn] = []
    for turn_seq in sorted(turns, reverse=True):
        if kept and kept[-1].turn_seq != turn_seq + 1:
            break
        kept.append(turns[turn_seq])
    return tuple(reversed(kept))
