"""``cix branches``, ``switch``, ``fork``, ``rollback`` and ``commit``. None deletes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import Branch, CommonOptions, Thread, command
from contextinfinity.errors import InvalidInput
from contextinfinity.text.plurals import counted

if TYPE_CHECKING:
    from contextinfinity.client.results import ShownBranch

BRANCH_HELP = "A label, an id, or the first or last 6 or more characters of one."
BranchName = Annotated[str, typer.Argument(metavar="BRANCH", help=BRANCH_HELP, show_default=False)]
At = Annotated[
    int | None, typer.Option("--at", metavar="SEQ", min=0, help="Fork after this turn; 0: before the first.")
]
To = Annotated[
    int | None, typer.Option("--to", metavar="SEQ", min=0, help="Roll back to this turn; 0: before the first.")
]
AtState = Annotated[int | None, typer.Option("--state", metavar="N", min=0, help="Use this state instead of a turn.")]


@command
def branches(options: CommonOptions, thread: Thread) -> None:
    """List the branches of a conversation."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json
    from contextinfinity.cli.thread_choice import place

    with working(options) as work:
        found = work.do(work.client.threads.branches(place(work, options, thread)[0]))
    if options.as_json:
        print_json({"thread_id": found[0].thread_id, "branches": found})
    else:
        _print_branches(found)


@command
def switch(options: CommonOptions, thread: Thread, branch: BranchName) -> None:
    """Make another branch the active one."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.thread_choice import place

    with working(options) as work:
        thread_id, wanted = place(work, options, thread, branch)
        active = work.do(work.client.threads.switch(thread_id, str(wanted)))
    _print_branch(options, active, "is active now")


@command
def fork(options: CommonOptions, thread: Thread, at: At = None, state: AtState = None, branch: Branch = None) -> None:
    """Create a branch; the active one stays active. It begins at a turn (current pins) or a state (its pins)."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.thread_choice import place

    if at is not None and state is not None:
        raise InvalidInput(
            "--at and --state cannot be used together.", hint="Use one of them, or none to fork at the end."
        )
    with working(options) as work:
        thread_id, origin = place(work, options, thread, branch)
        made = work.do(work.client.threads.fork(thread_id, at=at, state=state, branch_id=origin))
    _print_branch(options, made, f"goes on after turn {made.fork_seq}; write to it with --branch")


@command
def rollback(
    options: CommonOptions, thread: Thread, to: To = None, state: AtState = None, branch: Branch = None
) -> None:
    """Go back to an earlier turn or state on a new branch. --to keeps the current pins; --state restores its own."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.thread_choice import place

    if (to is None) == (state is None):
        raise InvalidInput("A rollback needs exactly one target.", hint="Name it with --to SEQ or --state N.")
    with working(options) as work:
        thread_id, origin = place(work, options, thread, branch)
        made = work.do(work.client.threads.rollback(thread_id, to=to, state=state, branch_id=origin))
    _print_branch(options, made, f"is active now and goes on after turn {made.fork_seq}")


@command
def commit(options: CommonOptions, thread: Thread, branch: Branch = None) -> None:
    """Commit answered turns now. Otherwise background jobs commit them a moment later."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json
    from contextinfinity.cli.thread_choice import place

    with working(options) as work:
        thread_id, branch_id = place(work, options, thread, branch)
        committed = work.do(work.client.threads.commit(thread_id, branch_id=branch_id))
    if options.as_json:
        print_json(committed)
    else:
        left = f"; {counted(committed.pending, 'turn')} still pending" if committed.pending else ""
        typer.echo(f"The head is state {committed.state}{left}.")
    if committed.pending:
        raise typer.Exit(1)


def _print_branch(options: CommonOptions, branch: ShownBranch, what: str) -> None:
    from contextinfinity.cli.output import print_json

    if options.as_json:
        print_json(branch)
    else:
        typer.echo(f"branch {branch.branch_id} {what}")


def _print_branches(branches: tuple[ShownBranch, ...]) -> None:
    from contextinfinity.cli.output import local_time, print_table, shown_id

    rows = (
        (
            "*" if branch.active else "",
            shown_id(branch.branch_id),
            str(branch.last_turn_seq),
            str(branch.state),
            local_time(branch.created_at),
            " ".join(filter(None, (branch.label, _origin(branch)))),
        )
        for branch in branches
    )
    print_table(("", "id", "turns", "state", "made", "name"), rows)


def _origin(branch: ShownBranch) -> str:
    from contextinfinity.cli.output import shown_id

    return f"from {shown_id(branch.parent_id)} after turn {branch.fork_seq}" if branch.parent_id else ""
