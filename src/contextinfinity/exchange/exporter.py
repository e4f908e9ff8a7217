"""Export conversations: as Markdown for people, as messages for other programs, or complete in the format ``cix``.

Output: bytes, turn by turn, so that memory stays bounded. The list of conversations is read first; messages that are
sent during the export may or may not be included.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from contextinfinity.domain.ids import BranchId, Position, SessionId
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.turn import Turn
from contextinfinity.exchange.markdown_export import branch_head, conversation_head, turn_as_markdown
from contextinfinity.exchange.message_export import turn_as_lines
from contextinfinity.storage.contract import Store

ExportFormat: TypeAlias = Literal["cix", "markdown", "jsonl"]
MEDIA_TYPES: dict[ExportFormat, str] = {
    "cix": "application/x-ndjson",
    "markdown": "text/markdown; charset=utf-8",
    "jsonl": "application/x-ndjson",
}
SUFFIXES: dict[ExportFormat, str] = {"cix": ".cix.jsonl", "markdown": ".md", "jsonl": ".jsonl"}
PAGE = 200
_UNSAFE = re.compile(r"[^\w.-]+")


async def sessions_of(store: Store, owner: Owner, *, since: datetime | None = None) -> list[SessionId]:
    """Return the ids of all conversations of an owner, most recently used first; ``since``: used since then."""
    found: list[SessionId] = []
    after: Position | None = None
    while page := await store.sessions.list(owner, limit=1000, after=after):
        found += [session.id for session in page if since is None or session.updated_at >= since]
        after = page[-1].position
        if since is not None and page[-1].updated_at < since:
            break
    return found


async def export_sessions(
    store: Store, session_ids: Collection[SessionId], form: ExportFormat, *, owner: Owner | None = None
) -> AsyncIterator[bytes]:
    """Write conversations one after the other; with ``owner`` also the memories of that user (format ``cix``)."""
    if form == "cix":
        from contextinfinity.exchange.cix_format import write_cix

        async for piece in write_cix(store, session_ids, owner=owner):
            yield piece
        return
    for number, session_id in enumerate(session_ids):
        session = await store.sessions.get(session_id)
        if session is None:  # deleted since the list was read
            continue
        if form == "markdown" and number:
            yield b"\n---\n\n"
        async for piece in export_session(store, session, form):
            yield piece


async def export_session(store: Store, session: Session, form: Literal["markdown", "jsonl"]) -> AsyncIterator[bytes]:
    """Write one conversation: all branches as Markdown, or the active branch as messages."""
    if form == "jsonl":
        async for turns in _turns(store, session.active_branch, 1):
            yield b"".join([line async for line in _lines(store, session, turns)])
        return
    yield conversation_head(session).encode()
    branches = await store.branches.list(session.id)
    shown: set[str] = set()
    for branch in sorted(branches, key=lambda each: each.id != session.active_branch):
        is_active = branch.id == session.active_branch
        head = branch_head(branch)
        async for turns in _turns(store, branch.id, 1):
            new = [turn for turn in turns if turn.id not in shown]
            shown.update(turn.id for turn in new)
            if new and not is_active and head:
                yield head.encode()
                head = ""
            yield "".join(map(turn_as_markdown, new)).encode()


async def _lines(store: Store, session: Session, turns: Sequence[Turn]) -> AsyncIterator[bytes]:
    origins = await store.imports.origins([turn.id for turn in turns])
    for turn in turns:
        for line in await turn_as_lines(store, session, turn, origins.get(turn.id, ())):
            yield line


async def _turns(store: Store, branch_id: BranchId, first: int) -> AsyncIterator[tuple[Turn, ...]]:
    """Yield the turns of a branch and its ancestors, oldest first; they are read a page at a time."""
    branch = await store.branches.get(branch_id)
    last = 0 if branch is None else branch.last_turn_seq
    for begin in range(first, last + 1, PAGE):
        turns = await store.turns.history(branch_id, limit=PAGE, before=begin + PAGE)
        if page := tuple(turn for turn in turns if turn.turn_seq >= begin):
            yield page


def file_name(title: str, day: datetime, form: ExportFormat, taken: set[str]) -> str:
    """Return an unused file name for a conversation: its day and title."""
    words = _UNSAFE.sub("-", title[:60]).strip("-.") or "conversation"
    return _free_name(f"{day:%Y-%m-%d}-{words}", form, taken)


def user_file_name(owner: Owner, form: ExportFormat, taken: set[str]) -> str:
    """Return an unused file name for all conversations of a user."""
    words = _UNSAFE.sub("-", "-".join(filter(None, (owner.org_id, owner.user_id)))[:100]).strip("-.") or "user"
    return _free_name(words, form, taken)


def _free_name(stem: str, form: ExportFormat, taken: set[str]) -> str:
    name = next(name for name in _numbered(stem, SUFFIXES[form]) if name.lower() not in taken)
    taken.add(name.lower())
    return name


def _numbered(stem: str, suffix: str) -> Iterator[str]:
    yield f"{stem}{suffix}"
    number = 2
    while True:
        yield f"{stem}-{number}{suffix}"
        number += 1
