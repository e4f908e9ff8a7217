"""Turns: TX-0, TX-P, TX-A, and reading them back."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Collection
from datetime import date, datetime
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from contextinfinity.domain import wire
from contextinfinity.domain.ids import BranchId, TurnId, WorkerId, new_id, now, to_millis
from contextinfinity.domain.job import AnsweredTurn, Job
from contextinfinity.domain.message import Message, TranscriptItem
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import Owner
from contextinfinity.domain.state import BranchTail, KnownTurns
from contextinfinity.domain.turn import (
    OPEN_PHASES,
    UNFINISHED,
    NewStep,
    NewTurn,
    Phase,
    Step,
    StepEnd,
    Turn,
    TurnEnd,
)
from contextinfinity.errors import AlreadyExists, BranchBusy, QueueFull, WorkerLost, WrongPhase
from contextinfinity.storage.database import Connection, Database, Row, StoreResource, Values, looks, writes
from contextinfinity.storage.invariants import (
    check_finalising,
    check_new_step,
    check_new_turn,
    check_owner,
    check_phase,
    check_turn_end,
    end_place,
    row_limit,
)
from contextinfinity.storage.ledger.contents import (
    MessageColumns,
    insert_message,
    insert_plan,
    keep_text,
    metadata_column,
    prefetch_message,
)
from contextinfinity.storage.ledger.jobs import enqueue, enqueue_claimed
from contextinfinity.storage.ledger.prefix_hashes import asked_by_answer, check_place, note_answered, note_asked
from contextinfinity.storage.ledger.recording import log, record
from contextinfinity.storage.ledger.rows import (
    inputs_column,
    items_column,
    maybe_pack,
    message_columns,
    must,
    pack,
    to_rounds,
    to_step,
    to_turn,
    to_usage,
    unpack,
)
from contextinfinity.storage.ledger.sessions import (
    create_session,
    find_session,
    lineage_ranges,
    made_before,
    note_request,
)
from contextinfinity.storage.ledger.states import head_of

_FIRST_DAY = date(1970, 1, 1).toordinal()
STEPS = 22
"""The column of a turn's row that holds the number of its steps."""
KEYS = slice(30, 32)
"""The columns of ``select_turn`` that hold the keys of the turn's message and answer."""

FEW = 20
"""Up to this many turns are read on the event loop."""
LONG_AGO = -(2**62)
MOST_WRITTEN = 1024
"""Size of the cache of turns that are being answered."""


def begin_step(
    connection: Connection, turn_id: TurnId, owner: WorkerId, step: NewStep, written: Turn | None = None
) -> Turn:
    """TX-P: make a step and its plan durable before the provider is called."""
    if written is not None and written.owner == owner:
        connection.prefetch(_unchanged(written), _step_clash(turn_id, step))
    return open_step(connection, _fenced(connection, turn_id, owner, OPEN_PHASES, written), step)


def cancel_turn(connection: Connection, turn_id: TurnId) -> Turn:
    """Request cancellation from the turn's owner, which may be another process. A final turn does not change."""
    connection.execute("ask_to_stop", (pack(turn_id),))
    return existing_turn(connection, turn_id)


def cancelled_turns(connection: Connection, turn_ids: Collection[TurnId]) -> frozenset[TurnId]:
    """Return those of the turns whose cancellation was requested."""
    asked = msgspec.json.encode([pack(turn_id).hex() for turn_id in turn_ids]).decode()
    return frozenset(unpack(turn_id) for (turn_id,) in connection.many("select_cancelled", (asked,)))


def get_turn(connection: Connection, turn_id: TurnId) -> Turn | None:
    """Return one turn."""
    return _living(connection, find_turn(connection, turn_id))


def list_steps(connection: Connection, turn_id: TurnId, *, first: int = 0) -> tuple[Step, ...]:
    """Return a turn's provider calls in order, starting at step_index ``first``."""
    place = {"turn_id": pack(turn_id), "first": first}
    return tuple(to_step(turn_id, row) for row in connection.many("select_steps", place))


