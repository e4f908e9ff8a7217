"""``cix search``, and ``cix reindex`` and ``cix rebuild`` for the search index."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

import typer

from contextinfinity.cli.command_options import Branch, CommonOptions, command, command_here
from contextinfinity.cli.output import bar
from contextinfinity.errors import InvalidInput
from contextinfinity.text.plurals import counted

if TYPE_CHECKING:
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.client.contract import TurnTarget
    from contextinfinity.domain.search import Hits

Known = TypeVar("Known")

TIME_HELP = "A day or a time, such as 2026-05-31 or 2026-05-31T18:00+02:00; UTC where no zone is given."
Words = Annotated[str, typer.Argument(metavar="WORDS", help="The search query: words or a question.")]
Session = Annotated[str | None, typer.Option("--session", metavar="ID|last", help="Only in this conversation.")]
Budget = Annotated[
    int | None, typer.Option("--budget", metavar="N", min=1, help="Return the results that fit into N tokens.")
]
Type = Annotated[
    list[str] | None, typer.Option("--type", metavar="T", help="Code, Explanation, Decision, UserContext, …")
]
Role = Annotated[list[str] | None, typer.Option("--role", metavar="R", help="user, assistant or tool.")]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help=TIME_HELP)]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help=TIME_HELP)]
Limit = Annotated[
    int,
    typer.Option("--limit", metavar="N", min=1, max=1000, help="The maximum number of results, if no budget is given."),
]

SHOWN = 400
"""Characters of a hit that are printed for people."""


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Search filters and limits."""

    session: Session = None
    branch: Branch = None
    type_: Type = None
    role: Role = None
    since: Since = None
    until: Until = None
    limit: Limit = 10

    def where(self, work: EngineThread, options: CommonOptions) -> TurnTarget:
        """Return the filters as a search target."""
        from contextinfinity.cli.answer_output import place
        from contextinfinity.domain.search import ChunkSide, ChunkType

        where: TurnTarget = {
            "user_id": options.named_user,
            "limit": self.limit,
            "types": _each("--type", self.type_, get_args(ChunkType)),
            "roles": _each("--role", self.role, get_args(ChunkSide)),
            "since": _time("--since", self.since),
            "until": _time("--until", self.until),
        }
        if self.branch is not None and self.session is None:
            raise InvalidInput("--branch needs --session.", hint="A branch belongs to a conversation.")
        if self.session is not None:
            where["thread_id"], where["branch_id"] = place(work, options, self.session, self.branch)
        return where


@command
def search(options: CommonOptions, words: Words, filters: Filters, budget: Budget = None) -> None:
    """Search all conversations, or one."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json

    with working(options) as work:
        where = filters.where(work, options)
        where["budget"] = budget
        hits = work.do(work.client.past.search(words, **where))
    if options.as_json:
        print_json(hits)
    else:
        print_hits(hits)


@command_here
def reindex(options: CommonOptions) -> None:
    """Complete the search index. Adds missing chunks and vectors, also after the embedder was changed."""
    _bring(options, rebuild=False)


@command_here
def rebuild(options: CommonOptions) -> None:
    """Rebuild the search index. Its source is the conversations; search keeps working meanwhile."""
    _bring(options, rebuild=True)


def _bring(options: CommonOptions, *, rebuild: bool) -> None:
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, print_notice

    with working(options) as work, bar("indexing") as progress:
        brought = work.do(work.client.past.complete_index(rebuild=rebuild, progress=progress))
    if options.as_json:
        print_json(brought)
    elif not brought.turns and not brought.vectors:
        print_notice("Nothing is missing.")
    else:
        turns, vectors = counted(brought.turns, "turn"), counted(brought.vectors, "further vector")
        print_notice(f"{turns} indexed, {vectors} made.")


def _each(option: str, given: list[str] | None, known: tuple[Known, ...]) -> tuple[Known, ...]:
    """Return the given values of an option, ignoring case. Raises an error for unknown ones."""
    names = {str(name).lower(): name for name in known}
    for value in given or ():
        if value.lower() not in names:
            raise InvalidInput(
                f"{option} {value} is not a known value.", hint=f"There are {', '.join(map(str, known))}."
            )
    return tuple(names[value.lower()] for value in given or ())


def _time(option: str, given: str | None) -> datetime | None:
    if given is None:
        return None
    try:
        read = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidInput(f"{option} {given}: that is not a date or time.", hint=TIME_HELP) from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def print_hits(hits: Hits, *, numbered: bool = False) -> None:
    """Print what was found: the text, and below it its score, who said it, when, and the ids that other commands take.

    In a ``numbered`` list hits are named by their numbers, so the ids are short.
    """
    from contextinfinity.cli.output import local_time, one_line, print_notice, say, wrapped
    from contextinfinity.client.references import short

    for number, hit in enumerate(hits.hits, start=1):
        front = f"{number}. " if numbered else ""
        say(wrapped(f"{front}{one_line(hit.text, SHOWN)}") + "\n")
        thread, chunk = (short(hit.thread_id), "") if numbered else (hit.thread_id, f", chunk {hit.chunk_id}")
        facts = f"{hit.score:.2f}, {hit.speaker or hit.role}, {local_time(hit.created_at)}"
        say(wrapped(f"   {facts}, turn {hit.turn_seq} of {thread}{chunk}") + "\n")
    for what in hits.missing:
        print_notice(f"There may be more: {what}")
    print_notice(f"{len(hits.hits)} found, {counted(hits.tokens, 'token')}" if hits.hits else "Nothing was found.")
