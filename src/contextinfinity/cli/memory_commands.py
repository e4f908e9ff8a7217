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
def list_memories(means: CommonOptions, about: Question = None, tag: Tag = None, limit: Limit = 50) -> None:
    """List memories, newest first."""
    from contextinfinity.cli.engine_thread import working

    if tag is not None and len(tag) > 1:
        raise InvalidInput("A list takes at most one --tag.")
    owner = _owner(means, tag or ())
    with working(means) as work:
        query = work.client.memories.list(owner, tag=tag[0] if tag else None, q=about, limit=limit)
        found = work.do(query)
    _print(means, found)


@memories.command("edit")
@command
def edit(means: CommonOptions, memory_id: Reference, fact: Fact) -> None:
    """Replace the text of a memory. The old text is deleted permanently."""
    from contextinfinity.cli.engine_thread import working

    with working(means) as work:
        known = work.do(work.client.memories.find(memory_id, means.owner))
        edited = work.do(work.client.memories.edit(known.id, fact, owner=means.owner))
    _print(means, [edited])


@memories.command("export")
@command
def export(means: CommonOptions) -> None:
    """Print all memories as JSON lines, including superseded ones."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json

    with working(means) as work:
        found = work.do(work.client.memories.export(means.owner))
    for memory in found:
        print_json(memory, indent=None)


@memories.command("audit")
@command
def audit(means: CommonOptions) -> None:
    """Find memories that their turn does not support, duplicates, and expired ones."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, print_table, remark, shown_id

    with working(means) as work:
        found = work.do(work.client.memories.audit(means.owner))
    if means.as_json:
        print_json({"findings": found})
    elif found:
        print_table(
            ("memory", "trouble", "why"), ((shown_id(one.memory_id), one.trouble, one.why) for one in found), whole=True
        )
    else:
        remark("No problems: every memory is supported by its turn, current and unique.")


@command
def remember(means: CommonOptions, fact: Fact, tag: Tag = None) -> None:
    """Remember a fact in all conversations, or in one."""
    from contextinfinity.cli.engine_thread import working

    with working(means, creates=True) as work:
        kept = work.do(work.client.memories.add(fact, tags=tag or (), owner=_owner(means, tag or ())))
    _print(means, [kept])


@command
def forget(means: CommonOptions, memory_id: Reference) -> None:
    """Delete a memory permanently. No prompt contains it any more, and earlier turns cannot restore it."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, remark

    with working(means) as work:
        known = work.do(work.client.memories.find(memory_id, means.owner))
        work.do(work.client.memories.forget(known.id, owner=means.owner))
    if means.as_json:
        print_json({"forgotten": known.id})
    else:
        remark("The memory is deleted. The conversation that it came from is unchanged.")


def _owner(means: CommonOptions, tags: Sequence[str]) -> Owner:
    """Return the owner of the memories, from a tag or --user."""
    from contextinfinity.domain.session import Owner

    named = [tag.removeprefix("user:") for tag in tags if tag.startswith("user:")]
    return Owner(user_id=named[0]) if named and means.user == LOCAL else means.owner


def _print(means: CommonOptions, found: Sequence[ShownMemory]) -> None:
    from contextinfinity.cli.output import moment, print_json, print_table, remark, shown_id

    if means.as_json:
        print_json({"memories": found})
    elif found:
        rows = ((shown_id(one.id), moment(one.created_at), _shelf(one), one.content) for one in found)
        print_table(("memory", "since", "of", "fact"), rows, whole=True)
    else:
        remark("There are no memories.")


def _shelf(memory: ShownMemory) -> str:
    return "thread" if len(memory.tags) > 1 else "user"
