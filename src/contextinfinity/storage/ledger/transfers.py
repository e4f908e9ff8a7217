"""Reads conversations for an export, and restores them with their original ids.

Pages are ordered, so that exports of the same ledger are identical. Restored data is untrusted: all of it is decoded
strictly, and every row gets the id of the restored session, so that it cannot change another session. Database
constraints check the rest.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from contextinfinity.domain import wire
from contextinfinity.domain.ids import MemoryId, SessionId, StateId, from_millis, is_id, to_millis
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.transfer import (
    UNANSWERED,
    BranchTransfer,
    DeletedTurn,
    MemoryTransfer,
    MessageTransfer,
    OriginTransfer,
    PlanTransfer,
    SessionOutline,
    SessionTransfer,
    SourceTransfer,
    StateTransfer,
    StepTransfer,
    TurnTransfer,
)
from contextinfinity.domain.turn import UNFINISHED, Problem, StepOutcome
from contextinfinity.errors import AccessDenied, InvalidInput, LedgerFailed
from contextinfinity.storage.database import Connection, Row
from contextinfinity.storage.invariants import check_json, check_message, check_new_session
from contextinfinity.storage.ledger.binding import StoreResource, reads
from contextinfinity.storage.ledger.contents import insert_messages, insert_plan, keep_text, metadata_column
from contextinfinity.storage.ledger.imports import external_id_mark
from contextinfinity.storage.ledger.jobs import enqueue
from contextinfinity.storage.ledger.memories import find_owner, owner_key, words_of
from contextinfinity.storage.ledger.prefix_hashes import note_logged
from contextinfinity.storage.ledger.rows import (
    inputs_column,
    maybe_pack,
    maybe_unpack,
    pack,
    pack_hash,
    to_inputs,
    to_items,
    to_message,
    to_turn,
    to_usage,
    unpack,
)
from contextinfinity.storage.ledger.sessions import find_by_external_id

T = TypeVar("T")

LARGEST_RESPONSE = 64 << 20
_UNANSWERED = wire.dumps(UNANSWERED).decode()


def read_outline(connection: Connection, session_id: SessionId) -> SessionOutline | None:
    """Return a session, its branches and its tombstones."""
    if (row := connection.one("select_session_transfer", (pack(session_id),))) is None:
        return None
    session = SessionTransfer(
        id=unpack(row[0]),
        org_id=row[1],
        user_id=row[2],
        external_id=row[3],
        kind=row[4],
        title=row[5],
        system=_hex(row[6]),
        ttl_hours=row[7],
        active_branch=unpack(row[8]),
        created_at=from_millis(row[9]),
        updated_at=from_millis(row[10]),
        metadata=_json(row[11]) or {},
    )
    branches = tuple(map(_branch, connection.many("select_branches", (pack(session_id),))))
    deleted = connection.many("select_deleted_turns", (pack(session_id),))
    return SessionOutline(
        session=session,
        branches=branches,
        deleted=tuple(DeletedTurn(id=unpack(key), seq=seq, deleted_at=from_millis(at)) for key, seq, at in deleted),
    )


def _branch(row: Row) -> BranchTransfer:
    return BranchTransfer(
        id=unpack(row[0]),
        parent_id=maybe_unpack(row[2]),
        fork_seq=row[3],
        base_state=unpack(row[4]),
        head_state=unpack(row[5]),
        head_seq=row[6],
        last_turn_seq=row[7],
        label=row[8],
        created_at=from_millis(row[9]),
    )


def read_states(
    connection: Connection, session_id: SessionId, *, after: StateId | None = None, limit: int = 500
) -> tuple[StateTransfer, ...]:
    """Return the states of a session after id ``after``, ordered by id."""
    values = {"session_id": pack(session_id), "after": pack(after) if after else b"", "limit": limit}
    return tuple(
        StateTransfer(
            id=unpack(row[0]),
            branch_id=unpack(row[1]),
            state_seq=row[2],
            parent_id=maybe_unpack(row[3]),
            turn_seq=row[4],
            covers_turn_seq=row[5],
            reason=row[6],
            summary=_hex(row[7]),
            pins=_hex(row[8]),
            token_count_est=row[9],
            created_at=from_millis(row[10]),
            schema_version=row[11],
        )
        for row in connection.many("select_states_transfer", values)
    )


def read_turns(
    connection: Connection, session_id: SessionId, *, after: tuple[int, str] = (0, ""), limit: int = 200
) -> tuple[TurnTransfer, ...]:
    """Return the turns after ``after``, ordered by (turn_seq, id); unfinished ones as failed (``UNANSWERED``)."""
    values = {"session_id": pack(session_id), "seq": after[0], "id": pack(after[1]), "limit": limit}
    return tuple(_turn(connection, row) for row in connection.many("select_turns_transfer", values))


def _turn(connection: Connection, row: Row) -> TurnTransfer:
    key = (row[0],)
    answer = None if row[19] is None else MessageTransfer(role=row[19], text=row[20], blocks=_json(row[21]))
    is_unfinished = row[3] in UNFINISHED
    return TurnTransfer(
        id=unpack(row[0]),
        branch_id=unpack(row[1]),
        turn_seq=row[2],
        phase="Failed" if is_unfinished else row[3] if row[3] in ("Failed", "ResponseFinalized") else "Done",
        outcome="failed" if is_unfinished else row[4],
        state_before=unpack(row[5]),
        state_after=maybe_unpack(row[6]),
        provider=row[7],
        model=row[8],
        step_count=row[9],
        retry_of=maybe_unpack(row[10]),
        usage=to_usage(*row[22:26]),
        error=_json(_UNANSWERED if is_unfinished else row[11]),
        metadata=_json(row[12]),
        created_at=from_millis(row[14]),
        updated_at=from_millis(row[15]),
        question=MessageTransfer(role=row[16], text=row[17], blocks=_json(row[18])),
        answer=answer,
        latency_ms=_json(row[13]),
        origins=tuple(map(_origin, connection.many("select_origins", key))),
        steps=tuple(map(_step, connection.many("select_steps_transfer", key))),
        plans=tuple(
            PlanTransfer(step_index=index, body=_json(body))
            for index, body in connection.many("select_plans_transfer", key)
        ),
    )


def _origin(row: Row) -> OriginTransfer:
    return OriginTransfer(
        answers=bool(row[0]),
        place=row[1],
        hash=row[2].hex(),
        external_id=row[3],
        said_at=_moment(row[4]),
        details=_json(row[5]),
    )


def _step(row: Row) -> StepTransfer:
    return StepTransfer(
        id=unpack(row[0]),
        step_index=row[1],
        provider=row[2],
        model_id=row[3],
        inputs=_json(row[4]),
        items=_json(row[5]),
        outcome=_json(row[6]),
        usage=to_usage(*row[12:16]),
        displayed_bytes=row[7],
        durable_bytes=row[8],
        started_at=from_millis(row[9]),
        ended_at=_moment(row[10]),
        response=row[11],
    )


def read_memories(
    connection: Connection,
    owner: Owner,
    *,
    thread: SessionId | None = None,
    after: MemoryId | None = None,
    limit: int = 500,
) -> tuple[MemoryTransfer, ...]:
    """Return the memories of a user, or of one conversation only, ordered by id."""
    values = {
        "owner": find_owner(connection, owner),
        "thread": pack(thread) if thread else b"",
        "after": pack(after) if after else b"",
        "limit": limit,
    }
    return tuple(_memory(connection, row) for row in connection.many("select_memories_transfer", values))


def _memory(connection: Connection, row: Row) -> MemoryTransfer:
    sources = connection.many("select_sources_transfer", (row[0],))
    return MemoryTransfer(
        id=unpack(row[1]),
        thread=unpack(row[2]) if row[2] else None,
        content=row[3],
        kind=row[4],
        about=row[5],
        origin=row[6],
        confidence=row[7],
        weight=row[8],
        created_at=from_millis(row[9]),
        valid_from=from_millis(row[10]),
        valid_to=_moment(row[11]),
        last_placed_at=_moment(row[12]),
        superseded_by=maybe_unpack(row[13]),
        superseded_at=_moment(row[14]),
        sources=tuple(
            SourceTransfer(
                turn_id=unpack(turn),
                session_id=unpack(session),
                branch_id=unpack(branch),
                turn_seq=seq,
                start=start,
                end=end,
                said_at=from_millis(at),
            )
            for turn, session, branch, seq, start, end, at in sources
        ),
    )


def restore_session(
    connection: Connection, outline: SessionOutline, states: Sequence[StateTransfer], turns: Sequence[TurnTransfer]
) -> bool:
    """Restore a session; return False if it exists."""
    session, key = outline.session, pack(outline.session.id)
    owner = Owner(user_id=session.user_id, org_id=session.org_id)
    there = connection.one("select_owner_of_session", (key,))
    if there is not None and Owner(org_id=there[0], user_id=there[1]) == owner:
        return False
    if there is not None or connection.one("select_buried", (key,)) not in (None, (owner.org_id, owner.user_id)):
        raise AccessDenied(f"The conversation {session.id} belongs to another user of this ledger.")
    if session.external_id is not None and find_by_external_id(connection, owner, session.external_id) is not None:
        raise InvalidInput(f"There is another conversation with the external id {session.external_id!r} already.")
    _check(outline, states, turns)
    _insert_session(connection, session)
    _insert_states(connection, key, states)
    for branch in outline.branches:
        connection.execute("restore_branch", {**_columns(branch), "session_id": key})
    for gone in outline.deleted:
        connection.execute("bury_turn", (pack(gone.id), key, gone.seq, to_millis(gone.deleted_at)))
    for turn in turns:
        _insert_turn(connection, key, turn)
    system = _text_key(connection, session.system, key)
    connection.execute("restore_kind", {"id": key, "kind": session.kind, "system": system})
    for branch in outline.branches:
        last = connection.one("select_last_turn", (pack(branch.id),))
        row = None if last is None else connection.one("select_turn", last)
        if row is not None:
            note_logged(connection, to_turn(row))
    return True


def _check(outline: SessionOutline, states: Sequence[StateTransfer], turns: Sequence[TurnTransfer]) -> None:
    """Raise ``InvalidInput`` if a part refers to something that is not included."""
    session = outline.session
    check_new_session(
        NewSession(
            id=session.id,
            owner=Owner(user_id=session.user_id, org_id=session.org_id),
            external_id=session.external_id,
            kind=session.kind,
            ttl_hours=session.ttl_hours,
            metadata=session.metadata,
        )
    )
    branches = {branch.id: branch for branch in outline.branches}
    known = {state.id for state in states}
    if session.active_branch not in branches:
        raise _unfit(session.id, f"its active branch {session.active_branch} is missing")
    for branch in outline.branches:
        _check_ids(session.id, branch.id, branch.parent_id)
        if branch.parent_id is not None and (branch.parent_id not in branches or branch.parent_id == branch.id):
            raise _unfit(session.id, f"the parent of branch {branch.id} is missing")
        if not {branch.base_state, branch.head_state} <= known or branch.last_turn_seq < branch.fork_seq:
            raise _unfit(session.id, f"branch {branch.id} has no state, or ends before it begins")
        _check_ancestry(session.id, branch, branches)
    for state in states:
        _check_ids(session.id, state.id, state.parent_id)
        if state.branch_id not in branches or (state.parent_id is not None and state.parent_id not in known):
            raise _unfit(session.id, f"state {state.id} belongs to no branch")
    for turn in turns:
        _check_ids(session.id, turn.id, turn.retry_of)
        of = branches.get(turn.branch_id)
        if of is None or not of.fork_seq < turn.turn_seq <= of.last_turn_seq:
            raise _unfit(session.id, f"turn {turn.id} is on no branch")
        if turn.state_before not in known or (turn.state_after is not None and turn.state_after not in known):
            raise _unfit(session.id, f"a state of turn {turn.id} is missing")


def _check_ancestry(session_id: SessionId, branch: BranchTransfer, branches: dict[str, BranchTransfer]) -> None:
    seen, at = set[str](), branch
    while at.parent_id is not None:
        if at.id in seen:
            raise _unfit(session_id, f"the parents of branch {branch.id} form a cycle")
        seen.add(at.id)
        at = branches[at.parent_id]


def _check_ids(session_id: SessionId, *ids: str | None) -> None:
    for one in ids:
        if one is not None and not is_id(one):
            raise _unfit(session_id, f"{one[:80]!r} is no id")


def _unfit(session_id: SessionId, what: str) -> InvalidInput:
    return InvalidInput(f"The conversation {session_id} is incomplete: {what}.", hint="Export it again.")


def _insert_session(connection: Connection, session: SessionTransfer) -> None:
    connection.execute(
        "restore_session",
        {
            "id": pack(session.id),
            "org_id": session.org_id,
            "user_id": session.user_id,
            "external_id": session.external_id,
            "title": session.title,
            "ttl_hours": session.ttl_hours,
            "active_branch": pack(session.active_branch),
            "created_at": to_millis(session.created_at),
            "updated_at": to_millis(session.updated_at),
            "metadata": metadata_column(session.metadata or None),
        },
    )


def _insert_states(connection: Connection, session_id: bytes, states: Sequence[StateTransfer]) -> None:
    for state in states:
        values = _columns(state) | {
            "session_id": session_id,
            "summary": _text_key(connection, state.summary, session_id),
            "pins": _text_key(connection, state.pins, session_id),
        }
        connection.execute("insert_state", values)


def _text_key(connection: Connection, sha256: str | None, session_id: bytes) -> int | None:
    """Return the key of a text, kept for the owner of a session."""
    if sha256 is None:
        return None
    row = connection.one("select_text_body", (pack_hash(sha256),))
    if row is None:
        raise InvalidInput(f"The text {sha256} is missing.", hint="Export the conversation again.")
    return keep_text(connection, row[0], session_id)


_IDS = frozenset(
    {"id", "branch_id", "parent_id", "base_state", "head_state", "state_before", "state_after", "retry_of"}
)


def _columns(value: BranchTransfer | StateTransfer) -> dict[str, object]:
    """Return the fields of a value as statement parameters: ids as bytes, times as milliseconds."""
    bound: dict[str, object] = {}
    for name, field in msgspec.structs.asdict(value).items():
        if isinstance(field, datetime):
            bound[name] = to_millis(field)
        else:
            bound[name] = maybe_pack(field) if name in _IDS else field
    return bound


_PHASES = {
    "Done": (),
    "Failed": ("Failed",),
    "ResponseFinalized": ("ContextPrepared", "Responding", "ResponseFinalized"),
}
"""The phases that an imported turn passes through after it was inserted."""


def _insert_turn(connection: Connection, session_id: bytes, turn: TurnTransfer) -> None:
    question, answer = _message(turn.question), None if turn.answer is None else _message(turn.answer)
    keys = list(insert_messages(connection, session_id, [question, *([] if answer is None else [answer])]))
    if turn.error is not None:
        wire.loads(Problem, msgspec.json.encode(turn.error))
    for value, name in ((turn.metadata, "metadata"), (turn.latency_ms, "latency_ms")):
        check_json(value, name)
    values = {
        "id": pack(turn.id),
        "session_id": session_id,
        "branch_id": pack(turn.branch_id),
        "turn_seq": turn.turn_seq,
        "phase": "Done" if turn.phase == "Done" else "Accepted",
        "outcome": turn.outcome,
        "state_before": pack(turn.state_before),
        "state_after": maybe_pack(turn.state_after),
        "user_message": keys[0],
        "answer": keys[1] if len(keys) > 1 else None,
        "provider": turn.provider,
        "model": turn.model,
        "steps": turn.step_count,
        "retry_of": maybe_pack(turn.retry_of),
        **msgspec.structs.asdict(turn.usage),
        "error": _column(turn.error),
        "metadata": metadata_column(turn.metadata),
        "latency_ms": metadata_column(turn.latency_ms),
        "created_at": to_millis(turn.created_at),
        "updated_at": to_millis(turn.updated_at),
    }
    connection.execute("restore_ended_turn", values)
    for phase in _PHASES[turn.phase]:
        connection.execute("move_phase", {"id": pack(turn.id), "phase": phase, "now": to_millis(turn.updated_at)})
    if turn.phase == "ResponseFinalized":
        enqueue(connection, "summarize_turn", pack(turn.branch_id), pack(turn.id))
    for origin in turn.origins:
        _insert_origin(connection, session_id, origin, keys)
    for step in turn.steps:
        _insert_step(connection, session_id, turn, step, answer)
    for plan in turn.plans:
        insert_plan(connection, turn.id, session_id, plan.step_index, wire.loads(Plan, msgspec.json.encode(plan.body)))


def _message(given: MessageTransfer) -> Message:
    if (given.text is None) == (given.blocks is None):
        raise InvalidInput("A message has a text or blocks, not both.")
    message = to_message(given.role, given.text, _column(given.blocks))
    check_message(message)
    return message


def _insert_origin(connection: Connection, session_id: bytes, origin: OriginTransfer, keys: Sequence[int]) -> None:
    check_json(origin.details, "details")
    key = keys[-1] if origin.answers else keys[0]
    mark = external_id_mark(session_id, origin.external_id)
    said_at = None if origin.said_at is None else to_millis(origin.said_at)
    try:
        digest = bytes.fromhex(origin.hash)
    except ValueError:
        raise InvalidInput(f"{origin.hash[:80]!r} is not a hash.") from None
    details = metadata_column(origin.details)
    values = (key, origin.place, session_id, int(origin.answers), origin.external_id, mark, digest, said_at, details)
    connection.execute("insert_origin", values)


def _insert_step(
    connection: Connection, session_id: bytes, turn: TurnTransfer, step: StepTransfer, answer: Message | None
) -> None:
    items = _column(step.items)
    to_items(items, answer)
    if step.outcome is not None:
        wire.loads(StepOutcome, msgspec.json.encode(step.outcome))
    _check_ids(unpack(session_id), step.id)
    values = {
        "id": pack(step.id),
        "session_id": session_id,
        "turn_id": pack(turn.id),
        "step_index": step.step_index,
        "provider": step.provider,
        "model_id": step.model_id,
        "inputs": inputs_column(to_inputs(_column(step.inputs))),
        "items": items,
        "outcome": _column(step.outcome),
        **msgspec.structs.asdict(step.usage),
        "displayed": step.displayed_bytes,
        "durable": step.durable_bytes,
        "started_at": to_millis(step.started_at),
        "ended_at": None if step.ended_at is None else to_millis(step.ended_at),
    }
    connection.execute("restore_step", values)
    if step.response is not None:
        unpacking = zlib.decompressobj()
        try:
            unpacking.decompress(step.response, LARGEST_RESPONSE)
        except zlib.error:
            raise InvalidInput(f"The response of step {step.id} is damaged.") from None
        if not unpacking.eof:
            raise InvalidInput(f"The response of step {step.id} is damaged, or larger than {LARGEST_RESPONSE} bytes.")
        connection.execute("insert_response", (pack(step.id), session_id, step.response))


def restore_memories(connection: Connection, owner: Owner, memories: Sequence[MemoryTransfer]) -> int:
    """Add the memories that the owner does not have, and return how many."""
    key, whose = owner_key(connection, owner), {"org_id": owner.org_id, "user_id": owner.user_id}
    added = 0
    for memory in memories:
        _check_ids("of a memory", memory.id, memory.thread, memory.superseded_by)
        thread, digest = pack(memory.thread) if memory.thread else b"", wire.text_hash(memory.content)
        if memory.thread is not None:
            owns = connection.one("select_owner_of_session", (thread,))
            if owns is None or Owner(org_id=owns[0], user_id=owns[1]) != owner:
                continue
        same = connection.one("select_same", (key, digest, thread))
        if same is not None or connection.one("select_memory_key", (pack(memory.id),)) is not None:
            continue
        values = {
            "id": pack(memory.id),
            "owner": key,
            "thread": thread,
            "content": memory.content,
            "hash": digest,
            "kind": memory.kind,
            "about": memory.about,
            "origin": memory.origin,
            "confidence": memory.confidence,
            "weight": memory.weight,
            "superseded_by": maybe_pack(memory.superseded_by),
        }
        for name in ("created_at", "valid_from", "valid_to", "last_placed_at", "superseded_at"):
            moment = getattr(memory, name)
            values[name] = None if moment is None else to_millis(moment)
        row = connection.one("restore_memory", values)
        assert row is not None  # noqa: S101 - RETURNING always gives a row
        connection.execute_many("insert_word", [(key, term, row[0]) for term in words_of(memory.content)])
        for source in memory.sources:
            span = {"start": source.start, "end": source.end, "said_at": to_millis(source.said_at)}
            connection.execute("restore_source", {"key": row[0], "turn_id": pack(source.turn_id), **whose, **span})
        added += 1
    return added


def _json(column: str | None) -> Json:
    return None if column is None else msgspec.json.decode(column)


def _column(value: Json) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _hex(column: bytes | None) -> str | None:
    return None if column is None else column.hex()


def _moment(column: int | None) -> datetime | None:
    return None if column is None else from_millis(column)


def read_owners(connection: Connection) -> tuple[Owner, ...]:
    """Return all owners with a conversation or a memory."""
    return tuple(Owner(org_id=org_id, user_id=user_id) for org_id, user_id in connection.many("select_owners_transfer"))


class TransferStore(StoreResource):
    """Conversations with everything that belongs to them. The rules of ``storage.contract`` apply."""

    owners = reads(read_owners)
    outline = reads(read_outline)
    states = reads(read_states)
    turns = reads(read_turns)
    memories = reads(read_memories)

    async def restore(
        self, outline: SessionOutline, states: Sequence[StateTransfer], turns: Sequence[TurnTransfer]
    ) -> bool:
        """Restore a session whose texts and blobs are stored; return False and write nothing if it exists.

        Raises ``InvalidInput`` for inconsistent parts, and ``AccessDenied`` if the id is or was another owner's.
        """
        return await self._restored(lambda connection: restore_session(connection, outline, states, turns))

    async def restore_memories(self, owner: Owner, memories: Sequence[MemoryTransfer]) -> int:
        """Add the memories that the owner does not have, and return how many."""
        return await self._restored(lambda connection: restore_memories(connection, owner, memories))

    async def _restored(self, work: Callable[[Connection], T]) -> T:
        """Run a restore; raise constraint violations and decoding errors as ``InvalidInput``."""

        def decoded(connection: Connection) -> T:
            try:
                return work(connection)
            except (msgspec.MsgspecError, AssertionError, IndexError, OverflowError) as error:
                raise InvalidInput(f"The file holds something that cannot be read: {error}") from error

        try:
            return await self._database.write(decoded, bulk=True)
        except LedgerFailed as error:
            if "Constraint" not in error.message:
                raise
            raise InvalidInput(f"The file breaks a rule of the ledger: {error.message}") from error