def read_plan(connection: Connection, turn_id: TurnId) -> Plan | None:
    """Return the plan of the turn's last request, or of its clarifying question."""
    row = connection.one("select_plan", (pack(turn_id),))
    return None if row is None else wire.loads(Plan, row[0])


def find_turn(connection: Connection, turn_id: TurnId) -> Turn | None:
    """Return a turn; None if it is unknown."""
    row = connection.one("select_turn", (pack(turn_id),))
    return None if row is None else _to_turn(connection, row)


def existing_turn(connection: Connection, turn_id: TurnId) -> Turn:
    """Return a turn. Raises ``NotFound`` if it is unknown."""
    return _to_turn(connection, must(connection.one("select_turn", (pack(turn_id),)), "turn", turn_id))


def turn_and_keys(connection: Connection, turn_id: TurnId) -> tuple[Turn, int, int | None]:
    """Return a turn with the keys of its message and answer. Raises ``NotFound`` if it is unknown."""
    row = must(connection.one("select_turn", (pack(turn_id),)), "turn", turn_id)
    return _to_turn(connection, row), *row[KEYS]


def owned_turn(connection: Connection, turn_id: TurnId, owner: WorkerId, written: Turn | None = None) -> Turn:
    """Return a turn. Raises ``TurnLost`` if another worker owns it. ``written``: a cached copy, used if current."""
    if written is not None and written.owner == owner and _is_current(connection, written):
        return written
    turn = existing_turn(connection, turn_id)
    check_owner(turn_id, turn.owner, owner)
    return turn


def _is_current(connection: Connection, turn: Turn) -> bool:
    """Return whether a cached turn is current."""
    return connection.one(*_unchanged(turn)) is not None


def _unchanged(turn: Turn) -> tuple[str, Values]:
    """Return the statement that finds a turn unless it has changed: every write to it changes one of these columns."""
    values = (pack(turn.id), turn.owner, turn.phase.value, to_millis(turn.updated_at), turn.cancel_requested)
    return "select_unchanged", values


def _to_turn(connection: Connection, row: Row) -> Turn:
    """Decode a turn, including the tool rounds before its answer."""
    turn = to_turn(row)
    return replace(turn, rounds=_rounds(connection, turn.id)) if row[STEPS] > 1 else turn


def _rounds(connection: Connection, turn_id: TurnId) -> tuple[TranscriptItem, ...]:
    return to_rounds(connection.many("select_rounds", (pack(turn_id),)))


def accept_turn(connection: Connection, new: NewTurn, message: MessageColumns) -> Turn:
    """TX-0: append a turn with its message, or return the one that this request created before."""
    if (made := made_before(connection, new.once)) is not None and made[1] is not None:
        return existing_turn(connection, unpack(made[1]))
    place = {"id": maybe_pack(new.id), "owner": new.owner, "branch_id": pack(new.branch_id)}
    is_there, is_dead, waiting = connection.one("select_acceptance", place)  # type: ignore[misc]
    if is_there:
        there = existing_turn(connection, new.id or "")
        if (there.branch_id, there.user_message) == (new.branch_id, new.message):
            return there
        raise AlreadyExists(f"There is a turn {new.id} already, with another message.")
    if is_dead:
        raise WorkerLost(f"Worker {new.owner} was declared dead.")
    if new.creates is not None:
        create_session(connection, new.creates)
    check_place(connection, new)
    if new.queue_limit is not None and waiting >= new.queue_limit:
        running = connection.one("select_running", (place["branch_id"],))
        raise QueueFull(
            f"{waiting} messages wait on branch {new.branch_id} already.",
            running=None if running is None else unpack(running[0]),
        )
    turn = insert_turn(connection, new, message, now())
    return (begin_turn(connection, turn) or turn) if new.begin else turn


