"""Resolve, once per request, the user it acts for.

Input: the token, if any, and ``user_id`` in the body, else in the query. Output: ``Acting``, the owner and a client
that finds only that owner's things. Routes have no other client, so another owner's thread, turn, branch, chunk or
memory is not found anywhere, with or without tokens.

Without tokens every caller may name any user. From the first token on a request needs a valid one; its user and
organisation are the default, and only a token of scope ``app`` may name another user.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Path, Query, Request

from contextinfinity.client.local import LocalClient
from contextinfinity.client.results import TurnAccount
from contextinfinity.domain.session import Owner
from contextinfinity.domain.token import Token
from contextinfinity.errors import InvalidInput, NotFound, NotYours
from contextinfinity.server.app_state import app_state_of, name_of
from contextinfinity.server.bodies import Body, body_of
from contextinfinity.storage.database import act_for

B = TypeVar("B", bound=Body)

LONGEST_NAME = 128
NEW = "new"
DOTS = (".", "..")
"""Names that mean another path in a URL; clients resolve them before they send it."""
COOKIE = "cix_token"
"""The cookie that keeps the token of a browser; it is HttpOnly and SameSite=Strict."""
ANY = "-"
"""In place of a thread id: the thread of the turn."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The sender of a request. ``token`` None: the server has no tokens, and the caller may name any user."""

    org_id: str = ""
    token: Token | None = None
    check: Callable[[], Awaitable[object]] | None = field(default=None, repr=False)
    """Raises ``TokenNeeded`` once the token is revoked or expired; None: there is no token."""

    def owner(self, user_id: str | None = None, *, nameless: str = "local") -> Owner:
        """Return the owner a request acts for; ``NotYours`` if the token may not act for that user.

        ``nameless``: the user of a request that names none, on a server without tokens.
        """
        if user_id is not None:
            check_name("user_id", user_id)
        if self.token is None:
            return Owner(user_id=user_id or nameless, org_id=self.org_id)
        owner = Owner(user_id=user_id or self.token.owner.user_id, org_id=self.token.owner.org_id)
        if not self.token.may_act_for(owner):
            raise NotYours(f"This token is {self.token.owner.user_id}'s, and the request is for {owner.user_id}.")
        return owner


async def caller_of(request: Request) -> Caller:
    """Authenticate a request."""
    app_state = app_state_of(request)
    org_id = request.headers.get("x-org-id")
    if org_id is not None:
        check_name("X-Org-Id", org_id)
    if not await app_state.tokens.needed():
        app_state.rates.take("")
        return Caller(org_id=org_id or "")
    text = _token_text(request)
    token = await app_state.tokens.check(text)
    app_state.rates.take(name_of(token.owner))
    if org_id is not None and org_id != token.owner.org_id:
        raise NotYours("X-Org-Id differs from the organisation of the token.")
    return Caller(org_id=token.owner.org_id, token=token, check=partial(app_state.tokens.check, text))


def _token_text(request: Request) -> str:
    """Read the token: a bearer's, where the SDKs of some vendors put it, or the web page's cookie."""
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return text.strip()
    return request.headers.get("x-api-key") or _cookie_token(request)


def _cookie_token(request: Request) -> str:
    """Read the token that the web page's login keeps as a cookie.

    A browser also sends the cookie for pages of other ports of the same host, and says so: those may not use it.
    """
    is_own = request.headers.get("sec-fetch-site", "same-origin").strip().lower() in ("same-origin", "none")
    return request.cookies.get(COOKIE, "") if is_own else ""


def check_name(field: str, name: str) -> None:
    """Reject a name that cannot be displayed or stored: 1 to 128 visible characters without slashes are allowed."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable() or "/" in name or "\\" in name:
        raise InvalidInput(f"{field} must have 1 to {LONGEST_NAME} printable characters and no slashes.")


def check_thread_name(name: str) -> None:
    """Reject a name that a thread cannot have."""
    check_name("thread_id", name)
    if name in (NEW, ANY, *DOTS):
        raise InvalidInput(f"{name} is reserved and cannot name a thread.")


Asking = Annotated[Caller, Depends(caller_of)]
ThreadId = Annotated[str, Path(description="A thread id, or the external id that the caller chose.")]
TurnId = Annotated[str, Path(description="The id of a turn of this thread.")]
ThreadOrAny = Annotated[str, Path(alias="thread_id", description="The thread of the turn, or `-` if it is unknown.")]
ForUser = Annotated[
    str | None,
    Query(alias="user_id", description="The user the request acts for; a `user_id` in the body takes precedence."),
]


@dataclass(frozen=True, kw_only=True)
class Acting:
    """The owner a request acts for, and a client limited to that owner's objects."""

    owner: Owner
    client: LocalClient
    check: Callable[[], Awaitable[object]] | None = field(default=None, repr=False)
    """Raises ``TokenNeeded`` once the token is revoked or expired, which ends streams."""


@dataclass(frozen=True, kw_only=True)
class ActingWith(Acting, Generic[B]):
    """``Acting`` together with the parsed request body."""

    body: B


def acting(request: Request, caller: Caller, user_id: str | None, *, nameless: str = "local") -> Acting:
    """Resolve the owner a request acts for; from here on the storage returns only that owner's rows."""
    owner = caller.owner(user_id, nameless=nameless)
    act_for(owner)
    return Acting(owner=owner, client=app_state_of(request).acting_for(owner), check=caller.check)


async def acting_of(request: Request, caller: Asking, user_id: ForUser = None) -> Acting:
    """Resolve the owner of a request without a native body."""
    return acting(request, caller, user_id)


def acting_with(
    kind: type[B],
    *,
    may_be_empty: bool = False,
    nameless: str = "local",
    otherwise: Callable[[B], str | None] = lambda body: None,
) -> Callable[[Request, Caller, str | None], Awaitable[ActingWith[B]]]:
    """Return the dependency that parses a body and resolves the owner.

    ``otherwise`` is the user if no ``user_id`` is given.
    """
    read = body_of(kind, may_be_empty=may_be_empty)

    async def resolve(request: Request, caller: Asking, user_id: ForUser = None) -> ActingWith[B]:
        body = await read(request)
        named = body.user_id or (otherwise(body) if user_id is None else user_id)
        found = acting(request, caller, named, nameless=nameless)
        return ActingWith(owner=found.owner, client=found.client, check=found.check, body=body)

    return resolve


ActingUser = Annotated[Acting, Depends(acting_of)]


async def turn_of(act: Acting, thread_id: str, turn_id: str) -> TurnAccount:
    """Read a turn of a thread; ``NotFound`` for a turn of another one. ``-`` is the turn's own thread."""
    turn = await act.client.conversations.turn(turn_id)
    if thread_id != ANY and (await act.client.threads.get(thread_id)).thread_id != turn.thread_id:
        raise NotFound(f"There is no turn {turn_id}.")
    return turn
