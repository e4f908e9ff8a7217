"""Listing conversations: needs a store and no engine, so that a command that only looks starts quickly."""

from __future__ import annotations

import asyncio
import re
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contextinfinity.client.results import ShownThread, shown_thread
from contextinfinity.domain.message import Message, TextBlock
from contextinfinity.domain.prefix_hash import plain_text
from contextinfinity.domain.turn import CONTINUES, SIDE
from contextinfinity.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from contextinfinity.domain.ids import BranchId, Position
    from contextinfinity.domain.session import Branch, Owner, Session
    from contextinfinity.domain.turn import Turn
    from contextinfinity.storage.contract import Store

MOST_CONTEXT = 16
"""Turns at the beginning of a branch among which a client's context is looked for."""
MOST_CONTINUED = 8
LONGEST_ACKNOWLEDGEMENT = 100

_RECEIVED = re.compile(r"(?:ok|okay|got it|understood|noted)\b", re.IGNORECASE)
_ELEMENT = re.compile(r"\s*<([\w-]+)>.*</\1>\s*", re.DOTALL)
"""A text that is one element, as Codex sends ``<environment_context>`` in front of the user's first message."""


async def list_threads(
    store: Store, owner: Owner | None, limit: int, after: Position | None = None
) -> tuple[ShownThread, ...]:
    """Read the threads of an owner (None: of all users), most recently used first, without those of side requests."""
    found = list[ShownThread]()
    while (wanted := limit - len(found)) > 0:
        sessions = await store.sessions.list(owner, limit=wanted, after=after)
        listed = (session for session in sessions if not session.metadata.get(SIDE))
        shown = await asyncio.gather(*(_shown_or_none(store, session) for session in listed))
        found += [each for each in shown if each is not None]
        if len(sessions) < wanted:
            break
        after = sessions[-1].position
    return tuple(found)


async def show_thread(store: Store, session: Session) -> ShownThread:
    """Show a thread with the turn that opens it and its newest turn."""
    branch = session.active_branch
    newest = await store.turns.history(branch, limit=1)
    first = await _opening(store, branch) if newest and newest[0].turn_seq > 1 else newest
    opening = _words_of_a_person(first[0].user_message) if first else ""
    return shown_thread(session, await read_branch(store, branch), opening, newest)


async def _opening(store: Store, branch_id: BranchId) -> Sequence[Turn]:
    """Read the turn that opens a branch: behind what its client sent in front, if that is context and no conversation.

    Some agents begin every conversation with messages of their own, which they acknowledge themselves. A branch that
    begins with a summary of another one has the opening of that one.
    """
    for _ in range(MOST_CONTINUED):
        first = await store.turns.history(branch_id, limit=1, before=2)
        if not first or not isinstance(first[0].metadata, dict) or CONTINUES not in first[0].metadata:
            break
        branch_id = str(first[0].metadata[CONTINUES])
    if not first or first[0].provider or first[0].answer is None:
        return first
    turns = await store.turns.history(branch_id, limit=MOST_CONTEXT, before=MOST_CONTEXT + 1)
    sent = list(takewhile(lambda turn: not turn.provider, turns))
    context = [place for place, turn in enumerate(sent) if turn.answer is not None and _acknowledges(turn.text)]
    opening = context[-1] + 1 if context else 0
    return turns[opening : opening + 1] or first


def _words_of_a_person(message: Message) -> str:
    """Return the text of a message without what an agent adds to it: reminders, and texts that are one element."""
    own = tuple(each for each in message.blocks if isinstance(each, TextBlock) and not _ELEMENT.fullmatch(each.text))
    return plain_text(replace(message, blocks=own)) or plain_text(message) or message.rendered_text


def _acknowledges(answer: str) -> bool:
    """Return whether an answer says no more than that a message was received."""
    return len(answer) <= LONGEST_ACKNOWLEDGEMENT and _RECEIVED.match(answer) is not None


async def read_branch(store: Store, branch_id: BranchId) -> Branch:
    """Read a branch; ``NotFound`` if there is none."""
    branch = await store.branches.get(branch_id)
    if branch is None:
        raise NotFound(f"There is no branch {branch_id}.")
    return branch


async def _shown_or_none(store: Store, session: Session) -> ShownThread | None:
    """Show one of a list; None if it was deleted since."""
    try:
        return await show_thread(store, session)
    except NotFound:
        return None
