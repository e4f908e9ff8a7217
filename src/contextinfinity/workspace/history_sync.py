"""Keeps the portable history file and the ledger in step.

A message is written to the ledger first, then to the file. Whatever stopped in between is repaired at the next start:
the one that ends earlier gets what is missing. Where they differ, the file was continued elsewhere, and its session is
loaded; what the ledger holds stays there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from contextinfinity.domain.message import ImageBlock, Message
from contextinfinity.workspace.assembly import ChatMessage, user_content
from contextinfinity.workspace.history import WorkspaceHistory
from contextinfinity.workspace.history_file import ROLES, HistoryStore

log = logging.getLogger(__name__)

NEWEST_TURNS = 100
COMPARED = 20
"""How many messages have to be the same before two histories count as the same one."""


def record(store: HistoryStore, messages: Sequence[Message], files: Sequence[str] = ()) -> None:
    """Append what a user or assistant said; a file that cannot be written is left behind with a warning.

    ``files`` are the paths that were open; they are kept with the user's messages.
    """
    try:
        for message in messages:
            if message.role in ROLES:
                opened = list(files) if files and message.role == "user" else None
                store.append_message(None, message.role, message.rendered_text, images=_images(message), files=opened)
    except OSError as error:
        log.warning("the history file %s is not written: %s", store.folder, error)


def messages_of_session(store: HistoryStore, session_id: str) -> list[ChatMessage]:
    """Return the messages of a session in the form of a history; a question without words and images is left out."""
    return [
        {"role": one["role"], "content": user_content(one["content"], one.get("_images", ()))}
        for one in store.get_session_messages_for_context(session_id)
        if one["content"].strip() or one.get("_images") or one["role"] == "assistant"
    ]


async def repair(history: WorkspaceHistory, store: HistoryStore, data_dir: Path) -> tuple[Sequence[ChatMessage], bool]:
    """Give the file what only the ledger has. Return what only the file has, and whether it replaces the history."""
    missing = await _repair(history, store)
    await history.register(store, data_dir)
    return missing


async def _repair(history: WorkspaceHistory, store: HistoryStore) -> tuple[Sequence[ChatMessage], bool]:
    session_id = store.restore_session()
    kept = messages_of_session(store, session_id) if session_id else []
    stored = [message for message in await history.newest(NEWEST_TURNS) if message.role in ROLES]
    if not stored:
        return kept, False
    ours = [(message.role, message.rendered_text) for message in stored]
    theirs = [(one["role"], _text(one)) for one in kept]
    if not theirs:
        record(store, [message for message in await history.newest(None) if message.role in ROLES])
    elif (place := difference(ours, theirs)) is not None:
        record(store, stored[place:])
    elif (place := difference(theirs, ours)) is not None:
        return kept[place:], False
    else:
        log.info("the history file was continued elsewhere: its newest session is loaded")
        return kept, True
    return (), False


def difference(longer: Sequence[tuple[str, str]], shorter: Sequence[tuple[str, str]]) -> int | None:
    """Return the place in one history after which the other ends (0: the other is empty); None: it does not."""
    if not shorter:
        return 0
    for end in range(len(longer), 0, -1):
        count = min(end, len(shorter), COMPARED)
        if longer[end - count : end] == shorter[len(shorter) - count :]:
            return end
    return None


def _images(message: Message) -> list[str]:
    """Return the images of a message as data URIs; those behind an address are not kept in the file."""
    return [
        f"data:{block.media_type};base64,{dict(block.source)['data']}"
        for block in message.blocks
        if isinstance(block, ImageBlock) and dict(block.source).get("data")
    ]


def _text(message: ChatMessage) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
