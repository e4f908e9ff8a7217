"""Our own format: every conversation with its branches, states, turns, steps, plans, images and memories.

A file is JSON Lines. The first line is ``{"format": "cix", "version": 1}``; every other line is an object with one key,
which names its type. A conversation begins with the texts and images that it needs (``text``, ``blob``), followed by
``session``, ``branch``, ``deleted``, ``state`` and ``turn``, its own memories (``memory``), and ``end`` with the number
of turns: a conversation without its end was cut off and is not imported. ``discard`` replaces ``end`` when something
was deleted during the export. The memories of the user are last.

Exports of the same ledger are equal byte for byte, also after a round trip through another ledger.

The reader takes decoded lines and returns texts and images at once, conversations when they are complete, and memories.
A conversation is kept in memory until it is complete, up to ``LARGEST_CONVERSATION`` bytes of lines.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import MemoryId, SessionId, StateId
from contextinfinity.domain.session import Owner
from contextinfinity.domain.transfer import (
    BranchTransfer,
    DeletedTurn,
    MemoryTransfer,
    SessionOutline,
    SessionTransfer,
    StateTransfer,
    TurnTransfer,
)
from contextinfinity.exchange.openai_messages import RejectedRecord
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


LARGEST_CONVERSATION = 512 << 20

T = TypeVar("T")


class CixContent(Struct, frozen=True):
    """A text, or the bytes of an image, that a conversation refers to."""

    text: str | None = None
    blob: tuple[bytes, str] | None = None


class CixConversation(Struct, frozen=True, kw_only=True):
    """A complete conversation: outline, states, turns and memories."""

    outline: SessionOutline
    states: tuple[StateTransfer, ...]
    turns: tuple[TurnTransfer, ...]
    memories: tuple[MemoryTransfer, ...] = ()


class CixMemory(Struct, frozen=True):
    """A memory of a user."""

    memory: MemoryTransfer


CixPart = CixContent | CixConversation | CixMemory


def is_header(record: dict[str, Any]) -> bool:
    """Return whether a record is the first line of a ``cix`` file."""
    return record.get("format") == "cix" and "version" in record


class CixReader:
    """Collects lines into conversations."""

    def __init__(self, header: dict[str, Any]) -> None:
        version = header["version"]
        if version != VERSION:
            raise RejectedRecord(
                f"the file has version {version!r} of the format cix, and this release reads version {VERSION}; "
                "upgrade to import it"
            )
        self._reset()

    def _reset(self) -> None:
        self._session: SessionTransfer | None = None
        self._branches: list[BranchTransfer] = []
        self._deleted: list[DeletedTurn] = []
        self._states: list[StateTransfer] = []
        self._turns: list[TurnTransfer] = []
        self._memories: list[MemoryTransfer] = []
        self._size = 0
        self._problem = ""

    def read(self, record: dict[str, Any], size: int) -> CixPart | None:
        """Process a line and return what it completes; ``RejectedRecord``: it or its conversation is invalid."""
        if len(record) != 1:
            raise RejectedRecord("it is not a line of the format cix: it must have exactly one key")
        ((kind, value),) = record.items()
        if kind in ("text", "blob"):
            return _content(kind, value)
        if kind == "session":
            self._reset()
            self._session = _convert(SessionTransfer, value)
            return None
        if kind == "memory" and self._session is None:
            return CixMemory(_convert(MemoryTransfer, value))
        if kind == "end":
            return self._finish_conversation(value)
        if kind == "discard":
            self._reset()
            return None
        self._size += size
        try:
            self._add_line(kind, value)
        except RejectedRecord as rejected:
            self._problem = self._problem or rejected.reason
            raise
        return None

    def _add_line(self, kind: str, value: Any) -> None:
        if self._session is None:
            raise RejectedRecord("it does not belong to a conversation")
        if self._size > LARGEST_CONVERSATION:
            raise RejectedRecord(f"the conversation has more than {LARGEST_CONVERSATION >> 20} MB, the maximum")
        if kind == "branch":
            self._branches.append(_convert(BranchTransfer, value))
        elif kind == "deleted":
            self._deleted.append(_convert(DeletedTurn, value))
        elif kind == "state":
            self._states.append(_convert(StateTransfer, value))
        elif kind == "turn":
            self._turns.append(_convert(TurnTransfer, value))
        elif kind == "memory":
            self._memories.append(_convert(MemoryTransfer, value))
        else:
            raise RejectedRecord(f"{kind[:40]!r} is not a key of this format")

    def _finish_conversation(self, value: Any) -> CixConversation:
        session, problem = self._session, self._problem
        if session is None:
            raise RejectedRecord("the end of a conversation without its beginning")
        made = CixConversation(
            outline=SessionOutline(session=session, branches=tuple(self._branches), deleted=tuple(self._deleted)),
            states=tuple(self._states),
            turns=tuple(self._turns),
            memories=tuple(self._memories),
        )
        self._reset()
        if problem:
            raise RejectedRecord(
                f"the conversation {session.id} is left out, because a line of it cannot be read: {problem}"
            )
        if value != {"session": session.id, "turns": len(made.turns)}:
            raise RejectedRecord(f"lines of the conversation {session.id} are missing")
        return made

    def unfinished(self) -> str:
        """Return an error message if the file ends within a conversation, else an empty string."""
        return "" if self._session is None else f"the file ends within the conversation {self._session.id}"


def _content(kind: str, value: Any) -> CixContent:
    if kind == "text" and isinstance(value, str):
        return CixContent(text=value)
    if kind == "blob" and isinstance(value, dict) and isinstance(value.get("data"), str):
        try:
            data = binascii.a2b_base64(value["data"], strict_mode=True)
        except ValueError:
            raise RejectedRecord("its image is not valid base64") from None
        return CixContent(blob=(data, str(value.get("media_type", ""))))
    raise RejectedRecord(f"its {kind} cannot be read")


def _convert(kind: type[T], value: Any) -> T:
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise RejectedRecord(f"it does not have the form of version {VERSION}: {error}") from None
    except RecursionError:
        raise RejectedRecord("it is nested too deeply") from None
