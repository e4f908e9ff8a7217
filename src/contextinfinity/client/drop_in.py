"""The engine's interface for the OpenAI- and Anthropic-compatible routes.

Clients of OpenAI's Responses ask by id for turns as responses and sessions as conversations. A response is a turn that
such a client made and that was to be stored. A conversation is a session; its items are what was said on the active
branch. Every look-up is for the acting owner: what is another's, was not to be stored or was deleted does not exist.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.client.local_resources import ClientResource
from contextinfinity.dialects.openai_responses import items
from contextinfinity.dialects.openai_responses.reading import RESPONSE
from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import ContentBlock, Json, Message, with_reasoning
from contextinfinity.domain.prefix_hash import number_of
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.domain.sent_form import RESPONSES
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.turn import UNFINISHED, Exchange, Incomplete, Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.resent_history import ResentHistory
from contextinfinity.engine.respond import UPSTREAM
from contextinfinity.engine.running_turn import SendOptions, StampedEvent, Terms
from contextinfinity.engine.sent_conversation import SentConversation
from contextinfinity.engine.step import longest
from contextinfinity.errors import BranchBusy, NotFound, Refused
from contextinfinity.prompt.redact import hidden

if TYPE_CHECKING:
    from contextinfinity.domain.search import Rows

__all__ = ["UPSTREAM", "Answered", "DropIn", "SendOptions", "SentConversation", "Terms", "number_of"]

AUTO = "auto"
"""The model name that lets the router choose."""


class Answered(Struct, frozen=True, kw_only=True):
    """A finished turn; ``reason`` says why its answer was cut short, if it was."""

    turn: Turn
    reason: str = ""
    blocks: tuple[ContentBlock, ...] = ()
    """What was answered; with what the model thought, where that is asked for."""
    ended_at: datetime | None = None
    """When the model had answered; known where its reasoning is asked for."""


class DropIn:
    """Conversations whose clients resend the whole history, and the models they may use."""

    def __init__(self, engine: Engine, talks: ResentHistory, acting: Owner | None) -> None:
        self._engine = engine
        self._talks = talks
        self._acting = acting or Owner()

    async def begin(self, talk: SentConversation, asked: SendOptions) -> tuple[Turn, bool]:
        """Store the new messages of a conversation and start answering; also return whether its thread existed."""
        return await self._talks.begin(talk, self._acting, asked)

    async def note_broken(self, turn_id: TurnId) -> None:
        """Record that the connection of a turn's request broke before it was answered."""
        await self._talks.note_broken(turn_id)

    def stop_when_left(self, turn_id: TurnId, talk: SentConversation, seconds: float) -> None:
        """Stop a turn whose client disconnected, after a grace time, unless a retry or a reader joined it."""
        self._talks.stop_when_left(turn_id, self._acting, talk, seconds)

    def note_delivered(self, turn_id: TurnId) -> None:
        """Record that a turn's request was answered."""
        self._talks.note_delivered(turn_id)

    def watch(self, turn_id: TurnId, *, deltas: bool = True, reasoning: bool = False) -> AsyncIterator[StampedEvent]:
        """Yield the events of a turn from its start, or only its end."""
        return self._engine.watch(turn_id, deltas=deltas, reasoning=reasoning)

    async def answered(self, turn_id: TurnId, *, reasoning: bool = False) -> Answered:
        """Return a finished turn."""
        turn = await self._talks.read(turn_id)
        blocks = () if turn.answer is None else turn.answer.blocks
        if turn.outcome != "incomplete" and not reasoning:
            return Answered(turn=turn, blocks=blocks)
        steps = await self._engine.store.turns.steps(turn_id)
        outcome = steps[-1].outcome if steps else None
        return Answered(
            turn=turn,
            reason=outcome.reason if isinstance(outcome, Incomplete) else "",
            ended_at=steps[-1].ended_at if steps else None,
            blocks=with_reasoning(steps[-1].items, blocks) if steps and reasoning else blocks,
        )

    async def size_of(self, turn_id: TurnId) -> int:
        """Return the counted tokens of a turn's request; 0 before there is one."""
        plan = await self._engine.store.turns.plan(turn_id)
        return 0 if plan is None else plan.tokens

    def model_named(self, name: str) -> str | None:
        """Return the model by our name or by the vendor's; None lets the router choose."""
        models = self._engine.models
        if name == AUTO:
            return None
        if name in models.by_name:
            return name
        by_id = next((model.name for model in models.by_name.values() if model.model_id == name), None)
        if by_id is None:
            known = ", ".join((AUTO, *sorted(models.by_name)))
            raise NotFound(f"There is no model {name!r}; there are: {known}.", hint="Name it under [models].")
        return by_id

    def models(self) -> tuple[str, ...]:
        """Return the names of the available models."""
        return (AUTO, *self._engine.models.names)

    def passes_through(self, model: str | None, form: str) -> bool:
        """Return whether a model (None: the default one) receives this wire format unchanged."""
        return self._engine.models.named(model).form == form

    async def left_out(
        self, turn_id: TurnId, asked: SendOptions, ignored: tuple[str, ...], messages: tuple[Message, ...]
    ) -> tuple[str, ...]:
        """Return the parameters that cannot be passed to the model that answers a turn, as far as known.

        ``ignored``: the parameters that have no meaning on a wire other than the caller's.
        """
        terms = asked.terms
        if terms is None:
            return ignored
        steps = await self._engine.store.turns.steps(turn_id)
        models = self._engine.models.by_name.values()
        answers = (model for model in models if steps and model.answers_in(steps[-1]))
        model = next(answers, self._engine.models.named(asked.model))
        requested, params = terms.request_options.max_output_tokens, (terms.params or {}).get("params") or {}
        names = ("max_completion_tokens", "max_output_tokens")
        name = next((name for name in names if params.get(name) is not None), "max_tokens")
        size = await self.size_of(turn_id)
        clamped = (name,) if requested is not None and longest(model, size, terms) < requested else ()
        can_call = not terms.tools or model.provider.abilities(model.model_id).tools
        if terms.form and terms.form == model.form:
            return clamped if can_call else (*clamped, "tools")
        request_options = replace(
            terms.request_options, parallel_tools=terms.request_options.parallel_tools and None
        )  # True is always followed
        unmet = model.provider.options_for(request_options, model.model_id).left_out
        where = "input" if terms.form == RESPONSES else "messages"
        unread = [f"{where}.content.{kind}" for kind in model.unread(messages)]
        return (*unread, *ignored, *clamped, *(() if can_call else ("tools",)), *unmet)

    def count(self, messages: tuple[Message, ...], system: str, tools: tuple[ToolSpec, ...], model: str | None) -> int:
        """Return the estimated tokens of a request."""
        return self._talks.count(messages, system, tools, model)

    async def embed(self, texts: tuple[str, ...]) -> tuple[str, Rows]:
        """Return the embeddings of texts, and the embedder's name."""
        if self._engine.setup.retrieval is None:
            raise Refused("There is no embedder here.", hint="Set retrieval.enabled.")
        embedder = await self._engine.setup.retrieval.embedders.chosen()
        redactor = self._engine.setup.redactor if embedder.is_remote else None
        return embedder.name, await embedder.embed([hidden(text, redactor) for text in texts])


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
        turn_id = items.turn_of(response_id)
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
        session_id = items.session_of(conversation_id)
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
