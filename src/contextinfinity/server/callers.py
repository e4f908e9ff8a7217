"""Who asks, and what they may open: decided here, before a route runs.

Until the first token is made everybody may do everything, as the user they say they are. From then on a request needs
a token that counts; its user and organisation are the caller's, and only one of scope ``app`` may name another user.
A thread of somebody else looks like one that is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Query, Request

from contextinfinity.client.values import ShownThread, TurnAccount
from contextinfinity.domain.ids import is_id, is_ours
from contextinfinity.domain.session import Owner
from contextinfinity.domain.token import Token
from contextinfinity.errors import InvalidInput, NotFound, NotYours, TokenNeeded
from contextinfinity.server.door import door_of
from contextinfinity.server.limits import name_of

LONGEST_NAME = 128
NEW = "new"
DOTS = (".", "..")
"""In an address they mean another place, and are gone before it is sent."""
ANY = "-"
"""In the place of a thread: whichever the turn is of."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Somebody who asks. ``token`` None: there are no tokens, and everybody may do everything."""

    org_id: str = ""
    token: Token | None = None

    def owner(self, user_id: str | None = None, *, nameless: str = "local") -> Owner:
        """Give whom a request acts for; ``NotYours`` where the token does not allow it.

        ``nameless``: whoever does not say who they are, where nobody has to.
        """
        if user_id is not None:
            check_name("user_id", user_id)
        if self.token is None:
            return Owner(user_id=user_id or nameless, org_id=self.org_id)
        owner = Owner(user_id=user_id or self.token.owner.user_id, org_id=self.token.owner.org_id)
        if not self.token.may_act_for(owner):
            raise NotYours(f"This token is {self.token.owner.user_id}'s, and the request is for {owner.user_id}.")
        return owner

    def may_open(self, thread: ShownThread) -> bool:
        """Tell whether a thread is the caller's to see."""
        return self.token is None or self.token.may_act_for(Owner(user_id=thread.user_id, org_id=thread.org_id))


async def caller_of(request: Request) -> Caller:
    """Find out who asks."""
    door = door_of(request)
    org_id = request.headers.get("x-org-id")
    if org_id is not None:
        check_name("X-Org-Id", org_id)
    if not await door.client.tokens.needed():
        door.rates.take("")
        return Caller(org_id=org_id or "")
    token = await door.client.tokens.of(_words(request))
    if token is None:
        raise TokenNeeded("This server needs a token, and the request has none that counts.")
    door.rates.take(name_of(token.owner))
    if org_id is not None and org_id != token.owner.org_id:
        raise NotYours("X-Org-Id names another organisation than the token's.")
    return Caller(org_id=token.owner.org_id, token=token)


def _words(request: Request) -> str:
    """Read the token: as a bearer's, or where the SDKs of some vendors put it."""
    kind, _, words = request.headers.get("authorization", "").partition(" ")
    return words.strip() if kind.lower() == "bearer" else request.headers.get("x-api-key", "")


def check_name(field: str, name: str) -> None:
    """Refuse a name that could not be shown or written down: 1 to 128 visible characters without slashes."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable() or "/" in name or "\\" in name:
        raise InvalidInput(f"{field} has to have 1 to {LONGEST_NAME} visible characters, and no slashes.")


def check_thread_name(name: str) -> None:
    """Refuse a name that a thread cannot have."""
    check_name("thread_id", name)
    if name in (NEW, ANY, *DOTS):
        raise InvalidInput(f"{name} means something else, and is no name of a thread.")


Asking = Annotated[Caller, Depends(caller_of)]
ThreadId = Annotated[str, Path(description="One of our ids, or the id its owner gave it.")]
TurnId = Annotated[str, Path(description="The id of a turn of this thread.")]
ThreadOrAny = Annotated[str, Path(alias="thread_id", description="Its thread; `-`: whichever it is of.")]
ForUser = Annotated[str | None, Query(alias="user_id", description="Whose it is, where the caller may act for others.")]


async def thread_of(request: Request, caller: Asking, thread_id: ThreadId, user_id: ForUser = None) -> ShownThread:
    """Find the thread a request is about, if the caller may open it."""
    owner = caller.owner(user_id)
    thread = await door_of(request).client.threads.get(thread_id, owner)
    if not caller.may_open(thread):
        raise no_thread(thread_id)
    return thread


Found = Annotated[ShownThread, Depends(thread_of)]


async def turn_of(
    request: Request, caller: Asking, thread_id: ThreadOrAny, turn_id: TurnId, user_id: ForUser = None
) -> TurnAccount:
    """Find the turn a request is about: one of that thread."""
    client = door_of(request).client
    if thread_id != ANY:
        thread = await thread_of(request, caller, thread_id, user_id)
        turn = await client.conversations.turn(turn_id)
        is_its_own = turn.thread_id == thread.thread_id
    else:
        turn = await client.conversations.turn(turn_id)
        is_its_own = caller.may_open(await client.threads.get(turn.thread_id))
    if not is_its_own:
        raise NotFound(f"There is no turn {turn_id}.")
    return turn


FoundTurn = Annotated[TurnAccount, Depends(turn_of)]


async def place_of(request: Request, caller: Caller, thread_id: str, owner: Owner) -> str:
    """Give where a message goes: talking makes a thread that is not there, and never opens somebody else's."""
    if thread_id == NEW or (is_id(thread_id) and caller.token is None):
        return thread_id
    if not is_id(thread_id):
        check_thread_name(thread_id)
        return thread_id
    try:
        thread = await door_of(request).client.threads.get(thread_id, owner)
    except NotFound:
        if is_ours(thread_id):
            raise
        return thread_id  # a name of the caller's own, not used yet
    if not caller.may_open(thread):
        raise no_thread(thread_id)
    return thread.thread_id


def no_thread(thread_id: str) -> NotFound:
    """Say what is said of a thread that is not there."""
    return NotFound(f"There is no thread {thread_id}.", hint="`cix sessions` lists those there are.")
