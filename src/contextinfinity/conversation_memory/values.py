"""A turn as callers see it, and what may be stored: checked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from contextinfinity.domain.ids import is_id
from contextinfinity.domain.turn import Keeping
from contextinfinity.domain.unicode import NUL, has_nul, lone_surrogate
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.rules import LONGEST_NAME, check_json, is_blank

LONGEST_TEXT = 1_000_000
"""Characters of a query or a response."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One query and the response to it. ``turn_number`` counts from 1 in its session and is never given twice.

    ``durability`` is "local" while the turn waits in the spool for a ledger that is away: the number is then the one it
    will get if nobody else writes to the session meanwhile.
    """

    id: str
    session_id: str
    user_id: str
    turn_number: int
    query_text: str
    response_text: str
    created_at: datetime
    metadata: dict[str, Any] = field(default_factory=dict)
    durability: Keeping = "ledger"


@dataclass(frozen=True, kw_only=True)
class QueryContext:
    """What a query is to be answered with: the turns before it, and the query with its references resolved.

    ``messages`` are both in the form models take. When several things could be meant, ``is_ambiguous`` is set and
    ``disambiguation_data`` has the candidates and what to ask.
    """

    session_id: str
    query: str
    resolved_query: str
    history: list[Turn]
    messages: list[dict[str, str]]
    entities: list[Any] = field(default_factory=list)
    is_ambiguous: bool = False
    disambiguation_data: Any = None


def known_session(session_id: object) -> str | None:
    """Give a session id as it is kept; None for what can be none."""
    text = session_id.lower() if isinstance(session_id, str) else ""
    return text if is_id(text) else None


def checked_session(session_id: object) -> str:
    """Give a session id as it is kept, or refuse it."""
    known = known_session(session_id)
    if known is None:
        raise ValueError("session_id: it must be a UUID, such as create_session gives.")
    return known


def check_user(user_id: object) -> None:
    """Refuse what is no user's id."""
    if not isinstance(user_id, str) or not 1 <= len(user_id) <= LONGEST_NAME:
        raise ValueError(f"user_id: it must be a text of 1 to {LONGEST_NAME} characters.")
    _check_unicode("user_id", user_id)


def check_text(name: str, text: object) -> None:
    """Refuse a query or a response that is no text, blank, or too long."""
    if not isinstance(text, str):
        raise ValueError(f"{name}: it must be a text, not {type(text).__name__}.")
    if is_blank(text):
        raise ValueError(f"{name}: it must not be blank.")
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"{name}: it has {len(text):,} characters; {LONGEST_TEXT:,} are the most.")
    _check_unicode(name, text)


def checked_limit(limit: object) -> int:
    """Give how many turns are wanted, or refuse what is no number of turns."""
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise ValueError(f"limit: it must be a whole number, not {type(limit).__name__}.")
    return limit


def checked_metadata(metadata: object) -> dict[str, Any]:
    """Give metadata that can be kept; none is an empty one."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise ValueError(f"metadata: it must be a dict, not {type(metadata).__name__}.")
    try:
        check_json(metadata, "it")
        written = msgspec.json.encode(metadata)
    except InvalidInput as error:
        raise ValueError(f"metadata: {error.message}") from error
    except UnicodeEncodeError as error:
        raise ValueError(f"metadata: it holds {lone_surrogate(error)}.") from error
    if b"\\u0000" in written and has_nul(metadata):
        raise ValueError("metadata: it holds a NUL character, which is no text; leave it out.")
    return dict(metadata)


def _check_unicode(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: it holds {lone_surrogate(error)}.") from error
    if has_nul(text):
        raise ValueError(f"{name}: it holds a NUL character at {text.index(NUL)}, which is no text; leave it out.")
