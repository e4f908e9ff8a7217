"""Turns as values, for tests of what is made from them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from contextinfinity.domain.message import Message, TranscriptItem, say
from contextinfinity.domain.search import Chunk, ChunkSide
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.domain.wire import text_hash
from contextinfinity.retrieval.chunking import ENCODING
from contextinfinity.text.tokens.encodings import encoding

THEN = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
count = encoding(ENCODING).count


def turn(
    said: str | Message, answer: str | None = "", *, seq: int = 1, rounds: tuple[TranscriptItem, ...] = ()
) -> Turn:
    """Make a finished turn."""
    return Turn(
        id=f"turn-{seq}",
        session_id="session",
        branch_id="branch",
        turn_seq=seq,
        phase=Phase.DONE,
        state_before="state",
        user_message=said if isinstance(said, Message) else say("user", said),
        created_at=THEN,
        updated_at=THEN,
        answer=None if answer is None else say("assistant", answer),
        rounds=rounds,
    )


def chunk(number: int, text: str, *, start: int = 0, side: ChunkSide = "user", **more: Any) -> Chunk:
    """Make a chunk of a turn as a store gives it."""
    values = {
        "id": f"chunk-{number:03}",
        "session_id": "session",
        "branch_id": "branch",
        "source_turn": "turn-1",
        "side": side,
        "start": start,
        "end": start + len(text),
        "rendered_text": text,
        "summary": "",
        "chunk_type": "Other",
        "token_est": count(text),
        "content_hash": text_hash(text).hex(),
        "created_at": THEN,
    }
    return Chunk(**{**values, **more})


def prose(words: int, about: str = "river") -> str:
    """Make sentences of about that many words."""
    sentences = [
        f"Sentence {number} tells what happened at the {about} on day {number}." for number in range(words // 11)
    ]
    return " ".join(sentences)
