"""``cix import``: imports conversations; each message is stored once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from contextinfinity.cli.command_options import CommonOptions, command
from contextinfinity.cli.output import bar, print_notice
from contextinfinity.errors import ContextInfinityError, InvalidInput, NotFound

if TYPE_CHECKING:
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.exchange.import_progress import Format, Imported, Progress

INDEXED_AT_ONCE = 20_000
"""Messages that are indexed before the command ends: about twenty seconds."""
FORMAT_HELP = (
    "auto: detect it. chatgpt, claude, openwebui, librechat: their exports; llm: its logs.db; "
    "jsonl: one message per line; openai: a JSON list of messages, or lines; cix: our own."
)
SESSION_HELP = "The conversation for messages without one: an existing one, or a name for a new one."
MOST_SHOWN = 100
"""The most bad records that are printed."""

MOST_ROWS = 40
"""The most conversations that are printed one by one."""

FILE_HELP = "The export: JSON, JSON Lines, zip, gzip, a folder, or logs.db; - is standard input."

File = Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False)]
Form = Annotated[str, typer.Option("--format", metavar="auto|cix|chatgpt|claude|…", help=FORMAT_HELP)]
Home = Annotated[str | None, typer.Option("--session", metavar="ID|last", help=SESSION_HELP)]


@command
def import_(options: CommonOptions, file: File, form: Form = "auto", session: Home = None) -> None:
    """Import conversations from a file. A second import adds only new messages. Exits with 1 if lines were skipped."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json

    known = _known(form)
    with working(options, creates=True) as work:
        home = None if session is None else _home(work, options, session)
        with _bar(file) as progress:
            loading = work.client.imports.load(file, form=known, thread_id=home, owner=options.owner, progress=progress)
            imported = work.do(loading)
        if options.server is None:
            _index(work, imported)
    if options.as_json:
        print_json(imported)
    else:
        _print(imported)
    if any(one.bad_count for one in imported.sessions):
        raise typer.Exit(1)


def _index(work: EngineThread, imported: Imported) -> None:
    """Index imported messages for semantic search; large imports are indexed in the background."""
    added = sum(one.added for one in imported.sessions)
    if added > INDEXED_AT_ONCE:
        return print_notice("Keyword search finds it now; semantic search after indexing, or after `cix reindex`.")
    if added:
        try:
            with bar("indexing") as progress:
                work.do(work.client.past.complete_index(progress=progress))
        except ContextInfinityError as error:
            print_notice(f"Keyword search finds it, semantic search does not yet: {error}")
    return None


def _known(form: str) -> Format:
    from contextinfinity.exchange.import_progress import Format

    for known in get_args(Format):
        if form == known:
            return known  # type: ignore[no-any-return]
    raise InvalidInput(f"There is no format {form!r}.", hint=f"There are {', '.join(get_args(Format))}.")


def _home(work: EngineThread, options: CommonOptions, session: str) -> str:
    """Return the named conversation; an unknown name becomes the name of a new one."""
    from contextinfinity.domain.ids import is_id

    try:
        return work.do(work.client.threads.find(session, options.owner)).thread_id
    except NotFound:
        if is_id(session) or session in ("last", "new"):  # words of other commands, no names
            raise
        return session


def _print(imported: Imported) -> None:
    from contextinfinity.cli.output import one_line, print_notice, print_table

    if not imported.sessions:
        return print_notice("The file holds no messages.")
    heads = ("conversation", "messages", "added", "there before", "bad", "title")
    counts = [(one.messages, one.added, one.skipped, one.bad_count) for one in imported.sessions]
    rows = [
        (one.thread_id, *row, one_line(one.title or "")) for one, row in zip(imported.sessions, counts, strict=True)
    ]
    if len(rows) > MOST_ROWS:
        messages, added, skipped, left_out = map(sum, zip(*counts, strict=True))
        rows = [(f"{len(rows):,} conversations", messages, added, skipped, left_out, "")]
    print_table(heads, ([str(cell) for cell in row] for row in rows))
    invalid = sorted((bad for one in imported.sessions for bad in one.bad), key=lambda bad: (bad.file, bad.line))
    for bad in invalid[:MOST_SHOWN]:
        print_notice(f"{bad.place}: left out, {bad.reason}")
    more = sum(bad.count for bad in invalid[MOST_SHOWN:])
    return print_notice(f"{more} more were left out; `--json` lists them.") if more else None


@contextmanager
def _bar(file: Path) -> Iterator[Progress]:
    """Show a progress bar on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _read, _messages: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[messages]:,} messages"))
    size = file.stat().st_size if file.is_file() else None
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=size or None, messages=0)
        yield lambda read, messages: bar.update(task, completed=read, messages=messages)
