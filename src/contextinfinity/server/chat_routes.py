"""``POST /chat``: one query, one answer, in a session with a time to live (a day by default).

An unknown session id never fails: a new session is created, with the given id if it is a UUID that is not in use.
While the ledger is unavailable the query is answered too, and the answer is spooled.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Request
from msgspec.structs import replace
from starlette.responses import Response

from contextinfinity.client.contract import Quoted
from contextinfinity.client.results import ShownTurn
from contextinfinity.compat.chat_sessions import known_session
from contextinfinity.domain.events import FinishedTurn
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.memory import ANONYMOUS
from contextinfinity.domain.plan import Intent, Plan
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.errors import (
    AccessDenied,
    AlreadyExists,
    ContextInfinityError,
    InvalidInput,
    LedgerError,
    NotFound,
    TooLarge,
)
from contextinfinity.server.app_state import AppState, app_state_of
from contextinfinity.server.auth import Acting, ActingWith, acting_with
from contextinfinity.server.bodies import WITH_BODY, ChatAnswer, ChatFacts, ChatQuery, answer, gives, takes
from contextinfinity.server.message_routes import note_start
from contextinfinity.server.streams import last
from contextinfinity.server.thread_routes import Key

log = logging.getLogger(__name__)

routes = APIRouter(tags=["chat"], default_response_class=Response)


Chatting = Annotated[ActingWith[ChatQuery], Depends(acting_with(ChatQuery, nameless=ANONYMOUS))]


class ChatTarget(NamedTuple):
    """The session of a query and its newest turns, oldest first."""

    session_id: str
    earlier: Sequence[ShownTurn] = ()


class ChatBackend(NamedTuple):
    """Facts from the plan of an answer: the intent, the candidates of a clarifying question, the quoted chunks."""

    intent: Intent
    confidence: float
    candidates: tuple[str, ...] = ()
    quoted: tuple[Quoted, ...] = ()


@routes.post("/chat", responses=gives(ChatAnswer, *WITH_BODY, 409), openapi_extra=takes(ChatQuery))
async def chat(request: Request, act: Chatting, key: Key = None) -> Response:
    """Answer a query in the session `session_id`; without it, in a new session."""
    app_state, body = app_state_of(request), act.body
    _check(body.query, app_state.server.max_message_chars)
    if app_state.retention.stateless:
        return answer(await _answered_once(request, app_state, act))
    wanted = known_session(body.session_id)
    place = await _place(app_state, act, wanted, key)
    try:
        result = await _answered(request, app_state, place, act, key)
    except NotFound:  # it was deleted with its last turn
        place = await _made(app_state, act, place.session_id, key)
        result = await _answered(request, app_state, place, act, key)
    return answer(result)


def _check(query: str, most: int) -> None:
    """Reject an invalid query before anything is stored."""
    if not query.strip():
        raise InvalidInput("query: it must not be blank.", hint="Say something.")
    if len(query) > most:
        raise TooLarge(f"query: it has {len(query)} characters; the maximum is {most}.")


async def _place(app_state: AppState, act: Acting, wanted: str | None, key: str | None) -> ChatTarget:
    """Return the acting user's session with that id, or create one, with that id if it is not in use."""
    if wanted is None:
        return await _made(app_state, act, None, key)
    try:
        shown = await act.client.conversations.show(wanted, limit=app_state.retention.history_limit)
        return ChatTarget(wanted, shown.turns)
    except NotFound:
        return await _made(app_state, act, wanted, key)
    except LedgerError as error:
        _log_failure("load_history", wanted, act.owner, error)
        # Its owner cannot be read: if there are tokens, the session gets a new id.
        return await _made(app_state, act, wanted if act.check is None else None, key)


async def _made(app_state: AppState, act: Acting, session_id: str | None, key: str | None) -> ChatTarget:
    """Create a session with that id, or with a new one if it belongs or belonged to another user."""
    new = NewSession(id=session_id, owner=act.owner, kind="chat", ttl_hours=app_state.retention.conversation_ttl_hours)
    threads = act.client.threads
    if session_id is None:
        return ChatTarget((await threads.create(new, key=key)).thread_id)
    try:
        return ChatTarget((await threads.create(new)).thread_id)
    except (AlreadyExists, AccessDenied):  # it is another user's, or was
        return ChatTarget((await threads.create(replace(new, id=None), key=key)).thread_id)


async def _answered_once(request: Request, app_state: AppState, act: ActingWith[ChatQuery]) -> ChatAnswer:
    """Answer a query without storing it; the caller's session does not change."""
    place = await _made(app_state, act, None, None)
    try:
        result = await _answered(request, app_state, place, act, None, is_alone=True)
    finally:
        try:
            await act.client.threads.delete(place.session_id)
        except ContextInfinityError as error:  # it is deleted after its time to live
            _log_failure("delete_session", place.session_id, act.owner, error)
    return replace(result, session_id=known_session(act.body.session_id) or new_id())


async def _answered(
    request: Request,
    app_state: AppState,
    place: ChatTarget,
    act: ActingWith[ChatQuery],
    key: str | None,
    *,
    is_alone: bool = False,
) -> ChatAnswer:
    body = act.body
    events = act.client.conversations.send(
        place.session_id,
        body.query,
        deltas=False,
        use_memory=not is_alone,
        key=key,
        metadata=None if body.role is None else {"role": body.role},
    )
    note_start(request, await anext(events))
    turn = await last(app_state, events, act.check)
    return _chat_answer(body, turn, place, await _behind(act, turn, body.query, place.earlier))


async def _behind(act: Acting, turn: FinishedTurn, query: str, earlier: Sequence[ShownTurn]) -> ChatBackend:
    """Read the plan of an answer; without one only the query's intent is determined."""
    plan, quoted = Plan(), tuple[Quoted, ...]()
    with suppress(NotFound, LedgerError):
        plan = await act.client.conversations.context(turn.turn_id)
        quoted = (await act.client.conversations.explain(turn.turn_id)).quoted if plan.retrieved else ()
    if plan.route is not None and plan.route.confidence:
        return ChatBackend(plan.route.intent, plan.route.confidence, plan.candidates, quoted)
    from contextinfinity.routing.intent import intent_of  # its vocabulary takes time to load

    purpose = intent_of(query, [turn.user for turn in earlier])
    return ChatBackend(purpose.intent, purpose.confidence, plan.candidates, quoted)


def _chat_answer(body: ChatQuery, turn: FinishedTurn, place: ChatTarget, behind: ChatBackend) -> ChatAnswer:
    facts = ChatFacts(
        message_type="error" if turn.error else "clarification" if turn.outcome == "clarification" else "answer",
        outcome=turn.outcome,
        intent=behind.intent,
        confidence=behind.confidence,
        result_count=len(behind.quoted),
        turns_loaded=len(place.earlier),
        turn_id=turn.turn_id,
        turn_number=turn.turn_seq,
        model=turn.model,
        created_at=turn.created_at,
        candidates=behind.candidates,
        role=body.role,
        degraded=turn.durability == "local",
    )
    return ChatAnswer(
        query=body.query,
        message=turn.text,
        data=behind.quoted,
        intent=behind.intent,
        confidence=behind.confidence,
        session_id=place.session_id,
        metadata=facts,
        error=None if turn.error is None else turn.error.message,
    )


def _log_failure(operation: str, session_id: str, owner: Owner, error: ContextInfinityError) -> None:
    """Log a failed operation and its user."""
    about = {"operation": operation, "session_id": session_id, "user_id": owner.user_id, "error": error.message}
    log.warning("chat: %s failed: %s", operation, error.message, extra=about)
