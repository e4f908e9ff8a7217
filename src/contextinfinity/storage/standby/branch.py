"""One branch that goes on while the ledger is away.

It is answered from a small ledger in memory, which begins where the real one was seen last, so a turn goes the same
way here as there. Whatever would be durable there is in the spool before it counts here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, TurnId, WorkerId, new_id, now
from contextinfinity.domain.message import Message, blobs_of
from contextinfinity.domain.session import Branch, Session
from contextinfinity.domain.turn import (
    OPEN_PHASES,
    UNFINISHED,
    Exchange,
    NewStep,
    NewTurn,
    Phase,
    Problem,
    Turn,
    TurnEnd,
)
from contextinfinity.errors import LedgerAway
from contextinfinity.storage.in_memory import InMemoryStore
from contextinfinity.storage.in_memory.tables import Tables, check_text
from contextinfinity.storage.in_memory.turns import accepted_turn, append_turns, check_queue, settled
from contextinfinity.storage.replay import Landing
from contextinfinity.storage.rules import (
    check_exchanges,
    check_finalising,
    check_new_step,
    check_new_turn,
    check_owner,
    check_phase,
    check_turn_end,
)
from contextinfinity.storage.standby.memory import Memory, Seed
from contextinfinity.storage.standby.records import (
    EndHeld,
    ExchangeHeld,
    Item,
    Record,
    StepHeld,
    TurnHeld,
    id_of,
    landing_of,
)
from contextinfinity.storage.standby.seeding import sow

ELSEWHERE = Problem(code="elsewhere", message="It was being answered by another process when the ledger went away.")

Keep = Callable[..., Awaitable[None]]


class HeldBranch:
    """A branch as it goes on here. ``keep`` makes records durable; its verbs are called one at a time."""

    def __init__(self, seed: Seed, memory: Memory, workers: Collection[WorkerId], keep: Keep) -> None:
        self.id: BranchId = seed.branch_id
        self.session: Session = seed.session
        self.cargo: dict[TurnId, Item] = {}
        """What the ledger does not have, in its order."""
        self._elsewhere: set[TurnId] = set()
        """Turns that another process holds in its spool."""
        self._keep = keep
        self._tables = Tables()
        self.store = InMemoryStore(self._tables)
        steps = {turn_id: asked for turn_id, (_, asked) in memory.running.items()}
        turns = tuple(_as_seen_here(turn, memory, workers) for turn in seed.turns)
        sow(self._tables, replace(seed, turns=turns), steps)

    @property
    def turn_ids(self) -> Collection[TurnId]:
        """The turns that are answered or shown from here."""
        return self._tables.turns.keys()

    def shown(self, turn: Turn) -> Turn:
        """Say of a turn that the ledger does not have all of it."""
        if turn.id in self._elsewhere:
            return replace(turn, durability="local", has_place=False)
        if (item := self.cargo.get(turn.id)) is None:
            return turn
        return replace(turn, durability="local", has_place=not isinstance(item, ExchangeHeld) and item.new is None)

    def show_spooled(self, items: Iterable[Item]) -> None:
        """Append what other processes hold for this branch, so that the next prompt has it; they write it themselves.

        A turn that is not finished there is shown without an answer.
        """
        for item in items:
            new = item.new if isinstance(item, Landing) else NewTurn(branch_id=self.id, message=item.exchange.message)
            if new is not None and id_of(item) not in self._tables.turns:
                branch = self._tables.branch(self.id)
                turn = _as_spooled(branch, item, replace(new, id=id_of(item)))
                append_turns(self._tables, branch, (turn,))
                self._elsewhere.add(turn.id)

    async def accept(self, new: NewTurn) -> Turn:
        """Hold a message."""
        check_new_turn(new)
        check_text(new)
        _refuse_pictures(new.message)
        check_queue(self._tables, new)
        moment = now()
        landed = replace(new, queue_limit=None, begin=False)
        await self._keep(TurnHeld(new=landed, said_at=moment), taking_on=True)
        turn = await self.store.turns.accept(new)
        begun = turn.phase is Phase.CONTEXT_PREPARED
        landing = landing_of(self.cargo, turn.id)
        self.cargo[turn.id] = replace(landing, new=landed, said_at=moment, begun=begun)
        return self.shown(turn)

    async def prepare(self, turn_id: TurnId, owner: WorkerId) -> Turn:
        """Accepted → ContextPrepared."""
        turn = await self.store.turns.prepare(turn_id, owner)
        self.cargo[turn_id] = replace(landing_of(self.cargo, turn_id), begun=True)
        return self.shown(turn)

    async def open_step(self, turn_id: TurnId, owner: WorkerId, step: NewStep) -> Turn:
        """Hold what a provider is asked."""
        check_new_step(step)
        self._check(turn_id, owner, OPEN_PHASES)
        await self._keep(StepHeld(turn_id=turn_id, step=step))
        turn = await self.store.turns.open_step(turn_id, owner, step)
        landing = landing_of(self.cargo, turn_id)
        self.cargo[turn_id] = replace(landing, steps=(*landing.steps, step))
        return self.shown(turn)

    async def finalise(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """Hold an answer that counts."""
        check_turn_end(end)
        check_finalising(turn_id, self._check(turn_id, owner, OPEN_PHASES).phase, end)
        await self._end(turn_id, end, failed=False)
        return self.shown(await self.store.turns.finalise(turn_id, owner, end))

    async def fail(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """Hold the end of a turn that came to no answer."""
        check_turn_end(end)
        self._check(turn_id, owner, UNFINISHED)
        await self._end(turn_id, end, failed=True)
        return self.shown(await self.store.turns.fail(turn_id, owner, end))

    async def cancel(self, turn_id: TurnId) -> Turn:
        """Ask for a turn to be stopped; its owner is in this process."""
        return self.shown(await self.store.turns.cancel(turn_id))

    async def record(self, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
        """Hold turns that were finished elsewhere."""
        check_exchanges(exchanges)
        settled(self._tables, self.id)
        named = [replace(each, id=each.id or new_id(), created_at=each.created_at or now()) for each in exchanges]
        records = [ExchangeHeld(branch_id=self.id, exchange=each) for each in named]
        for each in named:
            _refuse_pictures(each.message, each.answer)
        await self._keep(*records, taking_on=True)
        turns = await self.store.turns.record(self.id, named)
        self.cargo.update({record.exchange.id or "": record for record in records})
        return tuple(map(self.shown, turns))

    def _check(self, turn_id: TurnId, owner: WorkerId, phases: frozenset[Phase]) -> Turn:
        turn = self._tables.turn(turn_id)
        check_owner(turn_id, turn.owner, owner)
        check_phase(turn_id, turn.phase, phases)
        return turn

    async def _end(self, turn_id: TurnId, end: TurnEnd, *, failed: bool) -> None:
        """Make an end durable, before anybody can see it here."""
        check_text(end)
        record: Record = EndHeld(turn_id=turn_id, end=end, failed=failed)
        await self._keep(record)
        self.cargo[turn_id] = replace(landing_of(self.cargo, turn_id), end=end, failed=failed)


def _as_seen_here(turn: Turn, memory: Memory, workers: Collection[WorkerId]) -> Turn:
    """Give a turn as this process knows it; one that another answers cannot be waited for while nothing is heard."""
    if turn.id in memory.running:
        return memory.running[turn.id][0]
    if turn.phase in UNFINISHED and turn.owner not in workers:
        return replace(turn, phase=Phase.FAILED, outcome="failed", error=ELSEWHERE)
    return turn


def _as_spooled(branch: Branch, item: Item, new: NewTurn) -> Turn:
    """Give a turn of another process's spool as far as it can be shown."""
    if isinstance(item, Landing):
        turn, end = accepted_turn(branch, new, item.said_at), item.end or TurnEnd(outcome="failed", error=ELSEWHERE)
    else:
        turn, end = accepted_turn(branch, new), TurnEnd(outcome="completed", answer=item.exchange.answer)
    phase = Phase.DONE if end.error is None else Phase.FAILED
    return replace(turn, phase=phase, outcome=end.outcome, answer=end.answer, error=end.error)


def _refuse_pictures(*messages: Message | None) -> None:
    """Refuse what refers to bytes that only the ledger holds."""
    if any(blobs_of(message.blocks) for message in messages if message is not None):
        raise LedgerAway("The ledger is away, and pictures cannot be kept without it.")
