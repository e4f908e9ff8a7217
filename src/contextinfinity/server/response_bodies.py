"""Response bodies, and their schemas in the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, get_args

import msgspec
from fastapi import Request
from msgspec import Struct
from starlette.responses import Response

from contextinfinity.client.contract import Explained, Quoted
from contextinfinity.client.results import (
    Committed,
    Pins,
    ShownBranch,
    ShownFold,
    ShownMemory,
    ShownThread,
    TurnAccount,
)
from contextinfinity.domain.events import CallStreamed, CompactionEvent, Event, FinishedTurn, Reasoned
from contextinfinity.domain.plan import Intent
from contextinfinity.domain.search import Hits
from contextinfinity.domain.session import Deleted
from contextinfinity.domain.turn import Phase, Problem, TurnOutcome, Usage, UserSpending
from contextinfinity.exchange.import_progress import Imported
from contextinfinity.memory.memory_findings import MemoryFinding
from contextinfinity.server import problems, streams
from contextinfinity.server.request_bodies import BODIES, JSON

REFERENCE = "#/components/schemas/{name}"


class MadeThread(Struct, frozen=True, kw_only=True):
    """A conversation that was created."""

    thread_id: str
    branch_id: str


class ThreadPage(Struct, frozen=True, kw_only=True):
    """Conversations, most recently used first; ``next`` is the ``after`` of the next page, if there is one."""

    threads: tuple[ShownThread, ...]
    next: str | None


class ShownMessage(Struct, frozen=True, kw_only=True):
    """One message of a turn. A pending or missing answer has no text; ``outcome`` says why."""

    role: str
    content: str
    turn_id: str
    turn_seq: int
    branch_id: str
    created_at: Any
    phase: Phase
    outcome: TurnOutcome | None
    model: str | None = None
    usage: Usage | None = None
    error: Problem | None = None
    latency_ms: dict[str, float] | None = None
    images: int = 0
    tool_calls: int = 0


class MessagePage(Struct, frozen=True, kw_only=True):
    """Messages, oldest first; ``before`` selects the page of earlier messages, if there are any."""

    thread_id: str
    branch_id: str
    messages: tuple[ShownMessage, ...]
    before: str | None


class BranchList(Struct, frozen=True, kw_only=True):
    """The branches of a conversation, oldest first."""

    thread_id: str
    branches: tuple[ShownBranch, ...]


class ChatFacts(Struct, frozen=True, kw_only=True):
    """Facts about a chat answer. ``candidates``: the choices of a clarifying question.

    ``turns_loaded``: how many of the turns before it were read, ``retention.history_limit`` at most. ``degraded``: the
    ledger is unavailable, and the answer is in the spool, without a ``turn_number``.
    """

    message_type: Literal["answer", "clarification", "error"]
    outcome: TurnOutcome
    intent: Intent
    confidence: float
    result_count: int
    turns_loaded: int
    turn_id: str
    turn_number: int | None
    model: str
    created_at: datetime
    candidates: tuple[str, ...] = ()
    role: str | None = None
    degraded: bool = False


class ChatAnswer(Struct, frozen=True, kw_only=True):
    """A chat answer. ``intent``: the intent of the query; ``confidence``: how often such a label is right.

    ``data``: the retrieved passages that the prompt contained. ``error``: why the answer failed, if it did.
    """

    query: str
    message: str
    data: tuple[Quoted, ...]
    intent: Intent
    confidence: float
    session_id: str
    metadata: ChatFacts
    error: str | None = None


class MemoryPage(Struct, frozen=True, kw_only=True):
    """Memories, newest first; ``next`` is the ``after`` of the next page, if there is one."""

    memories: tuple[ShownMemory, ...]
    next: str | None = None


class Findings(Struct, frozen=True, kw_only=True):
    """Findings of a memory audit."""

    findings: tuple[MemoryFinding, ...]


class Forgotten(Struct, frozen=True, kw_only=True):
    """The id of a deleted memory."""

    forgotten: str


class ModelNames(Struct, frozen=True, kw_only=True):
    """The available models, the default first."""

    models: tuple[str, ...]


class RenderedTexts(Struct, frozen=True, kw_only=True):
    """Texts as sanitised HTML, in the order in which they were sent."""

    html: tuple[str, ...]


class HealthReport(Struct, frozen=True, kw_only=True):
    """The health of the server."""

    status: str
    reasons: tuple[str, ...]
    version: str


ANSWERS = (
    *(MadeThread, ThreadPage, ShownThread, MessagePage, FinishedTurn, TurnAccount, Explained, BranchList, ShownBranch),
    *(
        Pins,
        ShownFold,
        Committed,
        Hits,
        Deleted,
        ChatAnswer,
        MemoryPage,
        ShownMemory,
        Findings,
        Forgotten,
        ModelNames,
        UserSpending,
        RenderedTexts,
        HealthReport,
        Imported,
    ),
)

ALWAYS = (400, 401, 403, 422, 429, 431, 503)
"""Error statuses that every authenticated route may return."""
WITH_BODY = (408, 413, 415)
MEANINGS = {
    400: "The request is malformed or for another host.",
    401: "A token is needed.",
    403: "The token belongs to another user.",
    404: "It does not exist, or it belongs to another user.",
    408: "The request took too long to arrive.",
    409: "Conflict with the current state.",
    413: "Too large.",
    415: "Not sent as JSON.",
    422: "A value is not valid.",
    429: "Too many requests or streams at once.",
    431: "The headers are too large.",
    503: "The ledger or a model is not available, or the server is shutting down.",
}


def answer(value: object, status: int = 200) -> Response:
    """Write a value."""
    return Response(msgspec.json.encode(value), status, media_type=JSON)


def note(request: Request, **fields: object) -> None:
    """Add fields to the request's log line."""
    request.scope["state"]["noted"].update(fields)


