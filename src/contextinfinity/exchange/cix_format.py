"""Our own format: every conversation with its branches, states, turns, steps, plans, images and memories.

A file is JSON Lines. The first line is ``{"format": "cix", "version": 1}``; every other line is an object with one
key, which names its type. A conversation begins with the texts and images that it needs (``text``, ``blob``), followed
by ``session``, ``branch``, ``deleted``, ``state`` and ``turn``, its own memories (``memory``), and ``end`` with the
number of turns: a conversation without its end was cut off and is not imported. ``discard`` replaces ``end`` when
something was deleted during the export. The memories of the user are last.

Exports of the same ledger are equal byte for byte, also after a round trip through another ledger.
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Collection, Iterable

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.ids import MemoryId, SessionId, StateId
from contextinfinity.domain.session import Owner
from contextinfinity.domain.transfer import MemoryTransfer, SessionOutline
from contextinfinity.storage.contract import Store

VERSION = 1
HEADER = {"format": "cix", "version": VERSION}
_HASH = re.compile(rb'"([0-9a-f]{64})"')
_BLOB = re.compile(rb'"sha256":"([0-9a-f]{64})"')
"""Matches an image reference in the JSON of a block; inside a text the quotes would be escaped."""


async def write_cix(
    store: Store, session_ids: Collection[SessionId], *, owner: Owner | None = None
) -> AsyncIterator[bytes]:
    """Write conversations; if ``owner`` is given, also the memories of that user."""
    yield _line(HEADER)
    for session_id in session_ids:
        async for piece in _session(store, session_id):
            yield piece
    if owner is not None:
        async for memory in _memories(store, owner, None):
            yield _line({"memory": memory})


async def _session(store: Store, session_id: SessionId) -> AsyncIterator[bytes]:
    """Write a conversation; if part of it is deleted meanwhile, discard it and write the remaining turns."""
    outline = await store.transfers.outline(session_id)
    while outline is not None:
        count = 0
        async for piece, turns in _parts(store, outline):
            yield piece
            count += turns
        after = await store.transfers.outline(session_id)
        if after is not None and after.deleted == outline.deleted:
            yield _line({"end": {"session": session_id, "turns": count}})
            return
        yield _line({"discard": session_id})
        outline = after


async def _parts(store: Store, outline: SessionOutline) -> AsyncIterator[tuple[bytes, int]]:
    """Yield the lines of a conversation, each with its number of turns; what is newer than the outline is omitted."""
    session_id, written, kept = outline.session.id, set[str](), set[StateId]()
    states_of = {branch.id: branch.head_seq for branch in outline.branches}
    turns_of = {branch.id: branch.last_turn_seq for branch in outline.branches}
    async for piece in _contents(store, [outline.session.system], written):
        yield piece, 0
    yield _line({"session": outline.session}), 0
    yield b"".join(_line({"branch": branch}) for branch in outline.branches), 0
    yield b"".join(_line({"deleted": gone}) for gone in outline.deleted), 0
    after: StateId | None = None
    while states := await store.transfers.states(session_id, after=after):
        shown = [state for state in states if state.state_seq <= states_of.get(state.branch_id, -1)]
        kept.update(state.id for state in shown)
        async for piece in _contents(store, (name for one in shown for name in (one.summary, one.pins)), written):
            yield piece, 0
        yield b"".join(_line({"state": state}) for state in shown), 0
        after = states[-1].id
    place = (0, "")
    while turns := await store.transfers.turns(session_id, after=place):
        for turn in turns:
            if turn.turn_seq > turns_of.get(turn.branch_id, 0):
                continue
            if turn.state_after not in kept and turn.state_after is not None:
                turn = replace(turn, phase="ResponseFinalized", state_after=None)
            line = _line({"turn": turn})
            names = _names(_HASH, msgspec.json.encode(turn.plans)) + _names(_BLOB, line)
            async for piece in _contents(store, names, written):
                yield piece, 0
            yield line, 1
        place = (turns[-1].turn_seq, turns[-1].id)
    whose = Owner(user_id=outline.session.user_id, org_id=outline.session.org_id)
    async for memory in _memories(store, whose, session_id):
        yield _line({"memory": memory}), 0


async def _contents(store: Store, names: Iterable[str | None], written: set[str]) -> AsyncIterator[bytes]:
    """Yield the texts and images of these hashes that were not written yet; deleted ones are omitted."""
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
