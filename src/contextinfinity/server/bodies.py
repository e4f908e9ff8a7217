"""Request bodies: JSON decoded into frozen values.

Unknown fields are rejected, so that a misspelt one is noticed. Text may contain anything except NUL and lone
surrogates, and is not changed.

Response bodies, and their schemas in the OpenAPI document.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from fastapi import Request
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from contextinfinity.client.contract import Explained, Quoted
from contextinfinity.client.results import (
    BranchList,
    Committed,
    Findings,
    Forgotten,
    MadeThread,
    MemoryPage,
    MessagePage,
    ModelNames,
    Pins,
    ShownBranch,
    ShownFold,
    ShownMemory,
    ShownThread,
    ThreadPage,
    TurnAccount,
)
from contextinfinity.domain.events import CallStreamed, CompactionEvent, Event, FinishedTurn, Reasoned
from contextinfinity.domain.message import ContentBlock, ImageBlock, TextBlock, ToolResultBlock
from contextinfinity.domain.plan import Intent
from contextinfinity.domain.search import Hits
from contextinfinity.domain.session import Deleted
from contextinfinity.domain.turn import TurnOutcome, UserSpending
from contextinfinity.domain.wire import has_nul, unreadable
from contextinfinity.errors import InvalidInput, TooLarge, WrongForm
from contextinfinity.exchange.import_progress import Imported
from contextinfinity.server import problems, streams

B = TypeVar("B", bound=Struct)

JSON = "application/json"
_ADDRESS = re.compile(r"https?://[^\s\x00-\x1f\x7f]{1,8000}")
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


Name = Annotated[str, Meta(min_length=1, max_length=128)]
Title = Annotated[str, Meta(max_length=1000)]
Number = Annotated[int, Meta(ge=0, le=2**53)]


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request. ``user_id``: the user it acts for; by default the one in the query, else the token's."""

    user_id: Name | None = None


class NewThread(Body, frozen=True, kw_only=True):
    """A new conversation. ``ttl_hours``: the time to live of each turn; by default unlimited."""

    title: Title | None = None
    external_id: Name | None = None
    """The caller's own id of the conversation."""
    ttl_hours: Annotated[float, Meta(gt=0, le=876_000)] | None = None
    system: str | None = None


class ThreadChange(Body, frozen=True, kw_only=True):
    """Changes to a conversation: its title, and the time to live of its turns; ``null`` removes them."""

    title: Title | UnsetType | None = UNSET
    ttl_hours: Annotated[float, Meta(gt=0, le=876_000)] | UnsetType | None = UNSET


class NewMessage(Body, frozen=True, kw_only=True):
    """A new message: a text, or blocks of text, images and results of tools that the caller ran."""

    content: str | tuple[TextBlock | ImageBlock | ToolResultBlock, ...]
    branch_id: str | None = None
    model: str | None = None
    use_memory: bool = True
    use_query_rewriter: bool = True
    may_ask_back: bool = True
    """Whether the answer may be a clarifying question."""
    attach: tuple[str, ...] = ()
    """Ids of chunks that the prompt must contain."""
    retry_of: str | None = None
    """The failed turn that this message retries."""


class ChatQuery(Body, frozen=True, kw_only=True):
    """A chat query. A ``session_id`` that is not a UUID is replaced; ``role``: the role of the user."""

    query: str
    user_id: Annotated[str, Meta(max_length=128)] | None = None  # may be empty, which names no user
    role: Annotated[str, Meta(max_length=128)] | None = None
    session_id: str | None = None


class NewMemoryBody(Body, frozen=True, kw_only=True):
    """A fact to remember. Tags: ``user:ID`` names its user, ``thread:ID`` limits it to one conversation."""

    content: str
    tags: Annotated[tuple[Annotated[str, Meta(max_length=200)], ...], Meta(max_length=8)] = ()


class MemoryChange(Body, frozen=True, kw_only=True):
    """The new text of a memory."""

    content: str


class ActiveBranch(Body, frozen=True, kw_only=True):
    """The branch to activate."""

    active: str


class ForkBody(Body, frozen=True, kw_only=True):
    """Where a new branch starts: after turn ``at``, or from state number ``state``; by default at the end."""

    at: Number | None = None
    state: Number | None = None
    branch_id: str | None = None


class RollbackBody(Body, frozen=True, kw_only=True):
    """Where to go back to: after turn ``to``, or to state number ``state``."""

    to: Number | None = None
    state: Number | None = None
    branch_id: str | None = None


