"""``cix delete`` and ``cix cleanup``: the only commands that delete conversations or turns."""

from __future__ import annotations

from typing import Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, Thread, command, command_here, settings_for
from contextinfinity.errors import InvalidInput
from contextinfinity.text.plurals import counted

Yes = Annotated[bool, typer.Option("--yes", help="Do it; without this nothing is deleted.")]


@command
def delete(means: CommonOptions, thread: Thread, yes: Yes = False) -> None:
    """Delete a conversation and everything derived from it, permanently."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, remark
    from contextinfinity.cli.thread_choice import place
    from contextinfinity.storage import typed_lines

    with working(means) as work:
        thread_id, _ = place(work, means, thread)
        if not yes:
            raise InvalidInput(f"Conversation {thread_id} would be deleted for good.", hint="Say so with --yes.")
        deleted = work.do(work.client.threads.delete(thread_id))
    if means.server is not None:  # its own files are the server's business; what was typed here is here
        typed_lines.forget(settings_for(means.config, means.data_dir).settings.data_dir / "chat_history", thread_id)
    if means.as_json:
        print_json(deleted)
    else:
        remark(f"Deleted {deleted.thread_id}: {counted(deleted.turns, 'turn')}.")
        for sentence in deleted.remaining:
            remark(sentence)


@command_here
def cleanup(means: CommonOptions) -> None:
    """Delete turns that are past their time to live; a running engine does this every few hours."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, remark

    with working(means) as work:
        result = work.do(work.client.threads.clean_up())
    if means.as_json:
        print_json(result)
    else:
        sessions, turns = counted(result.sessions_deleted, "conversation"), counted(result.turns_deleted, "turn")
        remark(f"Deleted {sessions} and {turns} in {result.execution_time:.1f} s.")
        for error in result.errors:
            remark(f"Not done: {error}")
        for sentence in result.remaining:
            remark(sentence)
    if result.errors:
        raise typer.Exit(1)
