"""Sessions and branches: creating, listing, forking, rolling back."""

from __future__ import annotations

from collections.abc import Iterator

from contextinfinity.domain.ids import BranchId, Position, SessionId, StateId, TurnId, new_id, now, to_millis
from contextinfinity.domain.message import Json
from contextinfinity.domain.session import Branch, IdempotencyKey, Lineage, NewSession, Owner, Session
from contextinfinity.domain.state import SCHEMA_VERSION
from contextinfinity.errors import AccessDenied, AlreadyExists, NotFound
from contextinfinity.storage.database import Connection, StoreResource, looks, reads, writes
from contextinfinity.storage.invariants import (
    LAST_PLACE,
    check_json,
    check_metadata_key,
    check_new_session,
    check_place,
    check_rollback,
    check_same_request,
    check_ttl,
    row_limit,
    ttl_millis,
)
from contextinfinity.storage.ledger.contents import keep_text, metadata_column
from contextinfinity.storage.ledger.rows import maybe_pack, must, pack, pack_hash, to_branch, to_session, unpack
from contextinfinity.storage.ledger.states import carry_pins, insert_state, newest_state, numbered_state


def list_sessions(
    connection: Connection, owner: Owner | None, *, limit: int = 50, after: Position | None = None
) -> tuple[Session, ...]:
    """Return the owner's sessions, most recently used first; with ``after``, those that follow this position.

    None lists the sessions of all users: only for callers that have the ledger itself, never over HTTP.
    """
    moment, last = (LAST_PLACE, b"") if after is None else (to_millis(after.moment), pack(after.id))
    values = {"updated_at": moment, "id": last, "limit": row_limit(limit)}
    if owner is None:
        return tuple(map(to_session, connection.many("select_sessions_of_all", values)))
    whose = {"org_id": owner.org_id, "user_id": owner.user_id}
    return tuple(map(to_session, connection.many("select_sessions", {**values, **whose})))


def rename_session(connection: Connection, session_id: SessionId, title: str | None) -> Session:
    """Change the title."""
    connection.execute("rename_session", {"id": pack(session_id), "title": title, "now": to_millis(now())})
    return _existing(connection, session_id)


def set_retention(connection: Connection, session_id: SessionId, hours: float | None) -> Session:
    """Set the time to live of a session's turns in hours; None keeps them. Raises ``NotFound``."""
    check_ttl(hours)
    connection.execute("set_retention", {"id": pack(session_id), "hours": hours})
    session = _existing(connection, session_id)
    if hours is None:
        connection.execute("stop_expiry", (pack(session_id),))
    else:
        connection.execute("expire_as_shortened", {"hours": hours, "ttl": ttl_millis(hours)})
    return session


def note_session(connection: Connection, session_id: SessionId, key: str, value: Json) -> Session:
    """Set one metadata key (no quotes in its name). Other keys and the time of last use do not change."""
    check_metadata_key(key)
    check_json(value, "metadata")
    values = {"id": pack(session_id), "path": f'$."{key}"', "value": metadata_column(value) or "null"}
    connection.execute("note_session", values)
    return _existing(connection, session_id)


def activate_session(connection: Connection, session_id: SessionId, branch_id: BranchId) -> Session:
    """Make another branch the active one. Raises ``NotFound`` if it belongs to another session."""
    session = _existing(connection, session_id)
    if existing_branch(connection, branch_id).session_id != session.id:
        raise NotFound(f"Session {session_id} has no branch {branch_id}.")
    _activate(connection, session_id, branch_id)
    return _existing(connection, session_id)


def get_branch(connection: Connection, branch_id: BranchId) -> Branch | None:
    """Return one branch."""
    row = connection.one("select_branch", (pack(branch_id),))
    return None if row is None else to_branch(row)


def list_branches(connection: Connection, session_id: SessionId) -> tuple[Branch, ...]:
    """Return all branches of a session, oldest first."""
    return tuple(map(to_branch, connection.many("select_branches", (pack(session_id),))))


def read_lineage(connection: Connection, branch_id: BranchId) -> Lineage:
    """Return the branch and its ancestors, with the turns visible of each. Raises ``NotFound`` if it is unknown."""
    existing_branch(connection, branch_id)
    return lineage_of(connection, branch_id)


def fork_branch(
    connection: Connection,
    branch_id: BranchId,
    *,
    at: int | None = None,
    state: int | None = None,
    label: str | None = None,
) -> Branch:
    """Create a branch after turn ``at``, or from state number ``state``; by default at the end of the branch.

    The parent is the branch that owns the turn; the base is the newest state committed for a turn up to ``at``.
    Pins are copied from the given ``state``, otherwise from ``branch_id``. Raises ``InvalidInput`` if the turn or
    state does not exist.
    """
    return _fork(connection, branch_id, at, state, label)