def insert_turn(connection: Connection, new: NewTurn, message: MessageColumns, moment: datetime) -> Turn:
    """Append a turn with the given time to its branch."""
    place = {"branch_id": pack(new.branch_id), "count": 1}
    taken = must(connection.one("take_turn_seq", place), "branch", new.branch_id)
    turn_seq, session_id, head_state = taken
    turn = Turn(
        id=new.id or new_id(),
        session_id=unpack(session_id),
        branch_id=new.branch_id,
        turn_seq=turn_seq,
        phase=Phase.ACCEPTED,
        state_before=unpack(head_state),
        user_message=new.message,
        owner=new.owner,
        retry_of=new.retry_of,
        metadata=new.metadata,
        created_at=moment,
        updated_at=moment,
    )
    values = {"id": pack(turn.id), "session_id": session_id, "turn_seq": turn_seq, "now": to_millis(moment)}
    connection.execute(
        "insert_turn",
        values
        | {
            "branch_id": pack(new.branch_id),
            "state_before": head_state,
            "user_message": insert_message(connection, session_id, new.message, message),
            "owner": new.owner,
            "retry_of": maybe_pack(new.retry_of),
            "metadata": metadata_column(new.metadata),
        },
    )
    connection.execute("touch_session", {"id": session_id, "now": to_millis(moment)})
    note_request(connection, new.once, session_id, pack(turn.id))
    note_asked(connection, turn, new.trail)
    return turn


def _fenced(
    connection: Connection, turn_id: TurnId, owner: WorkerId, allowed: frozenset[Phase], written: Turn | None = None
) -> Turn:
    """Return a turn. Raises ``TurnLost`` if another worker owns it, ``WrongPhase`` if its phase is not allowed."""
    turn = owned_turn(connection, turn_id, owner, written)
    check_phase(turn_id, turn.phase, allowed)
    return turn


def prepare_turn(connection: Connection, turn_id: TurnId, owner: WorkerId) -> Turn:
    """Move a turn from Accepted to ContextPrepared. Raises ``BranchBusy`` while an earlier turn is not final."""
    turn = _fenced(connection, turn_id, owner, frozenset({Phase.ACCEPTED}))
    begun = begin_turn(connection, turn)
    if begun is None:
        place = {"branch_id": pack(turn.branch_id), "turn_seq": turn.turn_seq}
        seq, phase = connection.one("select_blocker", place)  # type: ignore[misc]
        raise BranchBusy(f"Turn {turn.turn_seq} waits: turn {seq} of the same branch is {phase}.")
    return begun


def begin_turn(connection: Connection, turn: Turn) -> Turn | None:
    """Accepted → ContextPrepared; None while another turn of the branch has to be final first."""
    moment = now()
    place = {"id": pack(turn.id), "branch_id": pack(turn.branch_id), "turn_seq": turn.turn_seq}
    if connection.one("begin_turn", {**place, "now": to_millis(moment)}) is None:
        return None
    return replace(turn, phase=Phase.CONTEXT_PREPARED, updated_at=moment)


def open_step(connection: Connection, turn: Turn, step: NewStep) -> Turn:
    """Write a provider call before it is made, and the end of the previous one."""
    turn_id = turn.id
    clash, place = _step_clash(turn_id, step)
    if connection.one(clash, place) is not None:
        raise AlreadyExists(f"Turn {turn_id} has a step {step.step_index} already, or the step's id is taken.")
    if step.closes is not None:
        _end_step(connection, turn, step.closes, None)
    moment, session_id = now(), pack(turn.session_id)
    values = {"session_id": session_id, "provider": step.provider, "model_id": step.model_id, "now": to_millis(moment)}
    connection.execute("insert_step", place | values | {"inputs": inputs_column(step.inputs)})
    for text in step.texts:
        keep_text(connection, text, session_id)
    insert_plan(connection, turn_id, session_id, step.step_index, step.plan)
    connection.execute("begin_responding", {"turn_id": pack(turn_id), **values})
    return replace(turn, phase=Phase.RESPONDING, provider=step.provider, model=step.model_id, updated_at=moment)


