"""Commands about conversations and their branches.

``cix sessions``, ``show`` and ``rename``; ``branches``, ``switch``, ``fork``, ``rollback`` and ``commit``, which delete
nothing; ``delete``, ``cleanup`` and ``retention``, the only commands that delete conversations or turns.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import (
    ID_HELP,
    Branch,
    CommonOptions,
    Thread,
    command,
    command_here,
    settings_for,
)
from contextinfinity.errors import InvalidInput
from contextinfinity.text.plurals import counted

if TYPE_CHECKING:
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.client.results import Conversation, ShownBranch, ShownThread, ShownTurn
    from contextinfinity.domain.session import Deleted

PAGE = 500

ListLimit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The maximum number, newest first.")]
ShowLimit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the newest N turns.")]

NewTitle = Annotated[str, typer.Argument(metavar="TITLE", help="The new title.", show_default=False)]


@command
def sessions(options: CommonOptions, limit: ListLimit = 50) -> None:
    """List conversations, most recently used first. On this machine those of all users, unless --user names one."""
    from contextinfinity.cli.engine_thread import listed_threads
    from contextinfinity.cli.output import print_json, print_notice

    found = listed_threads(options, limit + 1)
    if options.as_json:
        print_json({"sessions": found[:limit]})
    elif not found:
        print_notice('There are no conversations yet. Begin one with `cix ask "…"` or `cix chat`.')
    else:
        _print_threads(found[:limit])
        if len(found) > limit:
            print_notice(f"There are more; --limit {limit * 2} shows them.")


@command
def show(options: CommonOptions, thread: Thread, branch: Branch = None, limit: ShowLimit = None) -> None:
    """Show the messages of a conversation."""
    from contextinfinity.cli.answer_output import place
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json

    with working(options) as work:
        conversation = _read_newest_turns(work, *place(work, options, thread, branch), limit)
    if options.as_json:
        print_json(conversation)
    else:
        _print_conversation(conversation)


@command
def spending(options: CommonOptions) -> None:
    """Show what models cost a user today and this month, and the limits."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, print_table

    with working(options) as work:
        spent = work.do(work.client.conversations.spending(options.owner))
    if options.as_json:
        print_json(spent)
        return
    rows = (("today", spent.today, spent.limit_per_day), ("this month", spent.month, spent.limit_per_month))
    limits = [
        (period, f"${dollars:.4f}", "none" if limit is None else f"${limit:.2f}") for period, dollars, limit in rows
    ]
    print_table(("period (UTC)", "spent", "limit"), limits)


