"""``cix sessions``, ``cix show`` and ``cix rename``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import Branch, CommonOptions, Thread, command

if TYPE_CHECKING:
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.client.results import Conversation, ShownThread, ShownTurn

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
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json
    from contextinfinity.cli.thread_choice import place

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