def rollback_branch(
    connection: Connection,
    branch_id: BranchId,
    *,
    to: int | None = None,
    state: int | None = None,
    label: str | None = None,
) -> Branch:
    """Fork as ``fork`` does and make the new branch the active one, in one transaction."""
    check_rollback(to, state)
    branch = _fork(connection, branch_id, to, state, label)
    _activate(connection, branch.session_id, branch.id)
    return branch


def find_session(connection: Connection, session_id: SessionId) -> Session | None:
    """Return one session."""
    row = connection.one("select_session", (pack(session_id),))
    return None if row is None else to_session(row)


def existing_branch(connection: Connection, branch_id: BranchId) -> Branch:
    """Return a branch. Raises ``NotFound`` if it is unknown."""
    return to_branch(must(connection.one("select_branch", (pack(branch_id),)), "branch", branch_id))


def lineage_of(connection: Connection, branch_id: BranchId) -> Lineage:
    """Return the lineage from a branch to its root; an unknown branch has an empty one."""
    chain = connection.many("select_ancestry", (pack(branch_id),))
    return Lineage.of([(unpack(branch), fork_seq) for branch, fork_seq in chain])


def lineage_ranges(connection: Connection, branch_id: BranchId, before: int) -> Iterator[tuple[BranchId, int, int]]:
    """Yield (branch, first, last) of a lineage from its newest stretch back, only turns under ``before``.

    The branch's own turns come first; ancestors are read only if the caller continues.
    """
    if before <= 1:
        return
    yield branch_id, 1, before - 1
    for stretch in lineage_of(connection, branch_id).backwards(before):
        if stretch[0] != branch_id:
            yield stretch


def _existing(connection: Connection, session_id: SessionId) -> Session:
    return to_session(must(connection.one("select_session", (pack(session_id),)), "session", session_id))


def find_by_external_id(connection: Connection, owner: Owner, external_id: str) -> Session | None:
    """Return the owner's session with that external id. Other owners' sessions are never returned."""
    row = connection.one("select_session_by_external_id", (owner.org_id, owner.user_id, external_id))
    return None if row is None else to_session(row)


def _activate(connection: Connection, session_id: SessionId, branch_id: BranchId) -> None:
    values = {"id": pack(session_id), "branch_id": pack(branch_id), "now": to_millis(now())}
    connection.execute("activate_branch", values)


def create_session(connection: Connection, new: NewSession) -> Session:
    """Create a session with one branch and its root state.

    A repeated request with the same idempotency key (``once``) returns the session that it created. Raises
    ``AccessDenied`` if the given ``id`` belonged to another owner, ``AlreadyExists`` if the owner already uses the
    ``external_id``, and ``KeyReused`` if the idempotency key belongs to a different request.
    """
    check_new_session(new)
    if (made := made_before(connection, new.once)) is not None:
        return _existing(connection, unpack(made[0]))
    if new.id is not None and (there := find_session(connection, new.id)) is not None:
        if (there.owner, there.external_id, there.kind) == (new.owner, new.external_id, new.kind):
            return there
        raise AlreadyExists(f"There is a conversation {new.id} already, with different values.")
    if new.id is not None and connection.one("select_deletion", (pack(new.id),)) is not None:
        raise AlreadyExists(f"The conversation {new.id} is being deleted.", hint="Try again in a moment.")
    buried = None if new.id is None else connection.one("select_buried", (pack(new.id),))
    if buried is not None and Owner(org_id=buried[0], user_id=buried[1]) != new.owner:
        raise AccessDenied(f"The conversation {new.id} belonged to another user.", hint="Use a new id.")
    if new.external_id is not None and find_by_external_id(connection, new.owner, new.external_id) is not None:
        raise AlreadyExists(f"This owner has a conversation with the external id {new.external_id!r} already.")
    session_id, branch_id, state_id = new.id or new_id(), new.branch_id or new_id(), new_id()
    moment = to_millis(now())
    connection.execute(
        "insert_session",
        {
            "id": pack(session_id),
            "org_id": new.owner.org_id,
            "user_id": new.owner.user_id,
            "external_id": new.external_id,
            "kind": new.kind,
            "title": new.title,
            "system": keep_text(connection, new.system),
            "ttl_hours": new.ttl_hours,
            "branch_id": pack(branch_id),
            "now": moment,
            "metadata": metadata_column(new.metadata or None),
        },
    )
    note_request(connection, new.once, pack(session_id), None)
    _insert_root(connection, session_id, branch_id, state_id)
    _insert_branch(connection, branch_id, session_id, None, 0, (pack(state_id), 0), "main")
    if new.id is not None:
        connection.execute("go_on_counting", {"session_id": pack(session_id), "branch_id": pack(branch_id)})
    return _existing(connection, session_id)


