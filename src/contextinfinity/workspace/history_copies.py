"""Deletion in the history files of workspaces, which repeat conversations of the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from contextinfinity.domain.ids import SessionId
from contextinfinity.domain.turn import Turn
from contextinfinity.storage.ledger.deletions import Deletions
from contextinfinity.storage.workspace_registry import Registration, registrations
from contextinfinity.workspace.history_file import HistoryMessage, remove_messages, said_at


class WorkspaceHistories:
    """The lines and images of all workspaces that a data_dir knows; a folder that is gone is left out."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    async def clear(self, deletions: Deletions, sessions: Sequence[SessionId]) -> None:
        """Remove the lines of deleted conversations and those past their time to live."""
        known = await asyncio.to_thread(registrations, self._data_dir)
        cutoffs = await deletions.cutoffs({one.session_id for one in known}) if known else {}
        for one in known:
            if (cutoff := cutoffs.get(one.session_id)) is not None:
                await _remove(one, lambda message, cutoff=cutoff: said_at(message.timestamp) <= cutoff)  # type: ignore[misc]

    async def clear_turn(self, turn: Turn) -> None:
        """Remove the lines that say what the turn says."""
        texts = {("user", turn.user_message.rendered_text), ("assistant", turn.text)}
        for one in await asyncio.to_thread(registrations, self._data_dir):
            if one.session_id == turn.session_id:
                await _remove(one, lambda message: (message.role, message.content) in texts)


async def _remove(where: Registration, is_gone: Callable[[HistoryMessage], bool]) -> None:
    if where.folder.is_dir():
        await asyncio.to_thread(
            remove_messages, where.folder, lambda message: message.session_id == where.name and is_gone(message)
        )
