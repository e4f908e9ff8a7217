"""Keeps the portable history file and the ledger in step.

A message is written to the ledger first, then to the file. Whatever stopped in between is repaired at the next start:
the file gets what it lacks where it was said, and the ledger what was said in the file after its end. Where a context
manager finds a different history in the file, the file was continued elsewhere, and its session is loaded; what the
ledger holds stays there.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

from contextinfinity.domain.message import ImageBlock, Message, TextBlock
from contextinfinity.workspace.history import WorkspaceHistory
from contextinfinity.workspace.history_file import ROLES, HistoryStore, said_at

log = logging.getLogger(__name__)

WithImages: TypeAlias = Callable[[Sequence[Message]], Awaitable[Sequence[Message]]]
"""Returns messages of the ledger with the bytes of their images."""
NEWEST_TURNS = 100
MILLISECOND = timedelta(milliseconds=1)
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


def messages_of_session(
    store: HistoryStore, session_id: str, *, after: datetime | None = None, start: int = 0
) -> list[Message]:
    """Return the messages of a session except questions without words and images.

    ``after``: only later ones. The ledger stores whole milliseconds, so a message of the same millisecond is not later.
    """
    messages = []
    at_least = None if after is None else after + MILLISECOND
    for one in store.get_session_messages(session_id)[start:]:
        images = [_image(uri) for uri in one["images"]] if one["role"] == "user" else []
        is_said = one["content"].strip() or images or one["role"] == "assistant"
        if is_said and (at_least is None or said_at(one["timestamp"]) >= at_least):
            text = [TextBlock(text=one["content"])] if one["content"] or not images else []
            messages.append(Message(role=one["role"], blocks=(*text, *images)))
    return messages


async def complete(
    store: HistoryStore, session_id: str, stored: Sequence[Message], with_images: WithImages
) -> int | None:
    """Add what only the ledger has to a session of the file, where it was said.

    Return the place in ``get_session_messages`` from which on only the file has messages, if it goes on there.
    """
    kept = store.get_session_messages(session_id)
    ours = [(one["role"], one["content"]) for one in kept]
    theirs = [(message.role, message.rendered_text) for message in stored]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
    changes = SequenceMatcher(None, ours[same:], theirs[same:], autojunk=False).get_opcodes()
    for kind, _, place, first, last in changes:
        if kind in ("insert", "replace"):
            missing = await with_images(stored[same + first : same + last])
            if same + place == len(kept):
                record(store, missing, (), session_id)
            else:
                told = [(message.role, message.rendered_text, _images(message)) for message in missing]
                store.insert_messages(kept[same + place]["id"], told)
    return same + changes[-1][1] if changes and changes[-1][0] == "delete" else None


def said(messages: Sequence[Message]) -> list[Message]:
    """Return the messages that the file repeats: those of the user and the assistant that say something."""
    return [one for one in messages if one.role in ROLES and (one.rendered_text or _has_image(one))]


async def repair(history: WorkspaceHistory, store: HistoryStore, data_dir: Path) -> tuple[Sequence[Message], bool]:
    """Give the file what only the ledger has. Return what only the file has, and whether it replaces the history."""
    missing = await _repair(history, store)
    await history.register(store, data_dir)
    return missing


async def _repair(history: WorkspaceHistory, store: HistoryStore) -> tuple[Sequence[Message], bool]:
    session_id = store.restore_session()
    kept = messages_of_session(store, session_id) if session_id else []
    stored = said(await history.newest(NEWEST_TURNS if kept else None))
    if not stored:
        return kept, False
    if difference(stored, kept) is not None or _is_part(kept, stored):
        await complete(store, session_id or store.new_session(), stored, history.with_images)
    elif (place := difference(kept, stored)) is not None:
        return kept[place:], False
    else:
        log.info("the history file was continued elsewhere: its newest session is loaded")
        return kept, True
    return (), False


def _is_part(kept: Sequence[Message], stored: Sequence[Message]) -> bool:
    """Return whether all these messages are in the ledger, in their order."""
    there = iter([(message.role, message.rendered_text) for message in stored])
    return all((message.role, message.rendered_text) in there for message in kept)


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


def _has_image(message: Message) -> bool:
    return any(isinstance(block, ImageBlock) for block in message.blocks)


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
