"""``cix delete``, ``cix cleanup`` and ``cix retention``: the only commands that delete conversations or turns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import ID_HELP, CommonOptions, Thread, command, command_here, settings_for
from contextinfinity.errors import InvalidInput
from contextinfinity.text.plurals import counted

if TYPE_CHECKING:
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.domain.session import Deleted

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
    from contextinfinity.cli.thread_choice import place

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
