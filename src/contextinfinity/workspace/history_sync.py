"""Keeps the portable history file and the ledger in step.

A message is written to the ledger first, then to the file. Whatever stopped in between is repaired at the next start:
the one that ends earlier gets what is missing. Where a context manager finds a different history in the file, the file
was continued elsewhere, and its session is loaded; what the ledger holds stays there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from contextinfinity.domain.message import ImageBlock, Message, TextBlock
from contextinfinity.workspace.history import WorkspaceHistory
from contextinfinity.workspace.history_file import ROLES, HistoryStore, said_at

log = logging.getLogger(__name__)

NEWEST_TURNS = 100
COMPARED = 20
"""How many messages have to be the same before two histories count as the same one."""


def record(
    store: HistoryStore, messages: Sequence[Message], files: Sequence[str] = (), session_id: str | None = None
) -> None:
    """Append what a user or assistant said; a file that cannot be written is left behind with a warning.

    ``files`` are the paths that were open; they are kept with the user's messages. Without a ``session_id`` the
    messages belong to the current session.
    """
    try:
        for message in messages:
            if message.role in ROLES:
                opened = list(files) if files and message.role == "user" else None
                store.append_message(
                    session_id, message.role, message.rendered_text, images=_images(message), files=opened
                )
    except OSError as error:
        log.warning("the history file %s is not written: %s", store.folder, error)


def messages_of_session(store: HistoryStore, session_id: str, *, after: datetime | None = None) -> list[Message]:
    """Return the messages of a session (``after``: only later ones) except questions without words and images."""
    messages = []
    for one in store.get_session_messages(session_id):
        images = [_image(uri) for uri in one["images"]] if one["role"] == "user" else []
        is_said = one["content"].strip() or images or one["role"] == "assistant"
        if is_said and (after is None or said_at(one["timestamp"]) > after):
            text = [TextBlock(text=one["content"])] if one["content"] or not images else []
            messages.append(Message(role=one["role"], blocks=(*text, *images)))
    return messages


async def repair(history: WorkspaceHistory, store: HistoryStore, data_dir: Path) -> tuple[Sequence[Message], bool]:
    """Give the file what only the ledger has. Return what only the file has, and whether it replaces the history."""
    missing = await _repair(history, store)
    await history.register(store, data_dir)
    return missing


async def _repair(history: WorkspaceHistory, store: HistoryStore) -> tuple[Sequence[Message], bool]:
    session_id = store.restore_session()
    kept = messages_of_session(store, session_id) if session_id else []
    stored = [message for message in await history.newest(NEWEST_TURNS) if message.role in ROLES]
    if not stored:
        return kept, False
    if not kept:
        stored = [message for message in await history.newest(None) if message.role in ROLES]
    if (place := difference(stored, kept)) is not None:
        record(store, await history.with_images(stored[place:]))
    elif (place := difference(kept, stored)) is not None:
        return kept[place:], False
    else:
        log.info("the history file was continued elsewhere: its newest session is loaded")
        return kept, True
    return (), False


def difference(longer: Sequence[Message], shorter: Sequence[Message]) -> int | None:
    """Return the place in one history after which the other ends (0: the other is empty); None: it does not."""
    if not shorter:
        return 0
    there = [(message.role, message.rendered_text) for message in longer]
    end_of_other = [(message.role, message.rendered_text) for message in shorter[-COMPARED:]]
    for end in range(len(there), 0, -1):
        count = min(end, len(end_of_other))
        if there[end - count : end] == end_of_other[-count:]:
            return end
    return None


def _images(message: Message) -> list[str]:
    """Return the images of a message as data URIs; those behind an address are not kept in the file."""
    return [
        f"data:{block.media_type};base64,{dict(block.source)['data']}"
        for block in message.blocks
        if isinstance(block, ImageBlock) and dict(block.source).get("data")
    ]


def _image(uri: str) -> ImageBlock:
    head, _, data = uri.partition(",")
    media_type = head.removeprefix("data:").removesuffix(";base64")
    return ImageBlock(media_type=media_type, source={"type": "base64", "data": data})
