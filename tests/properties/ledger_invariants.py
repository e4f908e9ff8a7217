"""What holds of a ledger at every moment, checked from outside through its contract."""

from __future__ import annotations

from typing import Any

import msgspec

from contextinfinity.domain.session import Branch
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import OPEN_PHASES, TRANSITIONS, Phase, Turn
from contextinfinity.storage.contract import Store

ALL = 100_000
FIXED_OF_A_BRANCH = ("id", "session_id", "base_state", "created_at", "parent_id", "fork_seq", "label")
FIXED_OF_A_TURN = (
    "id",
    "session_id",
    "branch_id",
    "turn_seq",
    "state_before",
    "user_message",
    "created_at",
    "retry_of",
    "metadata",
    "owner",
)
FIXED_ONCE_ENDED = ("answer", "outcome", "error", "usage", "provider", "model")
ENDED = frozenset(Phase) - OPEN_PHASES - {Phase.ACCEPTED}


def picked(value: Any, fields: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(getattr(value, field) for field in fields)


def reachable(old: Phase) -> set[Phase]:
    """The phases a turn may be in by now, if it was in that one."""
    found, ahead = {old}, [old]
    while ahead:
        new = TRANSITIONS[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def was_open(turn: Turn) -> bool:
    """Return whether a turn was recorded without an answer."""
    return turn.phase is Phase.DONE and turn.outcome is None


class Witness:
    """Remembers everything it ever read of a store, and notices when the past changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns: dict[str, Turn] = {}
        self._states: dict[str, State] = {}
        self._branches: dict[str, Branch] = {}
        self._histories: dict[str, tuple[Turn, ...]] = {}

    async def check_branch(self, branch_id: str) -> None:
        branch = await self._store.branches.get(branch_id)
        assert branch is not None, "a branch is never gone"
        turns = await self._store.turns.history(branch_id, limit=ALL)
        chain = await self._store.states.list(branch_id, limit=ALL)
        self._check_turns(branch, turns)
        self._check_chain(branch, chain)
        self._check_commits(branch, turns, chain)
        self._remember(branch, turns, chain)
        lineage = await self._store.branches.lineage(branch_id)
        assert [lineage.owner_of(turn.turn_seq) for turn in turns] == [turn.branch_id for turn in turns]

    def check_siblings(self, one: str, other: str) -> None:
        """Two histories are the same up to some turn, and have nothing in common after it."""
        first, second = ([turn.id for turn in self._histories.get(name, ())] for name in (one, other))
        shared = len({*first} & {*second})
        assert first[:shared] == second[:shared]

    def _check_turns(self, branch: Branch, turns: tuple[Turn, ...]) -> None:
        assert [turn.turn_seq for turn in turns] == list(range(1, branch.last_turn_seq + 1))
        own = [turn for turn in turns if turn.branch_id == branch.id]
        assert own == list(turns[branch.fork_seq :])
        assert len([turn for turn in own if turn.phase in OPEN_PHASES]) <= 1

    def _check_chain(self, branch: Branch, chain: tuple[State, ...]) -> None:
        assert (chain[0].id, chain[0].state_seq) == (branch.head_state, branch.head_seq)
        assert [state.state_seq for state in chain] == list(range(branch.head_seq, -1, -1))
        assert [state.parent_id for state in chain] == [*(state.id for state in chain[1:]), None]
        assert all(0 <= state.covers_turn_seq <= state.turn_seq <= branch.last_turn_seq for state in chain)
        reached = [state.turn_seq for state in chain]
        assert reached == sorted(reached, reverse=True)
        assert branch.base_state in {state.id for state in chain}

    def _check_commits(self, branch: Branch, turns: tuple[Turn, ...], chain: tuple[State, ...]) -> None:
        """A turn has a state exactly when it is committed, and no turn is committed past an unsettled one."""
        own = [turn for turn in turns if turn.branch_id == branch.id]
        states = {state.id: state for state in chain}
        for turn in own:
            committed = turn.phase in (Phase.STATE_COMMITTED, Phase.INDEXED, Phase.DONE)
            assert (turn.state_after is not None) is committed
            if turn.state_after is not None:
                assert states[turn.state_after].turn_seq >= turn.turn_seq
        settled = [turn.phase is Phase.FAILED or turn.state_after is not None for turn in own]
        past = [turn.turn_seq for turn, is_settled in zip(own, settled, strict=True) if not is_settled]
        assert not past or chain[0].turn_seq < past[0]

    def _remember(self, branch: Branch, turns: tuple[Turn, ...], chain: tuple[State, ...]) -> None:
        before = self._branches.setdefault(branch.id, branch)
        assert picked(branch, FIXED_OF_A_BRANCH) == picked(before, FIXED_OF_A_BRANCH)
        for state in chain:
            assert self._states.setdefault(state.id, state) == state, "a state never changes"
        for turn in turns:
            known = self._turns.get(turn.id, turn)
            assert picked(turn, FIXED_OF_A_TURN) == picked(known, FIXED_OF_A_TURN), "what was said never changes"
            assert turn.phase in reachable(known.phase)
            if was_open(known) and not was_open(turn):
                self._check_closing(known, turn)
            elif known.phase in ENDED:
                assert picked(turn, FIXED_ONCE_ENDED) == picked(known, FIXED_ONCE_ENDED), "an answer never changes"
            self._turns[turn.id] = turn
        self._histories[branch.id] = turns

    def _check_closing(self, known: Turn, turn: Turn) -> None:
        """Check that a logged answer belongs to the last turn of a branch, from which no other branch continues."""
        assert turn.answer is not None
        assert (
            msgspec.structs.replace(
                known, answer=turn.answer, outcome="completed", updated_at=turn.updated_at, degraded=turn.degraded
            )
            == turn
        )
        for name, history in self._histories.items():
            if known.id in {earlier.id for earlier in history}:
                assert (name, history[-1].id) == (turn.branch_id, known.id), "what others have seen never changes"