def _insert_root(connection: Connection, session_id: SessionId, branch_id: BranchId, state_id: StateId) -> None:
    insert_state(
        connection,
        {
            "id": pack(state_id),
            "session_id": pack(session_id),
            "branch_id": pack(branch_id),
            "state_seq": 0,
            "parent_id": None,
            "turn_seq": 0,
            "covers_turn_seq": 0,
            "reason": "root",
            "summary": None,
            "pins": None,
            "token_count_est": 0,
            "created_at": to_millis(now()),
            "schema_version": SCHEMA_VERSION,
        },
    )


def _insert_branch(
    connection: Connection,
    branch_id: BranchId,
    session_id: SessionId,
    parent_id: BranchId | None,
    fork_seq: int,
    state: tuple[bytes, int],
    label: str | None,
) -> None:
    connection.execute(
        "insert_branch",
        {
            "id": pack(branch_id),
            "session_id": pack(session_id),
            "parent_id": maybe_pack(parent_id),
            "fork_seq": fork_seq,
            "state": state[0],
            "state_seq": state[1],
            "label": label,
            "now": to_millis(now()),
        },
    )


def _fork(connection: Connection, branch_id: BranchId, at: int | None, state: int | None, label: str | None) -> Branch:
    branch = existing_branch(connection, branch_id)
    check_place(branch, at, state)
    if state is not None:
        base, at = numbered_state(connection, branch, state)
    elif at is None:
        base, at = (pack(branch.head_state), branch.head_seq), branch.last_turn_seq
    else:
        base = newest_state(connection, branch, at)
    forked = new_id()
    lineage = lineage_of(connection, branch_id)
    _insert_branch(connection, forked, branch.session_id, lineage.owner_of(at), at, base, label)
    _begin_end(connection, forked, lineage, at)
    if state is None:
        carry_pins(connection, branch_id, forked)
    return existing_branch(connection, forked)


def _begin_end(connection: Connection, forked: BranchId, lineage: Lineage, at: int) -> None:
    """Write the prefix hash at which a new branch ends; failed turns are ignored."""
    for branch, first, last in lineage.backwards(at + 1):
        values = {"id": pack(forked), "branch_id": pack(branch), "first": first, "last": last}
        if connection.one("select_unfailed", values) is not None:
            connection.execute("begin_end", values)
            return


def find_requested(connection: Connection, once: IdempotencyKey) -> TurnId | SessionId | None:
    """Return the id of what the request with this idempotency key created: a turn, or a session; None if it is new.

    Raises ``KeyReused`` if the key belongs to a different request.
    """
    made = made_before(connection, once)
    return None if made is None else unpack(made[1] or made[0])


class Sessions(StoreResource):
    """Conversations."""

    create = writes(create_session)
    get = looks(find_session)
    list = reads(list_sessions)
    rename = writes(rename_session)
    retain = writes(set_retention)
    note = writes(note_session)
    activate = writes(activate_session)
    find = looks(find_by_external_id)
    requested = looks(find_requested)


class Branches(StoreResource):
    """Branches of turns. Forking and rolling back neither copy nor delete turns."""

    get = looks(get_branch)
    list = reads(list_branches)
    lineage = looks(read_lineage)
    fork = writes(fork_branch)
    rollback = writes(rollback_branch)


def made_before(connection: Connection, once: IdempotencyKey | None) -> tuple[bytes, bytes | None] | None:
    """Return the (session, turn) that the request with this key created; None if the key is new or missing."""
    row = None if once is None else connection.one("select_request", (pack_hash(once.key),))
    if once is None or row is None:
        return None
    check_same_request(once, row[0].hex())
    return row[1], row[2]


def note_request(connection: Connection, once: IdempotencyKey | None, session_id: bytes, turn_id: bytes | None) -> None:
    """Store what the request with this key created."""
    if once is not None:
        connection.execute("insert_request", (pack_hash(once.key), pack_hash(once.asked), session_id, turn_id))


def forget_requests(connection: Connection, session_id: bytes) -> None:
    """Delete the keys of a session that is being deleted."""
    connection.execute("delete_requests", (session_id,))