def _step_clash(turn_id: TurnId, step: NewStep) -> tuple[str, dict[str, object]]:
    return "select_step_clash", {"id": pack(step.id), "turn_id": pack(turn_id), "step_index": step.step_index}


def _end_step(connection: Connection, turn: Turn, end: StepEnd, answer: Message | None) -> None:
    ended = connection.one(
        "end_step",
        {
            "id": pack(end.step_id),
            "turn_id": pack(turn.id),
            "items": items_column(end.items, answer),
            "outcome": wire.dumps(end.outcome).decode(),
            "displayed": end.displayed_bytes,
            "durable": end.durable_bytes,
            "now": to_millis(now()),
            **msgspec.structs.asdict(end.usage),
        },
    )
    if ended is None:
        must(connection.one("select_step_outcome", (pack(end.step_id), pack(turn.id))), "step", end.step_id)
        raise WrongPhase(f"Step {end.step_id} has ended already.")
    if end.usage.cost:
        spent = {"session_id": pack(turn.session_id), "day": day_number(now().date()), "dollars": end.usage.cost}
        connection.execute("add_spending", spent)
    if end.response is not None:
        body = zlib.compress(end.response, 6)
        connection.execute("insert_response", (pack(end.step_id), pack(turn.session_id), body))


def day_number(day: date) -> int:
    """Return the number of a day, counted from 1970."""
    return day.toordinal() - _FIRST_DAY


def spending(connection: Connection, owner: Owner, since: date) -> dict[date, float]:
    """Return what the models of a user's turns cost, in US dollars by day (UTC), also of turns that were deleted."""
    rows = connection.many("select_spending", (owner.org_id, owner.user_id, day_number(since)))
    return {date.fromordinal(day + _FIRST_DAY): dollars for day, dollars in rows}


def end_turn(connection: Connection, turn: Turn, phase: Phase, end: TurnEnd, answer: MessageColumns | None) -> Turn:
    """Write the end of a turn and of its last step."""
    session_id = pack(turn.session_id)
    if end.answer is not None and answer is not None:
        prefetch_message(connection, session_id, end.answer, answer)
    if end.step is not None:
        _end_step(connection, turn, end.step, end.answer)
    if end.plan is not None:
        insert_plan(connection, turn.id, session_id, -1, end.plan)
    key = None
    if end.answer is not None and answer is not None:
        key = insert_message(connection, session_id, end.answer, answer)
    moment = now()
    values = {"id": pack(turn.id), "phase": phase.value, "outcome": end.outcome, "answer": key}
    values["error"] = None if end.error is None else wire.dumps(end.error).decode()
    notes = end.notes(turn)
    values |= {name: metadata_column(note or None) for name, note in notes.items()}
    ended = connection.one("end_turn", {**values, "now": to_millis(moment)})
    steps, *usage = must(ended, "turn", turn.id)
    note_answered(connection, turn, phase, end.answer)
    return replace(
        turn,
        phase=phase,
        outcome=end.outcome,
        answer=end.answer,
        error=end.error,
        rounds=_rounds(connection, turn.id) if steps > 1 else (),
        usage=to_usage(*usage),
        updated_at=moment,
        **notes,
    )


def read_history(connection: Connection, branch_id: BranchId, limit: int, before: int | None) -> tuple[Turn, ...]:
    """Return the newest turns of the lineage, oldest first."""
    turns: list[Turn] = []
    limit, moment = row_limit(limit), to_millis(now())
    for branch, first, last in lineage_ranges(connection, branch_id, end_place(before)):
        values = {"branch_id": pack(branch), "first": first, "last": last, "now": moment, "limit": limit - len(turns)}
        turns.extend([_to_turn(connection, row) for row in connection.many("select_stretch", values)])
        if len(turns) >= limit or (turns and turns[-1].turn_seq == 1):
            break
    return tuple(reversed(turns))


