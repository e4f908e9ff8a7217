"""Routes: sending and reading messages, turns and their events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import perf_counter
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from msgspec.structs import replace
from starlette.responses import Response

from contextinfinity.client.contract import Explained, StampedEvent
from contextinfinity.client.results import Conversation, MessagePage, ShownMessage, ShownTurn, TurnAccount
from contextinfinity.domain.events import FinishedTurn, TurnStarted
from contextinfinity.domain.ids import is_id
from contextinfinity.domain.message import IMAGE_TYPES
from contextinfinity.domain.search import Hits
from contextinfinity.errors import Refused
from contextinfinity.server.app_state import AppState, app_state_of
from contextinfinity.server.auth import (
    NEW,
    ActingUser,
    ActingWith,
    ThreadId,
    ThreadOrAny,
    TurnId,
    acting_with,
    check_thread_name,
    turn_of,
)
from contextinfinity.server.bodies import (
    ALWAYS,
    WITH_BODY,
    Cancel,
    NewMessage,
    answer,
    content_of,
    gives,
    gives_events,
    note,
    refusals,
    takes,
)
from contextinfinity.server.streams import EventStream, frames, last
from contextinfinity.server.thread_routes import BranchWanted, Key, Limit

routes = APIRouter(tags=["messages"], default_response_class=Response)

Said = Annotated[ActingWith[NewMessage], Depends(acting_with(NewMessage))]
ThreadOrNew = Annotated[
    str, Path(description="A thread id. `new`, or an external id that is not used yet, creates a thread.")
]
TALKING = (*WITH_BODY, 404, 409)
BYTES = "application/octet-stream"
IMAGE_HEADERS = {
    "cache-control": "private, max-age=60",
    "content-security-policy": "default-src 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers that prevent a browser from executing the bytes, and other sites from embedding them."""


@routes.get("/threads/{thread_id}/messages", responses=gives(MessagePage, 404))
async def read_messages(
    act: ActingUser,
    thread_id: ThreadId,
    limit: Limit = 50,
    before: Annotated[
        str | None,
        Query(
            pattern=r"^[0-9]{1,15}a?$",
            description="A turn_seq, or the ``before`` value of a page: return earlier messages.",
        ),
    ] = None,
    branch_id: BranchWanted = None,
) -> Response:
    """Return messages, the newest page first, each page oldest first."""
    place, half = (None, False) if before is None else (int(before.rstrip("a")), before.endswith("a"))
    shown = await act.client.conversations.show(
        thread_id,
        branch_id=branch_id,
        limit=limit // 2 + 2,
        before=place + 1 if half and place is not None else place,
    )
    return answer(_page(shown, limit, without_last=half))


@routes.post("/threads/{thread_id}/messages", responses=gives(FinishedTurn, *TALKING), openapi_extra=takes(NewMessage))
async def send_message(request: Request, thread_id: ThreadOrNew, act: Said, key: Key = None) -> Response:
    """Send a message and wait for the complete answer; a failed answer is returned with outcome `failed`."""
    app_state = app_state_of(request)
    events = _sent(app_state, thread_id, act, key, deltas=False)
    note_start(request, await anext(events))
    return answer(await last(app_state, events, act.check))


@routes.post("/threads/{thread_id}/messages/stream", responses=gives_events(*TALKING), openapi_extra=takes(NewMessage))
async def stream_message(request: Request, thread_id: ThreadOrNew, act: Said, key: Key = None) -> Response:
    """Send a message and stream the answer as server-sent events; it continues if the client disconnects."""
    app_state = app_state_of(request)
    close = app_state.streams.take(act.owner)
    try:
        events = _sent(app_state, thread_id, act, key)
        first = await anext(events)  # before the status is sent, so that an error becomes a status
    except BaseException:
        close()
        raise
    note_start(request, first)
    return EventStream(
        frames(app_state, first, events, act.check), close=close, stall_seconds=app_state.server.stall_seconds
    )


@routes.get("/threads/{thread_id}/turns/{turn_id}", responses=gives(TurnAccount, 404))
async def get_turn(act: ActingUser, thread_id: ThreadOrAny, turn_id: TurnId) -> Response:
    """Return a turn: its phase, outcome and provider requests."""
    return answer(await turn_of(act, thread_id, turn_id))


@routes.get("/threads/{thread_id}/turns/{turn_id}/chunks", responses=gives(Hits, 404))
async def get_chunks(act: ActingUser, thread_id: ThreadOrAny, turn_id: TurnId) -> Response:
    """Return the chunks of a turn in the order of the text; none before it is indexed."""
    turn = await turn_of(act, thread_id, turn_id)
    return answer(await act.client.past.chunks(turn.turn_id))


@routes.get("/threads/{thread_id}/turns/{turn_id}/stream", responses=gives_events(404))
async def listen(
    request: Request,
    act: ActingUser,
    thread_id: ThreadOrAny,
    turn_id: TurnId,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The id of the last event that was received.")
    ] = None,
) -> Response:
    """Stream the events of a running or finished turn, from its start or after an event id."""
    app_state, turn = app_state_of(request), await turn_of(act, thread_id, turn_id)
    events = act.client.conversations.watch(turn.turn_id, after=last_event_id or None)
    close = app_state.streams.take(act.owner)
    note(request, thread_id=turn.thread_id, turn_id=turn.turn_id, branch_id=turn.branch_id)
    return EventStream(
        frames(app_state, None, events, act.check), close=close, stall_seconds=app_state.server.stall_seconds
    )


