"""Conversations, in memory."""

from __future__ import annotations

from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, Position, SessionId, new_id, now
from contextinfinity.domain.session import Branch, NewSession, Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.errors import AccessDenied, AlreadyExists, NotFound
from contextinfinity.storage.idempotency import check_same_request
from contextinfinity.storage.in_memory.tables import Tables, check_text
from contextinfinity.storage.rules import check_new_session, row_limit


class InMemorySessions:
    """The ``Sessions`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def create(self, new: NewSession) -> Session:
        """Make a session with one branch and its root state."""
        check_new_session(new)
        check_text(new)
        with self._tables.transaction() as tables:
            if new.once is not None and new.once.key in tables.session_requests:
                asked, made = tables.session_requests[new.once.key]
                check_same_request(new.once, asked)
                return tables.sessions[made]
            if new.id in tables.sessions:
                return _made_already(tables.sessions[new.id], new)
            if new.id is not None and tables.buried.get(new.id, new.owner) != new.owner:
                raise AccessDenied(f"The session {new.id} was another user's.", hint="Take a new id.")
            if new.external_id is not None and (new.owner, new.external_id) in tables.by_external_id:
                raise AlreadyExists(f"{new.owner.user_id!r} already has a session {new.external_id!r}.")
            session = _begin(tables, new)
            if new.once is not None:
                tables.session_requests[new.once.key] = (new.once.asked, session.id)
            return session

    async def get(self, session_id: SessionId) -> Session | None:
        """Read one."""
        with self._tables.transaction() as tables:
            return tables.sessions.get(session_id)

    async def find(self, owner: Owner, external_id: str) -> Session | None:
        """Read the owner's session of that foreign id; nobody else's."""
        with self._tables.transaction() as tables:
            session_id = tables.by_external_id.get((owner, external_id))
            return None if session_id is None else tables.sessions[session_id]

    async def list(self, owner: Owner, *, limit: int = 50, after: Position | None = None) -> tuple[Session, ...]:
        """Read the owner's sessions, the one spoken in last first."""
        with self._tables.transaction() as tables:
            own = [session for session in tables.sessions.values() if session.owner == owner]
        own.sort(key=lambda session: session.position, reverse=True)
        behind = [session for session in own if after is None or session.position < after]
        return tuple(behind[: row_limit(limit)])

    async def rename(self, session_id: SessionId, title: str | None) -> Session:
        """Give it another title."""
        check_text(title)
        with self._tables.transaction() as tables:
            session = replace(tables.session(session_id), title=title, updated_at=now())
            tables.sessions[session_id] = session
            return session

    async def activate(self, session_id: SessionId, branch_id: BranchId) -> Session:
        """Make another of its branches the active one."""
        with self._tables.transaction() as tables:
            session = tables.session(session_id)
            if tables.branch(branch_id).session_id != session_id:
                raise NotFound(f"Session {session_id} has no branch {branch_id}.")
            session = replace(session, active_branch=branch_id, updated_at=now())
            tables.sessions[session_id] = session
            return session


def _made_already(session: Session, new: NewSession) -> Session:
    if (session.owner, session.external_id, session.kind) != (new.owner, new.external_id, new.kind):
        raise AlreadyExists(f"Session {session.id} exists, and is another one.")
    return session


def _begin(tables: Tables, new: NewSession) -> Session:
    moment = now()
    session_id, branch_id, state_id = new.id or new_id(), new.branch_id or new_id(), new_id()
    session = Session(
        id=session_id,
        owner=new.owner,
        kind=new.kind,
        active_branch=branch_id,
        created_at=moment,
        updated_at=moment,
        external_id=new.external_id,
        title=new.title,
        system=new.system,
        ttl_hours=new.ttl_hours,
    )
    root = State(
        id=state_id,
        session_id=session_id,
        branch_id=branch_id,
        state_seq=0,
        turn_seq=0,
        covers_turn_seq=0,
        reason="root",
        created_at=moment,
    )
    branch = Branch(
        id=branch_id,
        session_id=session_id,
        base_state=state_id,
        head_state=state_id,
        head_seq=0,
        last_turn_seq=0,
        created_at=moment,
        label="main",
    )
    tables.sessions[session_id] = session
    if new.external_id is not None:
        tables.by_external_id[new.owner, new.external_id] = session_id
    tables.states[state_id] = root
    tables.put_branch(replace(branch, last_turn_seq=tables.last_deleted.get(session_id, 0)))
    return session