@command
def rename(options: CommonOptions, thread: Thread, title: NewTitle) -> None:
    """Set the title of a conversation; an empty title removes it."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, print_notice

    with working(options) as work:
        found = work.do(work.client.threads.find(thread, options.owner))
        renamed = work.do(work.client.threads.rename(found.thread_id, title.strip() or None))
    if options.as_json:
        print_json(renamed)
    else:
        print_notice(
            f"{renamed.thread_id} is called {renamed.title!r} now." if renamed.title else "It has no title now."
        )


def _read_newest_turns(work: EngineThread, thread_id: str, branch_id: str | None, limit: int | None) -> Conversation:
    """Read a conversation page by page, the newest first, until there is enough."""
    from msgspec.structs import replace

    newest = read = work.do(
        work.client.conversations.show(thread_id, branch_id=branch_id, limit=min(limit or PAGE, PAGE))
    )
    turns = list(read.turns)
    while read.turns and (limit is None or len(turns) < limit):
        wanted = PAGE if limit is None else min(limit - len(turns), PAGE)
        # The branch by its id: another process may switch the active one between two pages.
        read = work.do(
            work.client.conversations.show(
                thread_id, branch_id=newest.branch_id, limit=wanted, before=read.turns[0].turn_seq
            )
        )
        turns[:0] = read.turns
    return replace(newest, turns=tuple(turns))


def _print_threads(threads: tuple[ShownThread, ...]) -> None:
    from contextinfinity.cli.output import local_time, one_line, print_table, shown_id

    several = len({thread.user_id for thread in threads}) > 1
    rows = (
        (
            shown_id(thread.thread_id),
            local_time(thread.updated_at),
            str(thread.turns),
            *((one_line(thread.user_id),) if several else ()),
            one_line(thread.about),
        )
        for thread in threads
    )
    print_table(("id", "last", "turns", *(("user",) if several else ()), "title"), rows)


def _print_conversation(conversation: Conversation) -> None:
    from contextinfinity.cli.output import console

    screen = console()
    screen.print(f"conversation {conversation.thread_id}, branch {conversation.branch_id}", soft_wrap=True)
    for turn in conversation.turns:
        _print_turn(turn)


def _print_turn(turn: ShownTurn) -> None:
    from rich.text import Text

    from contextinfinity.cli.output import console, local_time
    from contextinfinity.text.terminal.control_characters import printable

    screen = console()
    head = [f"#{turn.turn_seq}", local_time(turn.created_at), turn.model, turn.outcome or turn.phase, turn.turn_id]
    screen.print(Text("\n" + " · ".join(part for part in head if part), style="dim"), soft_wrap=True)
    screen.print(Text(f"> {printable(turn.user)}", style="bold"), soft_wrap=True)
    if turn.assistant:
        screen.print(Text(printable(turn.assistant)), soft_wrap=True)
    if turn.error is not None:
        screen.print(Text(f"[{printable(turn.error.message)}]", style="red"), soft_wrap=True)


HOURS = {"h": 1, "d": 24, "w": 24 * 7, "y": 24 * 365}

Which = Annotated[str | None, typer.Argument(metavar="[ID]", help=ID_HELP, show_default=False)]
OneTurn = Annotated[str | None, typer.Option("--turn", metavar="TURN_ID|SEQ", help="Only this turn of it.")]
All = Annotated[bool, typer.Option("--all", help="All conversations and memories of --user.")]
Everything = Annotated[bool, typer.Option("--everything", help="All conversations and memories of all users.")]
Yes = Annotated[bool, typer.Option("--yes", help="Confirm; without this option nothing is deleted.")]
Time = Annotated[
    str | None, typer.Argument(metavar="[TIME]", help="How long: 12h, 30d, 8w, 2y, or forever.", show_default=False)
]


@command
def delete(
    options: CommonOptions,
    thread: Which = None,
    turn: OneTurn = None,
    all_of_user: All = False,
    everything: Everything = False,
    yes: Yes = False,
) -> None:
    """Delete turns, conversations or all data. It is permanent; a report lists each place that was searched."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json

    if (thread is not None) + all_of_user + everything != 1 or (turn is not None and thread is None):
        raise InvalidInput("Say what to delete.", hint="cix delete ID [--turn TURN], cix delete --all or --everything.")
    if everything and options.server is not None:
        raise InvalidInput("--everything works on this machine only.", hint="Run it where the ledger is.")
    with working(options) as work:
        deleted = _delete(work, options, thread, turn, everything=everything, yes=yes)
    if options.server is not None:
        _forget_typed_here(options, deleted)
    if options.as_json:
        print_json(deleted)
    else:
        _print(deleted)


def _delete(
    work: EngineThread, options: CommonOptions, thread: str | None, turn: str | None, *, everything: bool, yes: bool
) -> Deleted:
    from contextinfinity.cli.answer_output import place

    threads = work.client.threads
    if thread is None:
        what = "Everything of all users" if everything else f"All conversations and memories of {options.user}"
        _confirm(what, yes)
        return work.do(threads.delete_all(None if everything else options.owner, scan=True))
    thread_id, branch_id = place(work, options, thread)
    if turn is None:
        _confirm(f"Conversation {thread_id}", yes)
        return work.do(threads.delete(thread_id, scan=True))
    if turn.isdecimal():
        shown = work.do(work.client.conversations.show(thread_id, branch_id=branch_id, limit=1, before=int(turn) + 1))
        if not shown.turns or shown.turns[-1].turn_seq != int(turn):
            raise InvalidInput(f"Conversation {thread_id} has no turn {turn}.", hint="`cix show ID` lists them.")
        turn = shown.turns[-1].turn_id
    _confirm(f"Turn {turn} of conversation {thread_id}", yes)
    return work.do(threads.delete_turn(thread_id, turn, scan=True))


def _confirm(what: str, yes: bool) -> None:
    if not yes:
        raise InvalidInput(f"{what} would be deleted permanently.", hint="Add --yes to confirm.")


