"""Turns as responses, sessions as conversations: what clients of OpenAI's Responses ask for by id.

A response is a turn that such a client made and that was to be stored. A conversation is a session; its items are what
was said on the active branch. Every look-up is for the acting owner: what is another's, was not to be stored or was
deleted does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from contextinfinity.client.resource import ClientResource
from contextinfinity.dialects.openai_responses import item_ids
from contextinfinity.dialects.openai_responses.reading import RESPONSE
from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import Json
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.turn import UNFINISHED, Exchange, Turn
from contextinfinity.errors import BranchBusy, NotFound

CONVERSATION = "conversation"
"""The key of a session's metadata that keeps the metadata of the conversation."""


class StoredResponse(Struct, frozen=True, kw_only=True):
    """A turn that is a response, and what it keeps of its request."""

    turn: Turn
    echo: dict[str, Json]


class ResponseClient(ClientResource):
    """Finds responses and conversations by their public ids."""

    async def get(self, response_id: str) -> StoredResponse:
        """Read a response; ``NotFound`` if there is none."""
        missing = NotFound(f"Response with id {response_id[:80]!r} not found.", hint="")
        turn_id = item_ids.turn_of(response_id)
        if turn_id is None:
            raise missing
        try:
            turn = await self._turn(turn_id)
            session = await self._session(turn.session_id)
        except NotFound:
            raise missing from None
        echo = echo_of(turn)
        if echo is None or echo.get("store") is False or _deleted(turn_id) in session.metadata:
            raise missing
        return StoredResponse(turn=turn, echo=echo)

    async def delete(self, response_id: str) -> None:
        """Delete a response: with its thread if it is the only turn, else only its id becomes unknown.

        Raises ``BranchBusy`` while it is being answered.
        """
        turn = (await self.get(response_id)).turn
        if turn.phase in UNFINISHED:
            raise BranchBusy("The response is being answered.", hint="Cancel it first.")
        branches = await self._store.branches.list(turn.session_id)
        is_alone = len(branches) == 1 and branches[0].last_turn_seq == 1
        if is_alone and "conversation" not in (echo_of(turn) or {}):
            await self._engine.delete(turn.session_id)
        else:
            await self._store.sessions.note(turn.session_id, _deleted(turn.id), True)

    async def turn(self, turn_id: TurnId) -> Turn:
        """Read the turn that an item belongs to; ``NotFound`` if there is none."""
        return await self._turn(turn_id)


class StoredConversations(ClientResource):
    """Conversations in the form of OpenAI's Responses API."""

    async def create(self, metadata: dict[str, str]) -> Session:
        """Create an empty conversation."""
        kept: dict[str, Json] = {CONVERSATION: metadata} if metadata else {}
        return await self._store.sessions.create(NewSession(owner=self._acting_owner(Owner()), metadata=kept))

    async def get(self, conversation_id: str) -> Session:
        """Read a conversation; ``NotFound`` if there is none."""
        session_id = item_ids.session_of(conversation_id)
        missing = NotFound(f"Conversation with id {conversation_id[:80]!r} not found.", hint="")
        if session_id is None:
            raise missing
        try:
            return await self._session(session_id)
        except NotFound:
            raise missing from None

    async def note(self, session: Session, metadata: dict[str, str]) -> Session:
        """Replace the metadata."""
        return await self._store.sessions.note(session.id, CONVERSATION, metadata)

    async def delete(self, session: Session) -> None:
        """Delete a conversation and everything derived from it."""
        await self._engine.delete(session.id)

    async def last_turn(self, session: Session) -> Turn | None:
        """Return the last turn."""
        turns = await self._store.turns.history(session.active_branch, limit=1)
        return turns[-1] if turns else None

    async def turns(self, session: Session, *, before: int | None = None, limit: int = 100) -> tuple[Turn, ...]:
        """Return the newest turns of the active branch, or those before one; oldest first."""
        return await self._store.turns.history(session.active_branch, limit=limit, before=before)

    async def holds(self, session: Session, turn: Turn) -> bool:
        """Return whether the active branch has a turn."""
        if turn.session_id != session.id:
            return False
        lineage = await self._store.branches.lineage(session.active_branch)
        return lineage.owner_of(turn.turn_seq) == turn.branch_id

    async def record(self, session: Session, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
        """Append messages that were exchanged elsewhere to the active branch.

        Raises ``OutOfOrder`` while a turn is being answered.
        """
        return await self._store.turns.record(session.active_branch, exchanges)

    async def remove_from(self, session: Session, turn: Turn) -> Session:
        """Remove a turn and everything after it, by continuing on a branch from before it."""
        await self._store.branches.rollback(session.active_branch, to=turn.turn_seq - 1)
        return await self._session(session.id)


def echo_of(turn: Turn) -> dict[str, Json] | None:
    """Return what a turn stores of its request for the response; None if it is not a response."""
    echo = turn.metadata.get(RESPONSE) if isinstance(turn.metadata, dict) else None
    return echo if isinstance(echo, dict) else None


def _deleted(turn_id: TurnId) -> str:
    """Return the key of a session's metadata that says that a response was deleted."""
    return f"deleted-{turn_id}"
