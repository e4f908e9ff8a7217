"""``cix branches``, ``switch``, ``fork`` and ``rollback``: the lines of a conversation. None deletes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.options import Branch, Means, Thread, command
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.client.values import ShownBranch

BRANCH_HELP = "A label, an id, or the first or last 6 or more characters of one."
BranchName = Annotated[str, typer.Argument(metavar="BRANCH", help=BRANCH_HELP, show_default=False)]
At = Annotated[int | None, typer.Option("--at", metavar="SEQ", min=0, help="After this turn; 0 is before the first.")]
To = Annotated[int | None, typer.Option("--to", metavar="SEQ", min=0, help="Back to this turn; 0: before the first.")]
AtState = Annotated[int | None, typer.Option("--state", metavar="N", min=0, help="The state of this number.")]


@command
def branches(means: Means, thread: Thread) -> None:
    """List the branches of a conversation."""
    from contextinfinity.cli.places import place
    from contextinfinity.cli.printing import print_json
    from contextinfinity.cli.working import working

    with working(means) as work:
        found = work.do(work.client.threads.branches(place(work, means, thread)[0]))
    if means.as_json:
        print_json({"thread_id": found[0].thread_id, "branches": found})
    else:
        _print_branches(found)


@command
def switch(means: Means, thread: Thread, branch: BranchName) -> None:
    """Make another branch the active one."""
    from contextinfinity.cli.places import place
    from contextinfinity.cli.working import working

    with working(means) as work:
        thread_id, wanted = place(work, means, thread, branch)
        active = work.do(work.client.threads.switch(thread_id, str(wanted)))
    _print_branch(means, active, "is active now")


@command
def fork(means: Means, thread: Thread, at: At = None, state: AtState = None, branch: Branch = None) -> None:
    """Start a new branch after a turn (pins go along) or from a state (with its pins); the active one stays active."""
    from contextinfinity.cli.places import place
    from contextinfinity.cli.working import working

    if at is not None and state is not None:
        raise InvalidInput("--at and --state name two places.", hint="Give one of them, or none for the end.")
    with working(means) as work:
        thread_id, origin = place(work, means, thread, branch)
        made = work.do(work.client.threads.fork(thread_id, at=at, state=state, branch_id=origin))
    _print_branch(means, made, f"goes on after turn {made.fork_seq}; write to it with --branch")


@command
def rollback(means: Means, thread: Thread, to: To = None, state: AtState = None, branch: Branch = None) -> None:
    """Go back to a turn (pins go along) or a state (with its pins), on a new branch that becomes the active one."""
    from contextinfinity.cli.places import place
    from contextinfinity.cli.working import working

    if (to is None) == (state is None):
        raise InvalidInput("A rollback needs one place.", hint="Name it with --to SEQ or --state N.")
    with working(means) as work:
        thread_id, origin = place(work, means, thread, branch)
        made = work.do(work.client.threads.rollback(thread_id, to=to, state=state, branch_id=origin))
    _print_branch(means, made, f"is active now and goes on after turn {made.fork_seq}")


def _print_branch(means: Means, branch: ShownBranch, what: str) -> None:
    from contextinfinity.cli.printing import print_json

    if means.as_json:
        print_json(branch)
    else:
        typer.echo(f"branch {branch.branch_id} {what}")


def _print_branches(branches: tuple[ShownBranch, ...]) -> None:
    from contextinfinity.cli.printing import moment, print_table, shown_id

    rows = (
        (
            "*" if branch.active else "",
            shown_id(branch.branch_id),
            str(branch.last_turn_seq),
            str(branch.state),
            moment(branch.created_at),
            " ".join(filter(None, (branch.label, _origin(branch)))),
        )
        for branch in branches
    )
    print_table(("", "id", "turns", "state", "made", "name"), rows)


def _origin(branch: ShownBranch) -> str:
    from contextinfinity.cli.printing import shown_id

    return f"from {shown_id(branch.parent_id)} after turn {branch.fork_seq}" if branch.parent_id else ""
