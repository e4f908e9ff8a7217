"""From a vendor's request to a message of ours: whose it is, which model is meant, what its sender decides."""

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
"""``off``: the model sees what was sent and nothing else; it is kept all the same."""
KEY = "idempotency-key"
VENDOR_HEADERS = ("anthropic-beta", "anthropic-version", "openai-beta")
"""Headers that change how a vendor reads a request: they go along with what its client sent."""
RETRIED = "x-stainless-retry-count"
"""Where SDKs say how often they have sent a request before."""

_HASHED = re.compile("user-[0-9a-f]{32}")


class _NamedUser(Struct):
    user_id: str | None = None


async def named_user(request: Request, user_id: ForUser = None) -> str | None:
    """Return the ``user_id`` of the body, else of the query: the vendors' requests have none of that name."""
    body = await request.body() if request.method == "POST" else b""
    if b'"user_id"' in body:
        with suppress(msgspec.DecodeError):  # reported where the whole body is read
            return msgspec.json.decode(body, type=_NamedUser).user_id or user_id
    return user_id


NamedUser = Annotated[str | None, Depends(named_user)]


async def acting_in_v1(request: Request, caller: Asking, user_id: NamedUser) -> Acting:
    """Resolve the owner that a request of a vendor's client acts for."""
    return acting(request, caller, user_id)


ActingInV1 = Annotated[Acting, Depends(acting_in_v1)]


class MappedRequest(Struct, frozen=True, kw_only=True):
    """What is asked of the engine."""

    talk: SentConversation
    acting: Acting
    asked: SendOptions

    @property
    def drop_in(self) -> DropIn:
        """The engine, as the acting user reaches it."""
        return self.acting.client.drop_in


async def question_of(
    request: Request, caller: Caller, incoming: IncomingRequest, body: bytes, user_id: str | None
) -> MappedRequest:
    """Map a request to ours; ``user_id``: the user that body or query names."""
    act, stranger = whose(request, caller, incoming.end_user, user_id)
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
    """Return the client's system text and tools as sent, and what a model of another vendor has to know of them.

    The client runs its tools itself, so it decides about parallel calls, which all vendors allow by default.
    """
    if incoming.sent is None:
        return None
    is_object = incoming.response_format == {"type": "object"}
    several = {PARALLEL: True} if incoming.tools and incoming.request_options.parallel_tools is not False else {}
    return incoming.sent | several | ({JSON_OBJECT: True} if is_object else {})


def _vendor_headers(request: Request) -> dict[str, str]:
    """Return the headers by which a client names a version of its vendor's API and what is not released yet."""
    found = {name: request.headers.getlist(name) for name in VENDOR_HEADERS}
    return {name: ",".join(values) for name, values in found.items() if values}


def _named(thread_id: str, stranger: str) -> str:
    """Check the name of a thread; with an end user, prefix it with theirs and a slash, which no other name has."""
    if thread_id == NEW or is_id(thread_id):
        return thread_id
    check_thread_name(thread_id)
    return f"{stranger}/{thread_id}" if stranger else thread_id


def whose(request: Request, caller: Caller, end_user: str, user_id: str | None) -> tuple[Acting, str]:
    """Resolve the owner a request acts for; also return the end user where that is another than the owner.

    Where the caller may act for others, the end user is the owner, else the user that the query names. A token of one
    user keeps all threads its own; the name of the end user then only keeps their conversations apart, and nothing is
    remembered of them.
    """
    may_name = caller.token is None or caller.token.scope == "app"
    if end_user and may_name:
        return acting(request, caller, _name(end_user)), ""
    act = acting(request, caller, user_id)
    return act, "" if not end_user or act.owner.user_id == _name(end_user) else _name(end_user)


def _name(end_user: str) -> str:
    """Return the user id of an end user: their own name, or a hash of a name that no user id can have.

    A name that looks like such a hash is hashed as well, so that two end users never share a user id.
    """
    if not _HASHED.fullmatch(end_user):
        with suppress(InvalidInput):
            check_name("user", end_user)
            return end_user
    return f"user-{sha256(end_user.encode(errors='surrogatepass')).hexdigest()[:32]}"


def _fingerprint(request: Request, caller: Caller, said: bytes) -> int:
    """Hash what makes two requests identical: caller, route, thread and mode, and the body or the key."""
    token = "" if caller.token is None else caller.token.id
    named = (token, request.url.path, *(request.headers.get(name, "") for name in (THREAD, ENDLESS)))
    return number_of(b"\0".join((*(name.encode(errors="replace") for name in named), said)))


def _is_off(request: Request) -> bool:
    said = request.headers.get(ENDLESS, "on").strip().lower()
    if said not in ("on", "off"):
        raise InvalidInput(f"{ENDLESS} is on or off.")
    return said == "off"