def _forget_typed_here(options: CommonOptions, deleted: Deleted) -> None:
    """Remove what was typed on this machine into a conversation that a server deleted."""
    from contextinfinity.storage import typed_lines

    file = settings_for(options.config, options.data_dir).settings.data_dir / "chat_history"
    if deleted.user_id is not None:  # which conversations were whose is not known here
        typed_lines.keep_only(file, lambda _: False)
    elif deleted.thread_id is not None:
        typed_lines.forget(file, deleted.thread_id)


def _print(deleted: Deleted) -> None:
    from contextinfinity.cli.output import print_notice, print_table

    what = deleted.turn_id or deleted.thread_id or counted(deleted.conversations, "conversation")
    memories = f", memories: {deleted.memories:,}" if deleted.memories else ""
    print_notice(f"Deleted {what}: {counted(deleted.turns, 'turn')}{memories}.")
    if deleted.places:
        rows = ((one.place, one.scanned, str(one.found), one.note) for one in deleted.places)
        print_table(("place", "searched", "found", ""), rows, whole=True)
    for sentence in deleted.remaining:
        print_notice(sentence)


@command
def retention(options: CommonOptions, thread: Thread, time: Time = None) -> None:
    """Show or set how long turns are kept."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, print_notice

    hours = _hours(time)
    with working(options) as work:
        found = work.do(work.client.threads.find(thread, options.owner))
        if time is not None:
            found = work.do(work.client.threads.retain(found.thread_id, hours))
    kept = "for ever" if found.ttl_hours is None else f"for {found.ttl_hours:g} hours"
    if options.as_json:
        print_json({"thread_id": found.thread_id, "ttl_hours": found.ttl_hours})
    else:
        print_notice(
            f"Turns of {found.thread_id} are kept {kept}; retention.hours in config.toml limits all conversations."
        )


def _hours(time: str | None) -> float | None:
    if time in (None, "forever"):
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,5})([hdwy])", (time or "").strip().lower())
    if found is None:
        raise InvalidInput(
            f"{time!r} is not a duration.", hint="Write a number and a unit, 12h, 30d, 8w or 2y, or forever."
        )
    return float(int(found[1]) * HOURS[found[2]])


@command_here
def cleanup(options: CommonOptions) -> None:
    """Delete turns past their time to live. A running engine does this every few hours."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, print_notice

    with working(options) as work:
        result = work.do(work.client.threads.clean_up())
    if options.as_json:
        print_json(result)
    else:
        sessions, turns = counted(result.sessions_deleted, "conversation"), counted(result.turns_deleted, "turn")
        print_notice(f"Deleted {sessions} and {turns} in {result.execution_time:.1f} s.")
        for error in result.errors:
            print_notice(f"Not done: {error}")
        for sentence in result.remaining:
            print_notice(sentence)
    if result.errors:
        raise typer.Exit(1)


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
    from contextinfinity.cli.answer_output import place
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json

    with working(options) as work:
        found = work.do(work.client.threads.branches(place(work, options, thread)[0]))
    if options.as_json:
        print_json({"thread_id": found[0].thread_id, "branches": found})
    else:
        _print_branches(found)


@command
def switch(options: CommonOptions, thread: Thread, branch: BranchName) -> None:
    """Make another branch the active one."""
    from contextinfinity.cli.answer_output import place
    from contextinfinity.cli.engine_thread import working

    with working(options) as work:
        thread_id, wanted = place(work, options, thread, branch)
        active = work.do(work.client.threads.switch(thread_id, str(wanted)))
    _print_branch(options, active, "is active now")


@command
def fork(options: CommonOptions, thread: Thread, at: At = None, state: AtState = None, branch: Branch = None) -> None:
    """Create a branch; the active one stays active. It begins at a turn (current pins) or a state (its pins)."""
    from contextinfinity.cli.answer_output import place
    from contextinfinity.cli.engine_thread import working

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
    from contextinfinity.cli.answer_output import place
    from contextinfinity.cli.engine_thread import working

    if (to is None) == (state is None):
        raise InvalidInput("A rollback needs exactly one target.", hint="Name it with --to SEQ or --state N.")
    with working(options) as work:
        thread_id, origin = place(work, options, thread, branch)
        made = work.do(work.client.threads.rollback(thread_id, to=to, state=state, branch_id=origin))
    _print_branch(options, made, f"is active now and goes on after turn {made.fork_seq}")


@command
def commit(options: CommonOptions, thread: Thread, branch: Branch = None) -> None:
    """Commit answered turns now. Otherwise background jobs commit them a moment later."""
    from contextinfinity.cli.answer_output import place
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json

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
