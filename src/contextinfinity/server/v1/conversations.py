"""Routes: /v1/conversations, compatible with OpenAI. A conversation is a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from contextinfinity.client.drop_in import CONVERSATION
from contextinfinity.client.local import LocalClient
from contextinfinity.dialects.openai_chat.value_checks import InvalidValue, body_object, each, field, optional
from contextinfinity.dialects.openai_responses.items import InputItems, Item, place_of
from contextinfinity.dialects.openai_responses.items import conversation_id as id_of_conversation
from contextinfinity.dialects.openai_responses.reading import ENCRYPTED, a_metadata
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.session import Session
from contextinfinity.domain.turn import Exchange, Turn
from contextinfinity.errors import NotFound
from contextinfinity.prompt.prompt_sections import WHOLE, as_sent_field
from contextinfinity.server.auth import Acting, Asking
from contextinfinity.server.v1.item_references import ITEMS, items_of, with_items
from contextinfinity.server.v1.request_mapping import ActingInV1, NamedUser, resolve_owner
from contextinfinity.server.v1.responses import After, Include, Limit, Order, page
from contextinfinity.server.v1.routes import TAKES, as_json, body_of, gives
from contextinfinity.server.v1.shapes import RequestShape
from contextinfinity.server.v1.vendors import PREFIX

routes = APIRouter(prefix=PREFIX, tags=["drop-in"], default_response_class=Response, route_class=RequestShape)

T = TypeVar("T")
ConversationId = Annotated[str, Path(description="The id of a conversation, `conv_…`, or of a thread.")]
ItemId = Annotated[str, Path(description="The id of an item.")]


@routes.post("/conversations", responses=gives("The conversation."), openapi_extra=TAKES)
async def create_conversation(request: Request, caller: Asking, user_id: NamedUser) -> Response:
    """Create a conversation, optionally with items; `metadata.user_id` names the end user."""
    given = await _given(request)
    metadata = _read(lambda: optional(given, "metadata", a_metadata)) or {}
    act, _ = resolve_owner(request, caller, metadata.get("user_id", ""), user_id)
    said = await _said(act.client, given.get("items"))
    session = await act.client.kept_conversations.create(metadata)
    await _add(act.client, session, said)
    return as_json(_written(session))


@routes.get("/conversations/{conversation_id}", responses=gives("The conversation."))
async def get_conversation(act: ActingInV1, conversation_id: ConversationId) -> Response:
    """Read a conversation."""
    return as_json(_written(await act.client.kept_conversations.get(conversation_id)))


@routes.post("/conversations/{conversation_id}", responses=gives("The conversation."), openapi_extra=TAKES)
async def update_conversation(request: Request, act: ActingInV1, conversation_id: ConversationId) -> Response:
    """Replace the metadata of a conversation."""
    given, conversations = await _given(request), act.client.kept_conversations
    metadata = _read(lambda: optional(given, "metadata", a_metadata)) or {}
    session = await conversations.get(conversation_id)
    return as_json(_written(await conversations.note(session, metadata)))


@routes.delete("/conversations/{conversation_id}", responses=gives("That it is deleted."))
async def delete_conversation(act: ActingInV1, conversation_id: ConversationId) -> Response:
    """Delete a conversation with everything derived from it."""
    session = await act.client.kept_conversations.get(conversation_id)
    await act.client.kept_conversations.delete(session)
    return as_json({"id": id_of_conversation(session.id), "object": "conversation.deleted", "deleted": True})


@routes.get("/conversations/{conversation_id}/items", responses=gives("A page of items."))
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


@routes.post("/conversations/{conversation_id}/items", responses=gives("The new items."), openapi_extra=TAKES)
async def add_items(request: Request, act: ActingInV1, conversation_id: ConversationId) -> Response:
    """Append items to a conversation without an answer."""
    given = await _given(request)
    session = await act.client.kept_conversations.get(conversation_id)
    said = await _said(act.client, given.get("items") or None, needed=True)
    turns = await _add(act.client, session, said)
    items = [item for turn in turns for item in await items_of(act.client, turn)]
    return as_json(page(items, "asc", None, len(items) or 1))


@routes.get("/conversations/{conversation_id}/items/{item_id}", responses=gives("The item."))
async def get_item(
    act: ActingInV1, conversation_id: ConversationId, item_id: ItemId, include: Include = None
) -> Response:
    """Read an item of a conversation."""
    session = await act.client.kept_conversations.get(conversation_id)
    turn = await _turn_of(act, session, item_id)
    items = await items_of(act.client, turn, encrypted=ENCRYPTED in (include or ()))
    return as_json(next(item for item in items if item["id"] == item_id))


@routes.delete("/conversations/{conversation_id}/items/{item_id}", responses=gives("The conversation."))
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
    return as_json(_written(session))


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
    for message, answer, layout, sent in said:
        sides = (message,) if answer is None else (message, answer)
        metadata = {ITEMS: layout, **as_sent_field({WHOLE: sent}, {WHOLE: sides})}
        exchanges.append(Exchange(message=message, answer=answer, metadata=metadata))
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


def _written(session: Session) -> Json:
    return {
        "id": id_of_conversation(session.id),
        "object": "conversation",
        "created_at": int(session.created_at.timestamp()),
        "metadata": session.metadata.get(CONVERSATION) or {},
    }
