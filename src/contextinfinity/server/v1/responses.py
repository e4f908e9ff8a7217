"""Routes: /v1/responses, compatible with OpenAI."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from contextinfinity.client.drop_in import SendOptions, SentConversation, StoredResponse, echo_of
from contextinfinity.dialects.contract import IncomingRequest
from contextinfinity.dialects.openai_chat.value_checks import body_object
from contextinfinity.dialects.openai_responses import OpenAIResponses, reading, writing
from contextinfinity.dialects.openai_responses.items import Item, ToolNames
from contextinfinity.dialects.openai_responses.items import response_id as id_of_response
from contextinfinity.domain.message import Json
from contextinfinity.domain.turn import UNFINISHED, Phase, Turn
from contextinfinity.errors import NotFound
from contextinfinity.server.app_state import app_state_of
from contextinfinity.server.auth import Acting, Asking, Caller
from contextinfinity.server.streams import EventStream
from contextinfinity.server.v1.item_references import with_items
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
from contextinfinity.server.v1.routes import LARGE, TAKES, as_json, body_of, checked_question, gives, noted
from contextinfinity.server.v1.shapes import RequestShape
from contextinfinity.server.v1.vendors import PREFIX, RESPONSES, vendor_error_fields

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
