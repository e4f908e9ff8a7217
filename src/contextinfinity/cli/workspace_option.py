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
    work: EngineThread, options: CommonOptions, folder: Path | None, session: str, branch: str | None, model: str | None
) -> tuple[str, SendFields]:
    """Find out where a question goes and how; in a workspace ``last`` is its own last session."""
    from contextinfinity.cli.answer_output import check_model, conversation_and_options

    if folder is None:
        return conversation_and_options(work, options, session, branch, model)
    from contextinfinity.cli.output import print_notice
    from contextinfinity.client.local import LocalClient

    if not isinstance(work.client, LocalClient):
        raise InvalidInput(
            "A workspace is read by this process, not by a server.",
            hint="Leave --server out; a server with the same data folder may keep running.",
        )
    if model is not None:
        check_model(model, work.do(work.client.conversations.models()))
    workspace = work.client.open_workspace(folder, model=model)
    workspace.warn = print_notice
    if session == "last":
        return work.do(workspace.last_session()), {"user_id": options.named_user, "model": model}
    return conversation_and_options(work, options, session, branch, model)
