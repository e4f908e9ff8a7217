"""The dicts behind the in-memory store.

Every verb runs inside ``transaction``: it computes and checks everything first and writes at the end,
so that a verb that raises has changed nothing, and no other thread sees half of one.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING

from contextinfinity.domain import wire
from contextinfinity.domain.ids import BranchId, SessionId, StateId, StepId, TurnId, WorkerId, now
from contextinfinity.domain.message import Message
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.search import Place
from contextinfinity.domain.session import Branch, Lineage, Owner, Session
from contextinfinity.domain.state import FoldCandidate, State
from contextinfinity.domain.turn import UNSETTLED_PHASES, Phase, Step, Turn
from contextinfinity.domain.work import Job, JobType, Worker
from contextinfinity.errors import Gone, LedgerClosed, NotFound
from contextinfinity.storage.rules import has_expired
from contextinfinity.text.keywords import terms

if TYPE_CHECKING:
    from contextinfinity.storage.in_memory.trails import Trod


class Tables:
    """All rows, and the look-ups that keep every verb independent of how much is stored."""

    def __init__(self) -> None:
        self.sessions: dict[SessionId, Session] = {}
        self.by_external_id: dict[tuple[Owner, str], SessionId] = {}
        self.branches: dict[BranchId, Branch] = {}
        self.branches_of: dict[SessionId, list[BranchId]] = {}
        self.states: dict[StateId, State] = {}
        self.candidates: dict[BranchId, FoldCandidate] = {}
        self.turns: dict[TurnId, Turn] = {}
        self.turns_of: dict[BranchId, list[TurnId]] = {}
        self.unsettled_of: dict[BranchId, dict[TurnId, None]] = {}
        self.trails: dict[TurnId, Trod] = {}
        self.requests: dict[str, tuple[str, TurnId]] = {}
        self.session_requests: dict[str, tuple[str, SessionId]] = {}
        self.steps: dict[StepId, Step] = {}
        self.steps_of: dict[TurnId, list[StepId]] = {}
        self.questions: dict[TurnId, Plan] = {}
        self.message_keys = count(1)
        self.numbers: dict[Place, int] = {}
        self.own: dict[Place, frozenset[str]] = {}
        self.lent: dict[Place, frozenset[str]] = {}
        self.uncut: set[TurnId] = set()
        self.texts: dict[str, tuple[str, datetime]] = {}
        self.blobs: dict[str, tuple[bytes, str, datetime]] = {}
        self.blobs_shown: set[str] = set()
        self.jobs: dict[int, Job] = {}
        self.job_of: dict[tuple[JobType, BranchId, TurnId | None], int] = {}
        self.job_numbers = count(1)
        self.workers: dict[WorkerId, Worker] = {}
        self.jobs_again: set[int] = set()
        self.dead_workers: set[WorkerId] = set()
        self.last_deleted: dict[SessionId, int] = {}
        self.buried: dict[SessionId, Owner] = {}
        self.deleted: set[TurnId] = set()
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def transaction(self) -> Iterator[Tables]:
        """Have the tables to oneself."""
        with self._lock:
            if self._closed:
                raise LedgerClosed("This ledger is closed.")
            yield self

    def close(self) -> None:
        """Let the running verb finish, then refuse all others."""
        with self._lock:
            self._closed = True

    # --- reading what must be there ---

    def session(self, session_id: SessionId) -> Session:
        """Give a session or say that there is none."""
        if (session := self.sessions.get(session_id)) is None:
            raise NotFound(f"There is no session {session_id}.")
        return session

    def branch(self, branch_id: BranchId) -> Branch:
        """Give a branch or say that there is none."""
        if (branch := self.branches.get(branch_id)) is None:
            raise NotFound(f"There is no branch {branch_id}.")
        return branch

    def turn(self, turn_id: TurnId) -> Turn:
        """Give a turn or say that there is none."""
        if (turn := self.turns.get(turn_id)) is None:
            raise NotFound(f"There is no turn {turn_id}.")
        return turn

    def place_on(self, branch_id: BranchId, turn_seq: int) -> int:
        """Give where in a branch's own turns that one stands, or would stand: some may have been deleted."""
        return bisect_left(self.turns_of[branch_id], turn_seq, key=lambda turn_id: self.turns[turn_id].turn_seq)

    def is_living(self, turn: Turn) -> bool:
        """Tell whether a turn is not past its session's time to live."""
        hours = self.sessions[turn.session_id].ttl_hours
        return hours is None or not has_expired(turn.created_at, hours, now())

    def refuse_deleted(self, turn_id: TurnId) -> None:
        """Refuse a turn that was there and is gone."""
        if turn_id in self.deleted:
            raise Gone(f"Turn {turn_id} was deleted.")

    def head(self, branch: Branch) -> State:
        """Give the last committed state of a branch."""
        return self.states[branch.head_state]

    def chain(self, branch: Branch) -> Iterator[State]:
        """Walk the states from the head back to the root."""
        state: State | None = self.head(branch)
        while state is not None:
            yield state
            state = None if state.parent_id is None else self.states[state.parent_id]

    def lineage(self, branch: Branch) -> Lineage:
        """Tell whose turns a branch sees."""
        line = [(branch.id, branch.fork_seq)]
        while branch.parent_id is not None:
            branch = self.branches[branch.parent_id]
            line.append((branch.id, branch.fork_seq))
        return Lineage.of(line)

    def unsettled(self, branch_id: BranchId) -> Iterator[Turn]:
        """Walk the turns of a branch that nothing can be committed past, the oldest first."""
        return (self.turns[turn_id] for turn_id in self.unsettled_of[branch_id])

    # --- writing, once everything is checked ---

    def put_branch(self, branch: Branch) -> None:
        """Add a branch, or replace it by its next form."""
        if branch.id not in self.branches:
            self.branches_of.setdefault(branch.session_id, []).append(branch.id)
            self.turns_of[branch.id] = []
            self.unsettled_of[branch.id] = {}
        self.branches[branch.id] = branch

    def forget_requests(self, session_id: SessionId) -> None:
        """Let go of the keys of a session that is deleted."""
        self.session_requests = {k: made for k, made in self.session_requests.items() if made[1] != session_id}
        self.requests = {k: made for k, made in self.requests.items() if made[1] in self.turns}

    def put_turn(self, turn: Turn) -> None:
        """Add a turn at the end of its branch, or replace it by its next form; what it says is found from then on."""
        before = self.turns.get(turn.id)
        if before is None:
            self.turns_of[turn.branch_id].append(turn.id)
            self._hear(Place(turn.id, "user"), turn.user_message)
        if turn.answer is not None and (before is None or before.answer is None):
            self._hear(Place(turn.id, "assistant"), turn.answer)
        if _is_to_be_cut(before, turn):
            self.uncut.add(turn.id)
        self.turns[turn.id] = turn
        if turn.phase in UNSETTLED_PHASES:
            self.unsettled_of[turn.branch_id][turn.id] = None
        else:
            self.unsettled_of[turn.branch_id].pop(turn.id, None)

    def _hear(self, place: Place, message: Message) -> None:
        """Number a message, and know its words."""
        self.numbers[place] = 2 * next(self.message_keys)
        if message.rendered_text.strip():
            self.own[place] = frozenset(terms(message.rendered_text))


def _is_to_be_cut(before: Turn | None, turn: Turn) -> bool:
    """Tell whether a turn has just ended without being cut, or got an answer after its end."""
    if turn.phase is Phase.DONE:
        return before is None or before.answer is not turn.answer
    if turn.phase is Phase.INDEXED:
        return turn.degraded
    return turn.phase is Phase.FAILED and (before is None or before.phase is not Phase.FAILED)


def waiting(turns: Iterator[Turn]) -> list[Turn]:
    """Keep the turns that nobody has begun to answer."""
    return [turn for turn in turns if turn.phase is Phase.ACCEPTED]


def check_text(value: object) -> None:
    """Refuse what could not be written down: lone surrogates, objects that are no JSON."""
    wire.dumps(value)
