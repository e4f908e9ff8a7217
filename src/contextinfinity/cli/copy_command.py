"""``cix copy`` (copies an answer to the clipboard) and ``cix completion`` (shell completion)."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from contextinfinity.cli.command_options import Branch, CommonOptions, Thread, command, command_for_all_users
from contextinfinity.errors import NotFound

TurnNumber = Annotated[
    int | None, typer.Option("--turn", metavar="SEQ", min=1, help="The number of the turn; default: the last one.")
]
Shell = Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]


@command
def copy(options: CommonOptions, thread: Thread = "last", branch: Branch = None, turn: TurnNumber = None) -> None:
    """Copy an answer to the clipboard."""
    from contextinfinity.cli.answer_output import place
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import copy_to_clipboard, print_json, print_notice

    with working(options) as work:
        thread_id, branch_id = place(work, options, thread, branch)
        before = None if turn is None else turn + 1
        shown = work.do(work.client.conversations.show(thread_id, branch_id=branch_id, limit=1, before=before)).turns
    if not shown or turn not in (None, shown[-1].turn_seq) or not shown[-1].assistant:
        raise NotFound("There is no such answer.", hint="`cix show ID` lists the turns of a conversation.")
    where = copy_to_clipboard(shown[-1].assistant)
    if options.as_json:
        print_json({"turn_seq": shown[-1].turn_seq, "characters": len(shown[-1].assistant), "clipboard": where})
    else:
        print_notice(f"Copied the answer of turn {shown[-1].turn_seq} ({len(shown[-1].assistant):,} characters).")


@command_for_all_users
def completion(options: CommonOptions, shell: Shell) -> None:
    """Print a script that lets a shell complete commands. Use it with eval "$(cix completion bash)"."""
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name="cix", complete_var=COMPLETE, shell=shell))


COMPLETE = "_CIX_COMPLETE"
"""The variable with which a shell asks for completions."""
