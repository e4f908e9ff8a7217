"""Resolves the conversation and branch that a user names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextinfinity.cli.command_options import CommonOptions
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.domain.ids import BranchId, SessionId


def place(
    work: EngineThread, options: CommonOptions, thread: str, branch: str | None = None
) -> tuple[SessionId, BranchId | None]:
    """Return the ids of a conversation and, if one is named, its branch."""
    threads = work.client.threads
    thread_id = work.do(threads.find(thread, options.owner)).thread_id
    if branch is None:
        return thread_id, None
    return thread_id, work.do(threads.find_branch(thread_id, branch)).branch_id