@routes.get("/threads/{thread_id}/turns/{turn_id}/context", responses=gives(Explained, 404, 409))
async def get_context(
    act: ActingUser,
    thread_id: ThreadOrAny,
    turn_id: TurnId,
    step: Annotated[
        int | None, Query(ge=0, le=1_000_000, description="The number of the request; default: the last.")
    ] = None,
    compare: Annotated[str | None, Query(description="A turn to compare with; default: the previous request.")] = None,
) -> Response:
    """Return the prompt of a turn: the stored plan, and the exact messages rebuilt from it."""
    conversations, turn = act.client.conversations, await turn_of(act, thread_id, turn_id)
    if not turn.steps and turn.outcome is None:
        raise Refused("No request was sent to the model yet.", hint="Try again when the turn is running.")
    if not turn.steps and turn.outcome == "clarification":
        return answer({"plan": await conversations.context(turn.turn_id), "messages": []})
    return answer(await conversations.explain(turn.turn_id, step_index=step, compare=compare))


@routes.get(
    "/threads/{thread_id}/turns/{turn_id}/images/{number}",
    responses={200: {"description": "The bytes of the image.", "content": {"image/*": {}}}, **refusals(*ALWAYS, 404)},
)
async def get_image(
    act: ActingUser,
    thread_id: ThreadOrAny,
    turn_id: TurnId,
    number: Annotated[int, Path(ge=1, le=10_000, description="The number of the image in the message, starting at 1.")],
) -> Response:
    """Return an image that was sent with a message."""
    turn = await turn_of(act, thread_id, turn_id)
    body, media_type = await act.client.images.get(turn.turn_id, number)
    return Response(body, headers=IMAGE_HEADERS, media_type=media_type if media_type in IMAGE_TYPES else BYTES)


@routes.post(
    "/threads/{thread_id}/turns/{turn_id}/cancel",
    responses=gives(FinishedTurn, *WITH_BODY, 404),
    openapi_extra=takes(Cancel, required=False),
)
async def cancel(
    thread_id: ThreadOrAny,
    turn_id: TurnId,
    act: Annotated[ActingWith[Cancel], Depends(acting_with(Cancel, may_be_empty=True))],
) -> Response:
    """Cancel a turn and wait for its end; the text shown so far is kept."""
    turn = await turn_of(act, thread_id, turn_id)
    return answer(await act.client.conversations.cancel(turn.turn_id))


def _sent(
    app_state: AppState, thread_id: str, act: ActingWith[NewMessage], key: str | None, *, deltas: bool = True
) -> AsyncIterator[StampedEvent]:
    body = act.body
    if thread_id != NEW and not is_id(thread_id):
        check_thread_name(thread_id)
    return act.client.conversations.send(
        thread_id,
        content_of(body, app_state.server.max_message_chars),
        deltas=deltas,
        branch_id=body.branch_id,
        model=body.model,
        use_memory=body.use_memory,
        use_query_rewriter=body.use_query_rewriter,
        may_ask_back=body.may_ask_back,
        retry_of=body.retry_of,
        attach=body.attach,
        key=key,
    )


def note_start(request: Request, first: StampedEvent) -> None:
    """Add the conversation and turn of a message to the request's log line."""
    event = first.event
    if isinstance(event, TurnStarted):
        names = ("thread_id", "branch_id", "turn_id", "turn_seq", "found", "turns_loaded")
        begun = perf_counter() - request.scope["state"]["begun"]
        note(request, first_seconds=begun, **{name: getattr(event, name) for name in names})


def _page(shown: Conversation, limit: int, *, without_last: bool) -> MessagePage:
    """Return the newest messages of these turns; ``without_last``: the last answer was on the previous page."""
    pairs = [message for turn in shown.turns for message in _sides(turn)]
    if without_last and pairs:
        pairs.pop()
    page = pairs[-limit:]
    cut = len(pairs) > limit
    first = page[0] if page else None
    place = None if first is None else f"{first.turn_seq}{'a' if first.role == 'assistant' else ''}"
    more = cut or (first is not None and first.turn_seq > 1)
    return MessagePage(
        thread_id=shown.thread_id, branch_id=shown.branch_id, messages=tuple(page), before=place if more else None
    )


def _sides(turn: ShownTurn) -> tuple[ShownMessage, ShownMessage]:
    asked = ShownMessage(
        role="user",
        content=turn.user,
        turn_id=turn.turn_id,
        turn_seq=turn.turn_seq,
        branch_id=turn.branch_id,
        created_at=turn.created_at,
        phase=turn.phase,
        outcome=turn.outcome,
        images=turn.images,
    )
    answer_side = replace(
        asked,
        images=0,
        role="assistant",
        content=turn.assistant,
        model=turn.model,
        usage=turn.usage,
        error=turn.error,
        latency_ms=turn.latency_ms,
        tool_calls=turn.tool_calls,
    )
    return asked, answer_side
