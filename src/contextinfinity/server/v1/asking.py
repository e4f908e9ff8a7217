"""From a vendor's request to a message of ours: whose it is, which model is meant, what its sender decides."""

from __future__ import annotations

from hashlib import sha256

from fastapi import Request
from msgspec import Struct

from contextinfinity.client.drop_in import Asked, Talk, Terms, number_of
from contextinfinity.dialects.contract import Incoming
from contextinfinity.domain.ids import is_id
from contextinfinity.domain.session import Owner
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity.server.callers import LONGEST_NAME, NEW, Caller, check_name, no_thread, place_of
from contextinfinity.server.door import door_of

THREAD = "x-thread-id"
ENDLESS = "x-endless-context"
"""``off``: the model sees what was sent and nothing else; it is kept all the same."""
KEY = "idempotency-key"
RETRIED = "x-stainless-retry-count"
"""Where SDKs say how often they have sent a request before."""


class Question(Struct, frozen=True, kw_only=True):
    """What is asked of the engine."""

    talk: Talk
    owner: Owner
    asked: Asked


async def question_of(request: Request, caller: Caller, incoming: Incoming, body: bytes) -> Question:
    """Put a request in our terms."""
    door = door_of(request)
    owner, stranger = _whose(caller, incoming.end_user)
    thread_id = request.headers.get(THREAD) or incoming.thread_id
    if thread_id is not None:
        thread_id = _named(await _place(request, caller, thread_id, owner, incoming.end_user), stranger)
    model = door.drop_in.model_named(incoming.model)
    key = request.headers.get(KEY)
    talk = Talk(
        messages=incoming.messages,
        end_user=stranger,
        thread_id=None if thread_id == NEW else thread_id,
        is_new=thread_id == NEW,
        body=_fingerprint(request, caller, body),
        key=None if key is None else _fingerprint(request, caller, b"key " + key.encode(errors="replace")),
        is_retry=request.headers.get(RETRIED, "0").strip("0").isdecimal(),
    )
    terms = Terms(
        system=incoming.system,
        tools=incoming.tools,
        response_format=incoming.response_format,
        wishes=incoming.wishes,
        only_last=0 if _is_off(request) else None,
    )
    asked = Asked(
        model=model,
        use_memory=bool(incoming.end_user) and not stranger and terms.only_last is None,
        use_rewriter=terms.only_last is None,
        may_ask_back=False,
        terms=terms,
    )
    return Question(talk=talk, owner=owner, asked=asked)


async def _place(request: Request, caller: Caller, thread_id: str, owner: Owner, end_user: str) -> str:
    """Give the thread that is meant; who names an end user does not come into the thread of another owner."""
    place = await place_of(request, caller, thread_id, owner)
    if not end_user or caller.token is None or not is_id(place):
        return place
    try:
        thread = await door_of(request).client.threads.get(place, owner)
    except NotFound:  # a name of the caller's own, not used yet
        return place
    if (thread.org_id, thread.user_id) != (owner.org_id, owner.user_id):
        raise no_thread(place)
    return place


def _named(place: str, stranger: str) -> str:
    """Give a name for a thread the end user whose name it is; with a slash, which no name has."""
    return f"{stranger}/{place}" if stranger and place != NEW and not is_id(place) else place


def _whose(caller: Caller, end_user: str) -> tuple[Owner, str]:
    """Give whom a request acts for, and the end user where that is somebody else.

    Where the caller may act for others, the end user is the owner. A token of one user keeps all threads its own; the
    name of the end user then only keeps their conversations apart, and nothing is remembered of them.
    """
    if not end_user:
        return caller.owner(), ""
    name = _name(end_user)
    if caller.token is None or caller.token.scope == "app":
        return caller.owner(name), ""
    owner = caller.owner()
    return owner, "" if owner.user_id == name else name


def _name(end_user: str) -> str:
    """Give an end user a name we can keep: their own, or a short one that stands for it."""
    try:
        check_name("user", end_user)
    except InvalidInput:
        return f"user-{sha256(end_user.encode(errors='replace')).hexdigest()[: min(32, LONGEST_NAME)]}"
    return end_user


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
