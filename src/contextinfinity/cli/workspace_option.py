"""``--workspace DIR``: a conversation about a repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.cli.command_options import CommonOptions
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.client.contract import SendFields

Folder = Annotated[
    Path | None,
    typer.Option("--workspace", metavar="DIR", help="Chat about this repository: its files, symbols and history."),
]


def question_target(
    work: EngineThread, means: CommonOptions, folder: Path | None, session: str, branch: str | None, model: str | None
) -> tuple[str, SendFields]:
    """Find out where a question goes and how; in a workspace ``last`` is its own last session."""
    from contextinfinity.cli.answer_output import check_model, way

    if folder is None:
        return way(work, means, session, branch, model)
    from contextinfinity.cli.chat.workspace_commands import last_session
    from contextinfinity.cli.output import remark
    from contextinfinity.client.local import LocalClient

    if not isinstance(work.client, LocalClient):
        raise InvalidInput("A workspace needs the engine in this process.", hint="Leave --server out.")
    if model is not None:
        check_model(model, work.do(work.client.conversations.models()))
    workspace = work.client.open_workspace(folder, model=model)
    workspace.warn = remark
    if session == "last":
        return last_session(workspace), {"user_id": means.named_user, "model": model}
    return way(work, means, session, branch, model)
