"""Imported messages and their origin.

An import yields one ``ImportedMessage`` per record of a file. Each stored message keeps its ``Origin`` (the id,
position and time it had in the source), so that a record is never imported twice and search results can name it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import Json, Message, TranscriptItem

Side: TypeAlias = Literal["user", "assistant"]


class ImportedMessage(Struct, frozen=True, kw_only=True):
    """One message from an external source; ``place`` is its position in that conversation, from 0."""

    message: Message
    place: int
    external_id: str | None = None
    created_at: datetime | None = None
    model: str = ""
    details: Json = None
    """All other fields of the record, unchanged."""


class ImportedTurn(Struct, frozen=True, kw_only=True):
    """One turn of a conversation with branches, as another program had it.

    ``id`` is derived from its last message, so that it is the same in every import; ``parent`` is the turn that it
    follows, None at the beginning. ``rounds`` are the tool calls and results before the answer, as ``Turn.rounds``.
    ``messages`` are those it is made of, the question first.
    """

    id: TurnId
    parent: TurnId | None
    message: Message
    answer: Message | None = None
    rounds: tuple[TranscriptItem, ...] = ()
    created_at: datetime | None = None
    model: str = ""
    messages: tuple[ImportedMessage, ...] = ()


class Origin(Struct, frozen=True, kw_only=True):
    """The origin of a message; ``side`` says whether it is the question or the answer of its turn."""

    side: Side
    place: int
    content_hash: str
    external_id: str | None = None
    created_at: datetime | None = None
    details: Json = None

    @property
    def name(self) -> str:
        """The name of the speaker, or an empty string if it is unknown."""
        name = self.details.get("name") if isinstance(self.details, dict) else None
        return name if isinstance(name, str) else ""


class ImportCounts(Struct, frozen=True, kw_only=True):
    """The result of an import: messages added, and messages skipped because they are stored already.

    ``clashing`` lists the positions of messages whose id is taken by a message with different text. They are not
    imported, because stored messages never change.
    """

    added: int = 0
    skipped: int = 0
    clashing: tuple[int, ...] = ()
