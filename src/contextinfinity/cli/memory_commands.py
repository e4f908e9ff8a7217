"""``cix memories``, ``remember`` and ``forget``: a user's memories across conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, command
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from contextinfinity.client.results import ShownMemory
    from contextinfinity.domain.session import Owner

memories = typer.Typer(name="memories", help="List, edit, export and check memories.")

LOCAL = "local"
Reference = Annotated[
    str, typer.Argument(metavar="MEMORY_ID", help="An id, or the first or last 6 or more characters of one.")
]
Fact = Annotated[str, typer.Argument(metavar="FACT", help="One fact in one sentence.", show_default=False)]
Tag = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="user:ID or thread:ID; default: the user's.")
]
Question = Annotated[
    str | None, typer.Option("--about", metavar="WORDS", help="Only memories relevant to these words.")
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="The maximum number of results.")]


@memories.command("list")
@command
def list_memories(options: CommonOptions, about: Question = None, tag: Tag = None, limit: Limit = 50) -> None:
    """List memories, newest first."""
    from contextinfinity.cli.engine_thread import working

    if tag is not None and len(tag) > 1:
        raise InvalidInput("A list takes at most one --tag.")
    owner = _owner(options, tag or ())
    with working(options) as work:
        query = work.client.memories.list(owner, tag=tag[0] if tag else None, q=about, limit=limit)
        found = work.do(query)
    _print(options, found)


@memories.command("edit")
@command
def edit(options: CommonOptions, memory_id: Reference, fact: Fact) -> None:
    """Replace the text of a memory. The old text is deleted permanently."""
    from contextinfinity.cli.engine_thread import working

    with working(options) as work:
        known = work.do(work.client.memories.find(memory_id, options.owner))
        edited = work.do(work.client.memories.edit(known.id, fact, owner=options.owner))
    _print(options, [edited])


@memories.command("export")
@command
def export(options: CommonOptions) -> None:
    """Print all memories as JSON lines, including superseded ones."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json

    with working(options) as work:
        found = work.do(work.client.memories.export(options.owner))
    for memory in found:
        print_json(memory, indent=None)


@memories.command("audit")
@command
def audit(options: CommonOptions) -> None:
    """Find memories that their turn does not support, duplicates, and expired ones."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, print_notice, print_table, shown_id

    with working(options) as work:
        found = work.do(work.client.memories.audit(options.owner))
    if options.as_json:
        print_json({"findings": found})
    elif found:
        print_table(
            ("memory", "trouble", "why"), ((shown_id(one.memory_id), one.trouble, one.why) for one in found), whole=True
        )
    else:
        print_notice("No problems: every memory is supported by its turn, current and unique.")


@command
def remember(options: CommonOptions, fact: Fact, tag: Tag = None) -> None:
    """Remember a fact in all conversations, or in one."""
    from contextinfinity.cli.engine_thread import working

    with working(options, creates=True) as work:
        kept = work.do(work.client.memories.add(fact, tags=tag or (), owner=_owner(options, tag or ())))
    _print(options, [kept])


@command
def forget(options: CommonOptions, memory_id: Reference) -> None:
    """Delete a memory permanently. No prompt contains it any more, and earlier turns cannot restore it."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, print_notice

    with working(options) as work:
        known = work.do(work.client.memories.find(memory_id, options.owner))
        work.do(work.client.memories.forget(known.id, owner=options.owner))
    if options.as_json:
        print_json({"forgotten": known.id})
    else:
        print_notice("The memory is deleted. The conversation that it came from is unchanged.")


def _owner(options: CommonOptions, tags: Sequence[str]) -> Owner:
    """Return the owner of the memories, from a tag or --user."""
    from contextinfinity.domain.session import Owner

    named = [tag.removeprefix("user:") for tag in tags if tag.startswith("user:")]
    return Owner(user_id=named[0]) if named and options.user == LOCAL else options.owner


def _print(options: CommonOptions, found: Sequence[ShownMemory]) -> None:
    from contextinfinity.cli.output import local_time, print_json, print_notice, print_table, shown_id

    if options.as_json:
        print_json({"memories": found})
    elif found:
        rows = ((shown_id(one.id), local_time(one.created_at), _scope_name(one), one.content) for one in found)
        print_table(("memory", "since", "of", "fact"), rows, whole=True)
    else:
        print_notice("There are no memories.")


def _scope_name(memory: ShownMemory) -> str:
    return "thread" if len(memory.tags) > 1 else "user"
