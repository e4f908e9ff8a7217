"""Writes conversations and memories of an export into a ledger, with their original ids.

Restored data is untrusted: all of it is decoded strictly, and every row gets the id of the restored session, so that it
cannot change another session. Database constraints check the rest.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import datetime

import msgspec

from contextinfinity.domain import wire
from contextinfinity.domain.ids import SessionId, is_id, to_millis
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.transfer import (
    BranchTransfer,
    MemoryTransfer,
    MessageTransfer,
    OriginTransfer,
    SessionOutline,
    SessionTransfer,
    StateTransfer,
    StepTransfer,
    TurnTransfer,
)
from contextinfinity.domain.turn import Problem, StepOutcome
from contextinfinity.errors import AccessDenied, InvalidInput
from contextinfinity.storage.database import Connection
from contextinfinity.storage.invariants import check_json, check_message, check_new_session
from contextinfinity.storage.ledger.contents import insert_messages, insert_plan, keep_text, metadata_column
from contextinfinity.storage.ledger.deletions import BATCH, begin, delete_batch
from contextinfinity.storage.ledger.imports import external_id_mark
from contextinfinity.storage.ledger.jobs import enqueue
from contextinfinity.storage.ledger.memories import owner_key, words_of
from contextinfinity.storage.ledger.prefix_hashes import note_logged
from contextinfinity.storage.ledger.rows import (
    inputs_column,
    maybe_pack,
    pack,
    pack_hash,
    to_inputs,
    to_items,
    to_message,
    to_turn,
    unpack,
)
from contextinfinity.storage.ledger.sessions import find_by_external_id

LARGEST_RESPONSE = 64 << 20


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


def replace_session(
    connection: Connection, outline: SessionOutline, states: Sequence[StateTransfer], turns: Sequence[TurnTransfer]
) -> bool:
    """Restore a session in place of an older copy of it; return False if that has turns of its own."""
    key, deleted = pack(outline.session.id), {gone.id for gone in outline.deleted}
    known = deleted.union(turn.id for turn in turns)
    if any(unpack(turn_id) not in known for (turn_id,) in connection.many("select_turn_ids", (key,))):
        return False
    for gone in outline.deleted:  # with its own time
        connection.execute("bury_turn", (pack(gone.id), key, gone.seq, to_millis(gone.deleted_at)))
    begin(connection, key)
    while delete_batch(connection, key, BATCH).more:
        pass
    return restore_session(connection, outline, states, turns)


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


def replace_memories(connection: Connection, owner: Owner, memories: Sequence[MemoryTransfer]) -> None:
    """Restore memories in place of older copies of them."""
    for memory in memories:
        if (there := connection.one("select_memory_key", (pack(memory.id),))) is not None:
            connection.execute("delete_memory", there)
    restore_memories(connection, owner, memories)


def _column(value: Json) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
