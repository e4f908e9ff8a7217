"""Map a vendor's request to a message: its owner, its model, and the options that the client sets."""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import sha256
from typing import Annotated

import msgspec
from fastapi import Depends, Request
from msgspec import Struct

from contextinfinity.client.drop_in import DropIn, SendOptions, SentConversation, Terms, number_of
from contextinfinity.dialects.contract import IncomingRequest
from contextinfinity.domain.ids import is_id
from contextinfinity.domain.message import Json
from contextinfinity.domain.sent_form import JSON_OBJECT, PARALLEL
from contextinfinity.errors import InvalidInput
from contextinfinity.server.auth import NEW, Acting, Asking, Caller, ForUser, acting, check_name, check_thread_name

THREAD = "x-thread-id"
ENDLESS = "x-endless-context"
"""``off``: the model gets exactly the messages of the request, which is stored as usual."""
KEY = "idempotency-key"
VENDOR_HEADERS = ("anthropic-beta", "anthropic-version", "openai-beta")
"""Headers that change how a vendor interprets a request; they are forwarded."""
RETRIED = "x-stainless-retry-count"
"""The header with the number of earlier attempts, as the official SDKs send it."""

_HASHED = re.compile("user-[0-9a-f]{32}")


class _NamedUser(Struct):
    user_id: str | None = None


async def named_user(request: Request, user_id: ForUser = None) -> str | None:
    """Return the ``user_id`` of the body, else of the query; vendors have no field of that name."""
    body = await request.body() if request.method == "POST" else b""
    if b'"user_id"' in body:
        with suppress(ValueError, RecursionError):  # reported when the whole body is parsed
            return msgspec.json.decode(body, type=_NamedUser).user_id or user_id
    return user_id


NamedUser = Annotated[str | None, Depends(named_user)]


async def acting_in_v1(request: Request, caller: Asking, user_id: NamedUser) -> Acting:
    """Resolve the owner that a request of a vendor's client acts for."""
    return acting(request, caller, user_id)


ActingInV1 = Annotated[Acting, Depends(acting_in_v1)]


class MappedRequest(Struct, frozen=True, kw_only=True):
    """A request as the engine takes it."""

    talk: SentConversation
    acting: Acting
    asked: SendOptions

    @property
    def drop_in(self) -> DropIn:
        """The drop-in interface of the acting user's client."""
        return self.acting.client.drop_in


async def question_of(
    request: Request, caller: Caller, incoming: IncomingRequest, body: bytes, user_id: str | None
) -> MappedRequest:
    """Map a parsed request; ``user_id`` is the user that the body or the query names."""
    act, stranger = resolve_owner(request, caller, incoming.end_user, user_id)
    thread_id = incoming.thread_id if incoming.appends else request.headers.get(THREAD) or incoming.thread_id
    if thread_id is not None:
        thread_id = _named(thread_id, stranger)
    model = act.client.drop_in.model_named(incoming.model)
    for name, why in () if act.client.drop_in.passes_through(model, incoming.form) else incoming.unsupported:
        raise InvalidInput(f"{name}: {why}.", hint=f"Leave {name} out.")
    key = request.headers.get(KEY)
    talk = SentConversation(
        messages=incoming.messages,
        form=incoming.form,
        end_user=stranger,
        thread_id=None if thread_id == NEW else thread_id,
        is_new=thread_id == NEW,
        follows=incoming.follows,
        appends=incoming.appends,
        keeps=incoming.keeps,
        body=_fingerprint(request, caller, body),
        key=None if key is None else _fingerprint(request, caller, b"key " + key.encode(errors="replace")),
        background=incoming.background,
        is_retry=request.headers.get(RETRIED, "0").strip("0").isdecimal(),
    )
    terms = Terms(
        system=incoming.system,
        tools=incoming.tools,
        response_format=incoming.response_format,
        request_options=incoming.request_options,
        form=incoming.form,
        sent=_sent(incoming),
        params={"params": incoming.params, "headers": _vendor_headers(request)},
        only_last=0 if _is_off(request) else None,
    )
    asked = SendOptions(
        model=model,
        use_memory=bool(incoming.end_user or user_id) and not stranger and terms.only_last is None,
        use_query_rewriter=terms.only_last is None,
        may_ask_back=False,
        terms=terms,
    )
    return MappedRequest(talk=talk, acting=act, asked=asked)


def _sent(incoming: IncomingRequest) -> Json:
    """Return the client's system text and tools as sent, and in neutral form for models of other vendors.

    The client runs its tools itself, so it decides about parallel calls, which all vendors allow by default.
    """
    if incoming.sent is None:
        return None
    is_object = incoming.response_format == {"type": "object"}
    several = {PARALLEL: True} if incoming.tools and incoming.request_options.parallel_tools is not False else {}
    return incoming.sent | several | ({JSON_OBJECT: True} if is_object else {})


def _vendor_headers(request: Request) -> dict[str, str]:
    """Return the headers that select a version or beta features of the vendor's API."""
    found = {name: request.headers.getlist(name) for name in VENDOR_HEADERS}
    return {name: ",".join(values) for name, values in found.items() if values}


def _named(thread_id: str, stranger: str) -> str:
    """Check the name of a thread; prefix it with the end user, if any, and a slash, which no other name contains."""
    if thread_id == NEW or is_id(thread_id):
        return thread_id
    check_thread_name(thread_id)
    return f"{stranger}/{thread_id}" if stranger else thread_id


def resolve_owner(request: Request, caller: Caller, end_user: str, user_id: str | None) -> tuple[Acting, str]:
    """Resolve the owner a request acts for; also return the end user if that is not the owner.

    If the caller may act for others, the owner is the end user, else the user that the query names. With a token of one
    user all threads belong to that user; the end user then only separates conversations, and no memories are stored.
    """
    may_name = caller.token is None or caller.token.scope == "app"
    if end_user and may_name:
        return acting(request, caller, _name(end_user)), ""
    act = acting(request, caller, user_id)
    return act, "" if not end_user or act.owner.user_id == _name(end_user) else _name(end_user)


def _name(end_user: str) -> str:
    """Return the user id of an end user: the name, or a hash of it if the name is not a valid user id.

    A name that looks like such a hash is hashed too, so that two end users never share a user id.
    """
    if not _HASHED.fullmatch(end_user):
        with suppress(InvalidInput):
            check_name("user", end_user)
            return end_user
    return f"user-{sha256(end_user.encode(errors='surrogatepass')).hexdigest()[:32]}"


def _fingerprint(request: Request, caller: Caller, said: bytes) -> int:
    """Return the hash that identical requests share: of caller, route, thread, mode, and the body or the key."""
    token = "" if caller.token is None else caller.token.id
    named = (token, request.url.path, *(request.headers.get(name, "") for name in (THREAD, ENDLESS)))
    return number_of(b"\0".join((*(name.encode(errors="replace") for name in named), said)))


def _is_off(request: Request) -> bool:
    said = request.headers.get(ENDLESS, "on").strip().lower()
    if said not in ("on", "off"):
        raise InvalidInput(f"{ENDLESS} is on or off.")
    return said == "off"
