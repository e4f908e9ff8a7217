"""Routes: /v1/responses and /v1/conversations, compatible with OpenAI. A conversation is a thread.

References to items are resolved by reading the items from the turns that contain them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from contextinfinity.client.drop_in import CONVERSATION, SendOptions, SentConversation, StoredResponse, echo_of
from contextinfinity.client.local import LocalClient
from contextinfinity.dialects.contract import IncomingRequest
from contextinfinity.dialects.openai_chat.value_checks import InvalidValue, body_object, each, field, optional
from contextinfinity.dialects.openai_responses import OpenAIResponses, reading, writing
from contextinfinity.dialects.openai_responses.items import InputItems, Item, ToolNames, place_of
from contextinfinity.dialects.openai_responses.items import conversation_id as id_of_conversation
from contextinfinity.dialects.openai_responses.items import response_id as id_of_response
from contextinfinity.dialects.openai_responses.reading import ENCRYPTED, LAYOUT, a_metadata
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.session import Session
from contextinfinity.domain.turn import UNFINISHED, Exchange, Phase, Turn
from contextinfinity.errors import NotFound
from contextinfinity.prompt.prompt_sections import WHOLE, as_sent_field
from contextinfinity.server.app_state import app_state_of
from contextinfinity.server.auth import Acting, Asking, Caller
from contextinfinity.server.streams import EventStream
from contextinfinity.server.v1.request_mapping import ActingInV1, MappedRequest, NamedUser, resolve_owner
from contextinfinity.server.v1.response_mapping import (
    UnansweredRequest,
    answer,
    answer_view,
    begun,
    headers_of,
    partly,
    pieces,
)
from contextinfinity.server.v1.routes import (
    LARGE,
    TAKES,
    RequestShape,
    as_json,
    body_of,
    checked_question,
    gives,
    noted,
)
from contextinfinity.server.v1.vendors import PREFIX, RESPONSES, vendor_error_fields

ITEMS = "items"
"""The metadata field of a turn recorded from items: how its message is divided into items."""


async def with_items(client: LocalClient, given: Json) -> Json:
    """Replace references in the input of a request by the items; raise ``NotFound`` for items of other owners.

    Reasoning without content is a reference, too. Items with ids of other servers are not changed.
    """
    if not isinstance(given, list):
        return given
    known: dict[str, dict[str, Item]] = {}
    return [await _resolved(client, item, known) if _refers(item) else item for item in given]


def _refers(item: Json) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        return False
    is_bare = item.get("type") == "reasoning" and item.get("encrypted_content") is None
    return (is_bare or item.get("type") == "item_reference") and place_of(item["id"]) is not None


async def _resolved(client: LocalClient, item: Item, known: dict[str, dict[str, Item]]) -> Item:
    place = place_of(item["id"])
    assert place is not None  # noqa: S101 - see ``_refers``
    try:
        if place[0] not in known:
            items = await items_of(client, await client.responses.turn(place[0]), encrypted=True)
            known[place[0]] = {each["id"]: each for each in items}
        return known[place[0]][item["id"]]
    except (NotFound, KeyError):
        if item["type"] == "reasoning":
            return item
        raise NotFound(f"input: Item with id {item['id'][:80]!r} not found.", hint="Send the item itself.") from None


async def items_of(client: LocalClient, turn: Turn, *, encrypted: bool = False) -> list[Item]:
    """Return all items of a turn: its input and its output."""
    echo = echo_of(turn) or {}
    noted = turn.metadata.get(ITEMS) if isinstance(turn.metadata, dict) else None
    asked = writing.input_items(turn.id, turn.user_message, echo.get(LAYOUT, noted))
    if turn.answer is None or turn.phase in UNFINISHED:
        return asked
    shown = writing.ResponseView(echo=echo, tools=ToolNames(echo.get("tools", ())), encrypted=encrypted)
    answered = await client.drop_in.answered(turn.id, reasoning=bool(turn.provider))
    return asked + writing.output_items(partly(answered, turn.model), shown)


routes = APIRouter(prefix=PREFIX, tags=["drop-in"], default_response_class=Response, route_class=RequestShape)

ResponseId = Annotated[str, Path(description="The id of a response, `resp_…`.")]
Include = Annotated[list[str] | None, Query(alias="include[]", description="`reasoning.encrypted_content`.")]
Order = Annotated[Literal["asc", "desc"], Query(description="The oldest first, or the newest.")]
After = Annotated[str | None, Query(description="The id of the item that a page begins after.")]
Limit = Annotated[int, Query(ge=1, le=100, description="How many items a page has.")]


@routes.post("/responses", responses=gives("A response.", stream=True), openapi_extra=TAKES)
async def create_response(request: Request, caller: Asking, user_id: NamedUser) -> Response:
    """Create a response: after a response, in a conversation, or in the thread that the input matches."""
    body = await body_of(request)
    asked = await _asked(request, caller, body, user_id)
    question = await checked_question(request, caller, asked.incoming, body, user_id)
    dialect = OpenAIResponses(writing.ResponseView(echo=asked.echo, tools=asked.tools, encrypted=asked.encrypted))
    if not asked.incoming.background or asked.incoming.stream:
        return noted(request, await answer(request, dialect, asked.incoming, question))
    turn, _ = await question.drop_in.begin(question.talk, question.asked)
    shown = writing.ResponseView(echo=asked.echo, tools=asked.tools)
    response = as_json(writing.shell(begun(turn, asked.incoming.model), shown, "queued"))
    response.headers.update(await headers_of(asked.incoming, question, turn))
    return noted(request, response)


@routes.get("/responses/{response_id}", responses=gives("A response.", stream=True))
async def get_response(
    request: Request,
    act: ActingInV1,
    response_id: ResponseId,
    include: Include = None,
    stream: Annotated[bool, Query(description="As a stream of events.")] = False,
    starting_after: Annotated[int, Query(description="The number of the last event that was received.")] = -1,
) -> Response:
    """Return the current state of a response, or stream its events from the start or after an event number."""
    found = await act.client.responses.get(response_id)
    shown = _shown(found.echo, include or ())
    if not stream:
        return as_json(await _written(act, found, shown))
    app_state, incoming = app_state_of(request), IncomingRequest(model=_model(found), messages=())
    question = MappedRequest(talk=SentConversation(messages=()), acting=act, asked=SendOptions())
    close = app_state.streams.take(act.owner)
    content = pieces(app_state, OpenAIResponses(shown, after=starting_after), incoming, question, found.turn)
    return EventStream(content, close=close, stall_seconds=app_state.server.stall_seconds)


@routes.delete("/responses/{response_id}", responses=gives("That it is deleted."))
async def delete_response(act: ActingInV1, response_id: ResponseId) -> Response:
    """Delete a response; its text stays if its thread has other turns."""
    await act.client.responses.delete(response_id)
    return as_json({"id": response_id, "object": "response", "deleted": True})


@routes.post("/responses/{response_id}/cancel", responses=gives("The response that was cancelled."))
async def cancel_response(act: ActingInV1, response_id: ResponseId) -> Response:
    """Stop a response; a finished one does not change."""
    found = await act.client.responses.get(response_id)
    await act.client.conversations.cancel(found.turn.id)
    found = await act.client.responses.get(response_id)
    return as_json(await _written(act, found, _shown(found.echo)))


@routes.get("/responses/{response_id}/input_items", responses=gives("The input items of a response."))
async def list_input_items(
    act: ActingInV1, response_id: ResponseId, order: Order = "desc", after: After = None, limit: Limit = 20
) -> Response:
    """List the items of a request."""
    found = await act.client.responses.get(response_id)
    items = writing.input_items(found.turn.id, found.turn.user_message, found.echo.get(reading.LAYOUT))
    return as_json(page(items, order, after, limit))


def page(items: Sequence[Item], order: str, after: str | None, limit: int) -> Json:
    """Return a page of a list of items."""
    ordered = list(items) if order == "asc" else list(reversed(items))
    if after is not None:
        places = [place for place, item in enumerate(ordered) if item["id"] == after]
        if not places:
            raise NotFound(f"after: Item with id {after[:80]!r} not found.", hint="")
        ordered = ordered[places[0] + 1 :]
    data = ordered[:limit]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(ordered) > limit,
    }


async def _asked(request: Request, caller: Caller, body: bytes, user_id: str | None) -> reading.ResponsesRequest:
    """Parse a request and resolve its references."""
    given = body_object(body)
    act, _ = resolve_owner(request, caller, reading.end_user(given), user_id)
    given["input"] = await with_items(act.client, given.get("input"))
    if len(body) < LARGE:
        asked = reading.read_object(given)
    else:
        asked = await asyncio.to_thread(reading.read_object, given)
    return reading.following(asked, await _developer(act, asked.incoming))


async def _developer(act: Acting, incoming: IncomingRequest) -> Sequence[Json]:
    """Return the first system and developer items of the response or conversation that a request continues."""
    turn: Turn | None = None
    if incoming.follows is not None:
        response_id = id_of_response(incoming.follows)
        try:
            turn = (await act.client.responses.get(response_id)).turn
        except NotFound:
            raise reading.no_such_response(response_id) from None
    elif incoming.appends and incoming.thread_id is not None:
        try:
            session = await act.client.kept_conversations.get(incoming.thread_id)
        except NotFound as error:
            raise NotFound(f"conversation: {error.message}", hint="") from None
        turn = await act.client.kept_conversations.last_turn(session)
    echo = None if turn is None else echo_of(turn)
    return () if echo is None else echo.get(reading.DEVELOPER, ())


def _shown(echo: dict[str, Json], include: Sequence[str] = ()) -> writing.ResponseView:
    return writing.ResponseView(
        echo=echo, tools=ToolNames(echo.get("tools", ())), encrypted=reading.ENCRYPTED in include
    )


def _model(found: StoredResponse) -> str:
    return str(found.echo.get("model") or found.turn.model)


async def _written(act: Acting, found: StoredResponse, shown: writing.ResponseView) -> Json:
    """Return the current state of a response."""
    turn = found.turn
    if turn.phase in UNFINISHED:
        status = "queued" if turn.phase is Phase.ACCEPTED else "in_progress"
        return writing.shell(begun(turn, _model(found)), shown, status)
    answered = await act.client.drop_in.answered(turn.id, reasoning=True)
    try:
        return writing.ended(answer_view(answered, _model(found)), shown)
    except UnansweredRequest as error:
        said = vendor_error_fields(RESPONSES, error.problem, error.upstream)
        return writing.failed(partly(answered, _model(found)), shown, error.problem, said)


conversation_router = APIRouter(
    prefix=PREFIX, tags=["drop-in"], default_response_class=Response, route_class=RequestShape
)

T = TypeVar("T")
ConversationId = Annotated[str, Path(description="The id of a conversation, `conv_…`, or of a thread.")]
ItemId = Annotated[str, Path(description="The id of an item.")]


@conversation_router.post("/conversations", responses=gives("The conversation."), openapi_extra=TAKES)
async def create_conversation(request: Request, caller: Asking, user_id: NamedUser) -> Response:
    """Create a conversation, optionally with items; `metadata.user_id` names the end user."""
    given = await _given(request)
    metadata = _read(lambda: optional(given, "metadata", a_metadata)) or {}
    act, _ = resolve_owner(request, caller, metadata.get("user_id", ""), user_id)
    said = await _said(act.client, given.get("items"))
    session = await act.client.kept_conversations.create(metadata)
    await _add(act.client, session, said)
    return as_json(_conversation(session))


@conversation_router.get("/conversations/{conversation_id}", responses=gives("The conversation."))
async def get_conversation(act: ActingInV1, conversation_id: ConversationId) -> Response:
    """Read a conversation."""
    return as_json(_conversation(await act.client.kept_conversations.get(conversation_id)))


@conversation_router.post("/conversations/{conversation_id}", responses=gives("The conversation."), openapi_extra=TAKES)
async def update_conversation(request: Request, act: ActingInV1, conversation_id: ConversationId) -> Response:
    """Replace the metadata of a conversation."""
    given, conversations = await _given(request), act.client.kept_conversations
    metadata = _read(lambda: optional(given, "metadata", a_metadata)) or {}
    session = await conversations.get(conversation_id)
    return as_json(_conversation(await conversations.note(session, metadata)))


@conversation_router.delete("/conversations/{conversation_id}", responses=gives("That it is deleted."))
async def delete_conversation(act: ActingInV1, conversation_id: ConversationId) -> Response:
    """Delete a conversation with everything derived from it."""
    session = await act.client.kept_conversations.get(conversation_id)
    await act.client.kept_conversations.delete(session)
    return as_json({"id": id_of_conversation(session.id), "object": "conversation.deleted", "deleted": True})


@conversation_router.get("/conversations/{conversation_id}/items", responses=gives("A page of items."))
async def list_items(
    act: ActingInV1,
    conversation_id: ConversationId,
    order: Order = "desc",
    after: After = None,
    limit: Limit = 20,
    include: Include = None,
) -> Response:
    """List the items of a conversation."""
    session = await act.client.kept_conversations.get(conversation_id)
    start = None if after is None else await _turn_of(act, session, after)
    items: list[Item] = []
    async for turn in _walk(act.client, session, order, start, limit):
        found = await items_of(act.client, turn, encrypted=ENCRYPTED in (include or ()))
        items += found if order == "asc" else reversed(found)
        if len(items) > limit + (0 if start is None else len(found)):
            break
    return as_json(page(items, "asc", after, limit))


@conversation_router.post(
    "/conversations/{conversation_id}/items", responses=gives("The new items."), openapi_extra=TAKES
)
async def add_items(request: Request, act: ActingInV1, conversation_id: ConversationId) -> Response:
    """Append items to a conversation without an answer."""
    given = await _given(request)
    session = await act.client.kept_conversations.get(conversation_id)
    said = await _said(act.client, given.get("items") or None, needed=True)
    turns = await _add(act.client, session, said)
    items = [item for turn in turns for item in await items_of(act.client, turn)]
    return as_json(page(items, "asc", None, len(items) or 1))


@conversation_router.get("/conversations/{conversation_id}/items/{item_id}", responses=gives("The item."))
async def get_item(
    act: ActingInV1, conversation_id: ConversationId, item_id: ItemId, include: Include = None
) -> Response:
    """Read an item of a conversation."""
    session = await act.client.kept_conversations.get(conversation_id)
    turn = await _turn_of(act, session, item_id)
    items = await items_of(act.client, turn, encrypted=ENCRYPTED in (include or ()))
    return as_json(next(item for item in items if item["id"] == item_id))


@conversation_router.delete("/conversations/{conversation_id}/items/{item_id}", responses=gives("The conversation."))
async def delete_item(act: ActingInV1, conversation_id: ConversationId, item_id: ItemId) -> Response:
    """Delete an item: continue on a branch without it, where later items have new ids."""
    conversations = act.client.kept_conversations
    session = await conversations.get(conversation_id)
    turn = await _turn_of(act, session, item_id)
    kept: list[Item] = []
    async for later in _walk(act.client, session, "asc", turn, 100):
        kept += [item for item in await items_of(act.client, later, encrypted=True) if item["id"] != item_id]
    said = await _said(act.client, kept or None)
    session = await conversations.remove_from(session, turn)
    await _add(act.client, session, said)
    return as_json(_conversation(session))


async def _given(request: Request) -> dict[str, Json]:
    body = await body_of(request)
    return body_object(body) if body.strip() else {}


def _read(reading: Callable[[], T]) -> T:
    try:
        return reading()
    except InvalidValue as wrong:
        raise wrong.error() from None


async def _said(client: LocalClient, given: Json, *, needed: bool = False) -> InputItems:
    """Parse items; raise ``InvalidInput`` with the position and the error."""
    items = InputItems(in_place_from=0)
    if given is None and not needed:
        return items
    resolved = {"items": await with_items(client, given)}
    _read(lambda: field(resolved, "items", lambda value: each(value, items.take)))
    return items


async def _add(client: LocalClient, session: Session, items: InputItems) -> tuple[Turn, ...]:
    """Record items: a message with its answer is one turn, which keeps its items as they were sent."""
    said: list[tuple[Message, Message | None, Json, list[Message]]] = []
    for message, layout, sent in items.rows():
        if message.role == "assistant" and said and said[-1][0].role == "user" and said[-1][1] is None:
            asked, _, asked_layout, asked_sent = said.pop()
            said.append((asked, message, asked_layout, [*asked_sent, *sent]))
        else:
            said.append((message, None, layout, sent))
    exchanges = []
    for message, reply, layout, sent in said:
        sides = (message,) if reply is None else (message, reply)
        metadata = {ITEMS: layout, **as_sent_field({WHOLE: sent}, {WHOLE: sides})}
        exchanges.append(Exchange(message=message, answer=reply, metadata=metadata))
    return await client.kept_conversations.record(session, exchanges) if exchanges else ()


async def _turn_of(act: Acting, session: Session, item_id: str) -> Turn:
    """Return the turn of an item of the conversation."""
    missing = NotFound(f"Item with id {item_id[:80]!r} not found.", hint="")
    place = place_of(item_id)
    if place is None:
        raise missing
    try:
        turn = await act.client.responses.turn(place[0])
    except NotFound:
        raise missing from None
    if not await act.client.kept_conversations.holds(session, turn):
        raise missing
    if item_id not in {item["id"] for item in await items_of(act.client, turn)}:
        raise missing
    return turn


async def _walk(
    client: LocalClient, session: Session, order: str, start: Turn | None, limit: int
) -> AsyncIterator[Turn]:
    """Read the turns of a conversation from ``start`` on, page by page."""
    conversations = client.kept_conversations
    if order == "desc":
        before = None if start is None else start.turn_seq + 1
        while turns := await conversations.turns(session, before=before, limit=limit):
            for turn in reversed(turns):
                yield turn
            before = turns[0].turn_seq
        return
    seq = 1 if start is None else start.turn_seq
    newest = await conversations.last_turn(session)
    while newest is not None and seq <= newest.turn_seq:
        for turn in await conversations.turns(session, before=seq + limit, limit=limit):
            if turn.turn_seq >= seq:
                yield turn
        seq += limit


def _conversation(session: Session) -> Json:
    return {
        "id": id_of_conversation(session.id),
        "object": "conversation",
        "created_at": int(session.created_at.timestamp()),
        "metadata": session.metadata.get(CONVERSATION) or {},
    }
