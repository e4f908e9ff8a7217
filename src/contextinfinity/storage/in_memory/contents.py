"""Texts and blobs by their hash, in memory."""

from __future__ import annotations

import hashlib
from datetime import timedelta

from contextinfinity.domain import wire
from contextinfinity.domain.ids import now
from contextinfinity.domain.message import Message, blobs_of
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.in_memory.tables import Tables


class InMemoryContents:
    """The ``Contents`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def keep_text(self, body: str) -> str:
        """Keep a text and give its hash."""
        sha256 = wire.text_hash(body).hex()
        with self._tables.transaction() as tables:
            tables.texts[sha256] = (body, now())
            return sha256

    async def text(self, sha256: str) -> str | None:
        """Read a text."""
        with self._tables.transaction() as tables:
            found = tables.texts.get(sha256)
            return None if found is None else found[0]

    async def keep_blob(self, body: bytes, media_type: str) -> str:
        """Keep bytes and give their hash."""
        sha256 = hashlib.sha256(body).hexdigest()
        with self._tables.transaction() as tables:
            _, kept_as, _ = tables.blobs.get(sha256, (body, media_type, now()))
            tables.blobs[sha256] = (body, kept_as, now())
            return sha256

    async def blob(self, sha256: str) -> tuple[bytes, str] | None:
        """Read bytes and their media type."""
        with self._tables.transaction() as tables:
            found = tables.blobs.get(sha256)
            return None if found is None else found[:2]

    async def collect(self, *, older_than: timedelta = timedelta(hours=1)) -> int:
        """Remove what nothing refers to and nobody kept for that long."""
        before = now() - older_than
        with self._tables.transaction() as tables:
            used = _texts_in_use(tables)
            texts = [name for name, (_, kept_at) in tables.texts.items() if kept_at < before and name not in used]
            blobs = [
                name
                for name, (_, _, kept_at) in tables.blobs.items()
                if kept_at < before and name not in tables.blobs_shown
            ]
            for name in texts:
                del tables.texts[name]
            for name in blobs:
                del tables.blobs[name]
            return len(texts) + len(blobs)


def check_blobs(tables: Tables, *messages: Message | None) -> set[str]:
    """Name the blobs that messages show; refuse one that is not kept."""
    shown = {sha256 for message in messages if message is not None for sha256 in blobs_of(message.blocks)}
    for sha256 in sorted(shown - tables.blobs.keys()):
        raise InvalidInput(f"The message shows a blob {sha256} that is not kept.", hint="Keep its bytes first.")
    return shown


def _texts_in_use(tables: Tables) -> set[str]:
    systems = (session.system for session in tables.sessions.values() if session.system is not None)
    summaries = (state.summary for state in tables.states.values())
    plans = (*(step.plan for step in tables.steps.values()), *tables.questions.values())
    named = {name for plan in plans for name in (plan.front, plan.form, plan.redactions) if name is not None}
    return named | {wire.text_hash(text).hex() for text in (*systems, *summaries)}
