"""Read files of the format ``cix``: collect the lines of a conversation until its end.

Input: decoded lines. Output: texts and images at once, conversations when they are complete, and memories. A
conversation is kept in memory until it is complete, up to ``LARGEST_CONVERSATION`` bytes of lines.
"""

from __future__ import annotations

import binascii
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from contextinfinity.domain.transfer import (
    BranchTransfer,
    DeletedTurn,
    MemoryTransfer,
    SessionOutline,
    SessionTransfer,
    StateTransfer,
    TurnTransfer,
)
from contextinfinity.exchange.cix_format import VERSION
from contextinfinity.exchange.openai_messages import RejectedRecord

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
