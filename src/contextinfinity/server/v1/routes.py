"""Routes: /v1, compatible with OpenAI and Anthropic, with errors in the format of the client's vendor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from contextinfinity.dialects.contract import Dialect, IncomingRequest
from contextinfinity.dialects.openai_chat import read_embeddings, write_embeddings
from contextinfinity.dialects.openai_completions import OpenAICompletions
from contextinfinity.domain.message import Json, say
from contextinfinity.domain.turn import Problem
from contextinfinity.errors import ContextInfinityError, TooLarge
from contextinfinity.server.app_state import app_state_of
from contextinfinity.server.auth import Asking, Caller
from contextinfinity.server.bodies import check_media_type, note
from contextinfinity.server.problems import headers_of, problem_of
from contextinfinity.server.v1.request_mapping import ActingInV1, MappedRequest, NamedUser, question_of
from contextinfinity.server.v1.response_mapping import UnansweredRequest, answer
from contextinfinity.server.v1.vendors import ANTHROPIC, OPENAI, PREFIX, dialect_of, refusal

log = logging.getLogger(__name__)

UNFORESEEN = Problem(code="error", message="An unexpected error occurred.", hint="See the server's log.")


class RequestShape(APIRoute):
    """A route whose errors have the vendor's format."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the route and its dependencies."""
        handle = super().get_route_handler()

        async def shaped(request: Request) -> Response:
            try:
                return await handle(request)
            except UnansweredRequest as error:
                return refusal(request.scope, error.problem, error.status, error.headers, error.upstream)
            except RequestValidationError:
                return refusal(request.scope, Problem(code="invalid_input", message="A parameter is not valid."), 400)
            except ContextInfinityError as error:
                known_problem = problem_of(error)
                status = 400 if known_problem.status == 422 else known_problem.status  # no vendor has such a status
                problem = Problem(code=known_problem.code, message=known_problem.detail, hint=known_problem.hint)
                return refusal(request.scope, problem, status, headers_of(error))
            except ClientDisconnect:  # the client is gone, which is not a server error
                raise
            except Exception:
                log.exception("a request for %s failed", request.url.path)
                return refusal(request.scope, UNFORESEEN, 500)

        return shaped


routes = APIRouter(prefix=PREFIX, tags=["drop-in"], default_response_class=Response, route_class=RequestShape)

STATUSES = {
    400: "The request is not valid.",
    401: "A token is needed.",
    403: "It belongs to another user.",
    404: "There is no such model or thread.",
    408: "The request took too long to arrive.",
    409: "Conflict with the current state.",
    413: "Too large.",
    415: "Not sent as JSON.",
    429: "Too many at once.",
    500: "An unexpected error occurred.",
    502: "The model that was asked failed.",
    503: "The model or the ledger is not available now.",
    504: "The model took too long.",
}


def gives(what: str, *, stream: bool = False) -> dict[int | str, dict[str, Any]]:
    """Describe a route's responses in the vendor's format."""
    content: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
    if stream:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    documented: dict[int | str, dict[str, Any]] = {200: {"description": what, "content": content}}
    error = {"application/json": {"schema": {"type": "object"}}}
    return documented | {status: {"description": said, "content": error} for status, said in STATUSES.items()}


LARGE = 2**21
"""In bytes; larger bodies are parsed in a thread, so that they do not block the event loop."""
TAKES = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}


@routes.post("/chat/completions", responses=gives("A chat completion.", stream=True), openapi_extra=TAKES)
async def complete(request: Request, caller: Asking, user_id: NamedUser) -> Response:
    """Answer a chat completion; the thread is found by the messages that the client resends."""
    return await _answered(request, caller, OPENAI, user_id)


@routes.post("/completions", responses=gives("A completion.", stream=True), openapi_extra=TAKES)
async def complete_text(request: Request, caller: Asking, user_id: NamedUser) -> Response:
    """Answer a legacy completion; each prompt is a user message."""
    return await _answered(request, caller, OpenAICompletions(), user_id)


@routes.post("/messages", responses=gives("A message.", stream=True), openapi_extra=TAKES)
async def create_message(request: Request, caller: Asking, user_id: NamedUser) -> Response:
    """Answer a request to the Messages API; the thread is found by the messages that the client resends."""
    return await _answered(request, caller, ANTHROPIC, user_id)


@routes.post("/messages/count_tokens", responses=gives("How many tokens a request has."), openapi_extra=TAKES)
async def count_tokens(request: Request, act: ActingInV1) -> Response:
    """Count the tokens of a request as it was sent; the prompt may contain less."""
    drop_in, incoming = act.client.drop_in, ANTHROPIC.read_to_count(await body_of(request))
    model = drop_in.model_named(incoming.model)
    tokens = drop_in.count(incoming.messages, incoming.system, incoming.tools, model)
    return as_json(ANTHROPIC.counted(tokens))


@routes.get("/models", responses=gives("The models that can be asked for."))
async def list_models(request: Request, act: ActingInV1) -> Response:
    """List the models; `auto` lets the router choose."""
    return as_json(dialect_of(request.scope).models(act.client.drop_in.models()))


@routes.get("/models/{name:path}", responses=gives("A model."))
async def get_model(request: Request, act: ActingInV1, name: Annotated[str, Path(description="Its name.")]) -> Response:
    """Return one model."""
    act.client.drop_in.model_named(name)
    return as_json(ANTHROPIC.model(name) if dialect_of(request.scope) is ANTHROPIC else OPENAI.model(name))


@routes.post("/embeddings", responses=gives("Vectors of texts."), openapi_extra=TAKES)
async def embed(request: Request, act: ActingInV1) -> Response:
    """Embed texts with the embedder of this server, whatever model is named."""
    drop_in, asked = act.client.drop_in, read_embeddings(await body_of(request))
    _, rows = await drop_in.embed(asked.texts)
    tokens = drop_in.count(tuple(say("user", text) for text in asked.texts), "", (), None)
    return as_json(write_embeddings(asked, rows, tokens))


async def body_of(request: Request) -> bytes:
    """Return the body, which must be sent as JSON."""
    check_media_type(request)
    return await request.body()


async def _answered(request: Request, caller: Caller, dialect: Dialect, user_id: str | None) -> Response:
    body = await body_of(request)
    incoming = dialect.read(body) if len(body) < LARGE else await asyncio.to_thread(dialect.read, body)
    question = await checked_question(request, caller, incoming, body, user_id)
    return noted(request, await answer(request, dialect, incoming, question))


async def checked_question(
    request: Request, caller: Caller, incoming: IncomingRequest, body: bytes, user_id: str | None
) -> MappedRequest:
    """Map a parsed request; raise ``TooLarge`` if its message is longer than the settings allow."""
    said, most = sum(len(message.rendered_text) for message in incoming.messages[-1:]), app_state_of(request).server
    if said > most.max_message_chars:
        raise TooLarge(f"The message has {said:,} characters; {most.max_message_chars:,} are the most.")
    return await question_of(request, caller, incoming, body, user_id)


def noted(request: Request, response: Response) -> Response:
    """Add the thread and turn of an answer to the request's log line."""
    note(request, thread_id=response.headers["x-thread-id"], turn_id=response.headers["x-turn-id"])
    return response


def as_json(value: Json) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(value), media_type="application/json")