def read_tail(
    connection: Connection,
    branch_id: BranchId,
    *,
    before: int,
    after: int | None = None,
    known: KnownTurns | None = None,
) -> BranchTail:
    """Return the head of a branch and the newest turns, at most ``FEW``, between two turn_seqs of its lineage.

    ``after`` defaults to the last turn that the head's summary covers. ``known`` turns that are unchanged and reach
    from there are left out. Raises ``NotFound`` if the branch is unknown.
    """
    state = head_of(connection, branch_id)
    begin = state.covers_turn_seq if after is None else after
    extends = False
    if known is not None and known.first <= begin + 1 <= known.last and _is_unchanged(connection, branch_id, known):
        extends, begin = True, known.last
    count = min(FEW, before - 1 - begin)
    turns = read_history(connection, branch_id, count, before) if count > 0 else ()
    return BranchTail(state=state, turns=tuple(turn for turn in turns if turn.turn_seq > begin), extends=extends)


def _is_unchanged(connection: Connection, branch_id: BranchId, known: KnownTurns) -> bool:
    """Return whether no turn of a stretch was changed, deleted or added, and none has expired."""
    first, last = known.first, known.last
    count = updated = 0
    since = _since(connection, pack(branch_id))
    for branch, begin, end in lineage_ranges(connection, branch_id, last + 1):
        if end < first or count > last - first:
            break
        place = {"branch_id": pack(branch), "first": max(begin, first), "last": end, "since": since}
        turns, times = must(connection.one("select_digest", place), "branch", branch)
        count, updated = count + turns, updated + times
    return (count, updated) == (known.count, known.updated)


def read_answered(connection: Connection, turn_id: TurnId, *, earlier: int) -> AnsweredTurn | None:
    """Return a turn with its session, plan and origins, and the ``earlier`` turns before it."""
    from contextinfinity.storage.ledger.imports import origins_of_turn  # avoids a circular import

    turn = get_turn(connection, turn_id)
    session = None if turn is None else find_session(connection, turn.session_id)
    if turn is None or session is None:
        return None
    return AnsweredTurn(
        turn=turn,
        session=session,
        earlier=read_history(connection, turn.branch_id, earlier, turn.turn_seq),
        origins=origins_of_turn(connection, [turn_id]).get(turn_id, ()),
        plan=read_plan(connection, turn_id),
    )


def _since(connection: Connection, branch_id: bytes) -> int:
    """Return the time from which turns of a branch are within their session's time to live."""
    row = connection.one("select_ttl", (branch_id,))
    return LONG_AGO if row is None else to_millis(now()) - row[0] + 1


def _living(connection: Connection, turn: Turn | None) -> Turn | None:
    """Return a turn unless it is past its time to live."""
    if turn is None or to_millis(turn.created_at) < _since(connection, pack(turn.branch_id)):
        return None
    return turn


class _Ending(NamedTuple):
    """The end of a turn, validated and hashed before the transaction to keep that short."""

    end: TurnEnd
    answer: MessageColumns | None
    written: Turn | None
    """The cached turn, as this process wrote it last."""


def finalise_turn(connection: Connection, turn_id: TurnId, owner: WorkerId, ending: _Ending) -> Turn:
    """TX-A: write the answer, the last step, the phase and the job that commits the turn."""
    turn = _finalise(connection, turn_id, owner, ending)
    enqueue(connection, "summarize_turn", pack(turn.branch_id), pack(turn_id))
    return turn


def _finalise(connection: Connection, turn_id: TurnId, owner: WorkerId, ending: _Ending) -> Turn:
    if (written := ending.written) is not None and written.owner == owner:
        connection.prefetch(_unchanged(written), asked_by_answer(written))
    turn = owned_turn(connection, turn_id, owner, written)
    check_finalising(turn_id, turn.phase, ending.end)
    return end_turn(connection, turn, Phase.RESPONSE_FINALIZED, ending.end, ending.answer)


def finalise_and_claim(
    connection: Connection, turn_id: TurnId, owner: WorkerId, ending: _Ending
) -> tuple[Turn, Job | None]:
    """TX-A, and claim the job that commits the turn."""
    turn = _finalise(connection, turn_id, owner, ending)
    return turn, enqueue_claimed(connection, "summarize_turn", turn_id, owner)


