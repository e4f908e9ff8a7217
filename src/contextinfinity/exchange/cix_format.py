"""Our own format: every conversation with its branches, states, turns, steps, plans, images and memories.

A file is JSON Lines. The first line says ``{"format": "cix", "version": 1}``; every other line is an object with one
key, which says what it is. Of a conversation come first the texts and images that it needs (``text``, ``blob``), then
``session``, ``branch``, ``deleted``, ``state`` and ``turn``, its own memories (``memory``), and ``end`` with the
number of turns: one without its end was cut off, and is not imported. The memories of the user come last.

The same ledger gives the same bytes, and so does a ledger that imported them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Collection, Iterable

import msgspec

from contextinfinity.domain.ids import MemoryId, SessionId, StateId
from contextinfinity.domain.session import Owner
from contextinfinity.domain.transfer import MemoryTransfer, SessionOutline
from contextinfinity.storage.contract import Store

VERSION = 1
HEADER = {"format": "cix", "version": VERSION}
_HASH = re.compile(rb'"([0-9a-f]{64})"')
_BLOB = re.compile(rb'"sha256":"([0-9a-f]{64})"')
"""Where a block names its image; within a text the quotes would be escaped."""


async def write_cix(
    store: Store, session_ids: Collection[SessionId], *, owner: Owner | None = None
) -> AsyncIterator[bytes]:
    """Write conversations, and with ``owner`` the memories of that user."""
    yield _line(HEADER)
    for session_id in session_ids:
        outline = await store.transfers.outline(session_id)
        if outline is not None:  # else it was deleted since the list was read
            async for piece in _session(store, outline):
                yield piece
    if owner is not None:
        async for memory in _memories(store, owner, None):
            yield _line({"memory": memory})


async def _session(store: Store, outline: SessionOutline) -> AsyncIterator[bytes]:
    session_id = outline.session.id
    written: set[str] = set()
    async for piece in _contents(store, [outline.session.system], written):
        yield piece
    yield _line({"session": outline.session})
    yield b"".join(_line({"branch": branch}) for branch in outline.branches)
    yield b"".join(_line({"deleted": gone}) for gone in outline.deleted)
    after: StateId | None = None
    while states := await store.transfers.states(session_id, after=after):
        names = [name for state in states for name in (state.summary, state.pins)]
        async for piece in _contents(store, names, written):
            yield piece
        yield b"".join(_line({"state": state}) for state in states)
        after = states[-1].id
    place, count = (0, ""), 0
    while turns := await store.transfers.turns(session_id, after=place):
        for turn in turns:
            line = _line({"turn": turn})
            shown = _names(_HASH, msgspec.json.encode(turn.plans)) + _names(_BLOB, line)
            async for piece in _contents(store, shown, written):
                yield piece
            yield line
        place, count = (turns[-1].turn_seq, turns[-1].id), count + len(turns)
    whose = Owner(user_id=outline.session.user_id, org_id=outline.session.org_id)
    async for memory in _memories(store, whose, session_id):
        yield _line({"memory": memory})
    yield _line({"end": {"session": session_id, "turns": count}})


async def _contents(store: Store, names: Iterable[str | None], written: set[str]) -> AsyncIterator[bytes]:
    """Yield the texts and images of these hashes that were not written yet; what was collected is left out."""
    for sha256 in names:
        if sha256 is None or sha256 in written:
            continue
        written.add(sha256)
        if (text := await store.contents.text(sha256)) is not None:
            yield _line({"text": text})
        elif (blob := await store.contents.blob(sha256)) is not None:
            yield _line({"blob": {"media_type": blob[1], "data": base64.b64encode(blob[0]).decode()}})


def _names(pattern: re.Pattern[bytes], written: bytes) -> list[str]:
    return [found.decode() for found in pattern.findall(written)]


async def _memories(store: Store, owner: Owner, thread: SessionId | None) -> AsyncIterator[MemoryTransfer]:
    after: MemoryId | None = None
    while memories := await store.transfers.memories(owner, thread=thread, after=after):
        for memory in memories:
            yield memory
        after = memories[-1].id


def _line(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"