class NewPin(Body, frozen=True, kw_only=True):
    """A fact that every prompt must contain."""

    fact: str
    branch_id: str | None = None


class FoldBody(Body, frozen=True, kw_only=True):
    """A fold; ``preview``: only show what it would do."""

    preview: bool = False
    branch_id: str | None = None


class Cancel(Body, frozen=True, kw_only=True):
    """A request to cancel a turn."""


class Login(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token that a browser logs in with."""

    token: Annotated[str, Meta(min_length=1, max_length=500)]


class RenderRequest(Body, frozen=True, kw_only=True):
    """Texts in markdown."""

    texts: Annotated[tuple[str, ...], Meta(max_length=200)]


class BranchBody(Body, frozen=True, kw_only=True):
    """The branch to act on; by default the active one."""

    branch_id: str | None = None


BODIES = (
    *(
        NewThread,
        ThreadChange,
        NewMessage,
        ChatQuery,
        NewMemoryBody,
        MemoryChange,
        ActiveBranch,
        ForkBody,
        RollbackBody,
    ),
    *(NewPin, FoldBody, BranchBody, Cancel, RenderRequest),
)


def body_of(kind: type[B], *, may_be_empty: bool = False) -> Callable[[Request], Awaitable[B]]:
    """Return a function that decodes a request's body; ``may_be_empty``: a missing body means all defaults."""

    async def read(request: Request) -> B:
        raw = await request.body()
        if not raw and may_be_empty:
            return kind()
        if not raw:
            raise InvalidInput("The request has no body.", hint="Its form is in /openapi.json.")
        check_media_type(request)
        return decode(kind, raw)

    return read


def decode(kind: type[B], raw: bytes) -> B:
    """Decode JSON. Raises ``InvalidInput`` with the location of the error."""
    try:
        value: B = _decoder(kind).decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else unreadable(raw, error)
        raise InvalidInput(f"The body cannot be read: {reason}.", hint="Its form is in /openapi.json.") from None
    if b"\\u0000" in raw and has_nul(msgspec.to_builtins(value)):
        raise InvalidInput("The body holds a NUL character, which is not allowed.", hint="Leave it out.")
    return value


@cache
def _decoder(kind: type[B]) -> msgspec.json.Decoder[B]:
    return msgspec.json.Decoder(kind)


def check_media_type(request: Request) -> None:
    """Raise ``WrongForm`` if the body is not sent as JSON."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != JSON:  # also what keeps forms of foreign web pages out: those cannot send JSON unasked
        raise WrongForm(f"The body is sent as {given or 'nothing in particular'}.", hint=f"Send it as {JSON}.")
    if (coding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
        raise WrongForm(f"The body has the content encoding {coding}.", hint="Send it without a content encoding.")


def content_of(message: NewMessage, most_chars: int) -> str | tuple[ContentBlock, ...]:
    """Return the content of a message, after checking its length and images."""
    content = message.content
    texts = [content] if isinstance(content, str) else [block.text for block in _texts(content)]
    if (length := sum(map(len, texts))) > most_chars:
        raise TooLarge(f"The message has {length} characters; the maximum is {most_chars}.")
    if not isinstance(content, str):
        _check_pictures(content)
    return content


def _texts(blocks: tuple[ContentBlock, ...]) -> list[TextBlock]:
    nested = [block for outer in blocks if isinstance(outer, ToolResultBlock) for block in _texts(outer.content)]
    return [block for block in blocks if isinstance(block, TextBlock)] + nested


def _check_pictures(blocks: tuple[ContentBlock, ...]) -> None:
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            _check_pictures(block.content)
        elif isinstance(block, ImageBlock):
            if block.media_type not in PICTURES:
                raise InvalidInput(f"An image has one of the types {', '.join(PICTURES)}.")
            if not _is_source(block.source):
                raise InvalidInput(
                    'The source of a picture is {"type": "base64", "data"} or {"type": "url", "url"}, an https address.'
                )


def _is_source(source: object) -> bool:
    """Return whether an image has inline bytes or a fetchable URL; local files are not allowed."""
    if not isinstance(source, dict):
        return False
    if source.get("type") == "base64":
        return isinstance(source.get("data"), str)
    address = source.get("url")
    return source.get("type") == "url" and isinstance(address, str) and _ADDRESS.fullmatch(address) is not None


REFERENCE = "#/components/schemas/{name}"


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