def fail_turn(connection: Connection, turn_id: TurnId, owner: WorkerId, ending: _Ending) -> Turn:
    """End a turn as Failed."""
    turn = _fenced(connection, turn_id, owner, UNFINISHED, ending.written)
    return end_turn(connection, turn, Phase.FAILED, ending.end, ending.answer)


class Turns(StoreResource):
    """Messages and their answers."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._written: OrderedDict[TurnId, Turn] = OrderedDict()
        """Cache of turns that are being answered, so that they need not be read before a write."""

    prepare = writes(prepare_turn)
    cancel = writes(cancel_turn)
    cancelled = looks(cancelled_turns)
    record = writes(record)
    log = writes(log)
    get = looks(get_turn)
    steps = looks(list_steps)
    plan = looks(read_plan)
    answered = looks(read_answered)
    tail = looks(read_tail)
    spending = looks(spending)

    async def accept(self, new: NewTurn) -> Turn:
        """TX-0: write the turn, its message and its position in the branch.

        With ``begin``, also move the turn to ContextPrepared unless it has to wait for an earlier one. With
        ``creates``, also create its session; this raises the errors of ``Sessions.create``. A repeated request with the
        same idempotency key (``once``) returns the turn that it created, in its current phase.

        Raises ``QueueFull`` if ``queue_limit`` turns already wait in Accepted, ``WorkerLost`` if the owner was declared
        dead, and ``KeyReused`` if the idempotency key belongs to a different request. Nothing is written then.
        """
        check_new_turn(new)
        message = message_columns(new.message)
        return self._note(await self._database.write(lambda connection: accept_turn(connection, new, message)))

    async def open_step(self, turn_id: TurnId, owner: WorkerId, step: NewStep) -> Turn:
        """TX-P: write a step and its plan before the provider is called; ContextPrepared → Responding.

        For a later step the turn stays in Responding, and the previous step (``closes``) is ended in the same
        transaction. Raises ``AlreadyExists`` for a repeated ``step_index``.
        """
        check_new_step(step)
        written = self._written.get(turn_id)
        return self._note(
            await self._database.write(lambda connection: begin_step(connection, turn_id, owner, step, written))
        )

    async def finalise(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """TX-A: write the answer, the last step, phase ResponseFinalized and the job that commits the turn."""
        ending = self._ending(turn_id, end)
        return await self._database.write(lambda connection: finalise_turn(connection, turn_id, owner, ending))

    async def finalise_and_claim(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> tuple[Turn, Job | None]:
        """TX-A, and claim the job for the owner in the same transaction.

        The job is None while another job of the branch runs.
        """
        ending = self._ending(turn_id, end)
        return await self._database.write(lambda connection: finalise_and_claim(connection, turn_id, owner, ending))

    async def fail(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """End a turn as Failed, with the part of the answer that was shown."""
        ending = self._ending(turn_id, end)
        return await self._database.write(lambda connection: fail_turn(connection, turn_id, owner, ending))

    def _note(self, turn: Turn) -> Turn:
        if turn.phase in OPEN_PHASES:
            self._written[turn.id] = turn
            if len(self._written) > MOST_WRITTEN:
                self._written.popitem(last=False)
        return turn

    def _ending(self, turn_id: TurnId, end: TurnEnd) -> _Ending:
        check_turn_end(end)
        answer = None if end.answer is None else message_columns(end.answer)
        return _Ending(end, answer, self._written.pop(turn_id, None))

    async def history(self, branch_id: BranchId, *, limit: int = 20, before: int | None = None) -> tuple[Turn, ...]:
        """Return the newest ``limit`` turns of the lineage, oldest first; with ``before``, only lower turn_seqs."""
        ask = self._database.look if limit <= FEW else self._database.read
        return await ask(lambda connection: read_history(connection, branch_id, limit, before))