def gives(kind: type[Struct], *others: int) -> dict[int | str, Any]:
    """Describe a route's responses: a value, or a problem with one of these statuses."""
    schema = {"$ref": REFERENCE.format(name=kind.__name__)}
    documented: dict[int | str, Any] = {200: {"description": summary_of(kind), "content": {JSON: {"schema": schema}}}}
    return documented | refusals(*ALWAYS, *others)


def gives_events(*others: int) -> dict[int | str, Any]:
    """Describe a route that answers with a stream."""
    kinds = (kind for kind in (*get_args(Event), *get_args(CompactionEvent)) if kind not in (Reasoned, CallStreamed))
    names = [str(kind.__struct_config__.tag) for kind in kinds]
    fields = {"event": {"type": "string", "enum": names}, "data": {"type": "string", "description": "JSON"}}
    fields |= {"id": {"type": "string"}, "retry": {"type": "integer"}}
    schema = {"type": "object", "properties": fields, "description": "One event."}
    documented: dict[int | str, Any] = {
        200: {"description": "A stream of server-sent events.", "content": {streams.MEDIA_TYPE: {"schema": schema}}}
    }
    return documented | refusals(*ALWAYS, *others)


def refusals(*statuses: int) -> dict[int | str, Any]:
    """Describe problem documents of these statuses."""
    content = {problems.MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(name="ProblemDocument")}}}
    return {status: {"description": MEANINGS[status], "content": content} for status in sorted(set(statuses))}


def takes(kind: type[Struct], *, required: bool = True) -> dict[str, Any]:
    """Describe the body of a route."""
    schema = {"$ref": REFERENCE.format(name=kind.__name__)}
    return {"requestBody": {"required": required, "content": {JSON: {"schema": schema}}}}


def summary_of(kind: type[Struct]) -> str:
    """Return the first sentence of a type's docstring."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


def schemas() -> dict[str, Any]:
    """Return the schemas of all request and response bodies, by name."""
    kinds = (*BODIES, *ANSWERS)
    _, components = msgspec.json.schema_components((*kinds, problems.ProblemDocument), ref_template=REFERENCE)
    return {name: _plain(schema) for name, schema in components.items()}


def _plain(schema: Any) -> Any:
    """Describe a fixed-length list of one type in a form that all readers of OpenAPI support."""
    if isinstance(schema, list):
        return [_plain(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    documented = {name: _plain(inner) for name, inner in schema.items()}
    each = documented.get("prefixItems")
    if not each or any(one != each[0] for one in each):
        return documented
    return {name: inner for name, inner in documented.items() if name != "prefixItems"} | {"items": each[0]}
