"""``cix export``, ``import``, ``copy`` (an answer to the clipboard) and ``completion`` (of the shell).

An import stores each message once, however often it is repeated.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from contextinfinity.cli.command_options import Branch, CommonOptions, Thread, command, command_for_all_users
from contextinfinity.cli.output import bar, print_notice
from contextinfinity.errors import ContextInfinityError, InvalidInput, NotFound

if TYPE_CHECKING:
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.domain.session import Owner
    from contextinfinity.exchange.exporter import ExportFormat
    from contextinfinity.exchange.import_progress import Format, Imported, Progress

FORMAT_HELP = "cix: everything; markdown: all branches, to read; jsonl: the messages of the active branch."
FILE_HELP = "The file or folder to write; - is stdout. In a folder each conversation gets a file."
SESSION_HELP = "One conversation; default: all of the user's."
STDOUT = Path("-")
ALL_HELP = "Export all users, one file per user in a folder."

File = Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False)]
Form = Annotated[str | None, typer.Option("--format", metavar="cix|markdown|jsonl", help=FORMAT_HELP)]
AllUsers = Annotated[bool, typer.Option("--all-users", help=ALL_HELP)]
Home = Annotated[str | None, typer.Option("--session", metavar="ID|last", help=SESSION_HELP)]


@command
def export(
    options: CommonOptions, file: File, form: Form = None, session: Home = None, all_users: AllUsers = False
) -> None:
    """Export conversations to a file or folder. By default all of a user; --session or --all-users select others."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json

    known = format_of(form, file)
    with working(options) as work:
        if all_users:
            written = _of_all_users(work, options, file, known, session)
        else:
            written = _written(work, options, file, known, session)
    if options.as_json and file != STDOUT:
        print_json({"format": known, "files": [{"file": name, "bytes": size} for name, size in written.items()]})
    elif file != STDOUT:
        print_notice(
            f"Wrote {sum(written.values()):,} bytes to {file}" + (f", {len(written)} files." if file.is_dir() else ".")
        )


def _written(
    work: EngineThread, options: CommonOptions, file: Path, form: ExportFormat, session: str | None
) -> dict[str, int]:
    thread = None if session is None else work.do(work.client.threads.find(session, options.owner)).thread_id
    if file.is_dir():
        return _to_folder(work, options, file, form, thread)
    return {str(file): write_export(work, options, file, form, thread)}


def _of_all_users(
    work: EngineThread, options: CommonOptions, folder: Path, form: ExportFormat, session: str | None
) -> dict[str, int]:
    """Write a file for each user, with all conversations and memories: an import of one is that user's again."""
    if session is not None or options.server is not None or not folder.is_dir():
        raise InvalidInput(
            "--all-users writes a file for each user into a folder, where the ledger is.",
            hint="Name a folder that exists, without --session and --server.",
        )
    from contextinfinity.exchange.exporter import user_file_name

    taken: set[str] = set()
    written: dict[str, int] = {}
    for owner in work.do(work.client.exports.owners()):
        path = folder / user_file_name(owner, form, taken)
        written[str(path)] = write_export(work, options, path, form, None, owner)
    return written


def format_of(form: str | None, file: Path) -> ExportFormat:
    """Return the named format, or the one of the file's extension."""
    from contextinfinity.exchange.exporter import ExportFormat

    if form is None:
        return "markdown" if file.suffix in (".md", ".markdown") else "cix"
    for known in get_args(ExportFormat):
        if form == known:
            return known  # type: ignore[no-any-return]
    raise InvalidInput(f"There is no format {form!r}.", hint=f"There are {', '.join(get_args(ExportFormat))}.")


def _to_folder(
    work: EngineThread, options: CommonOptions, folder: Path, form: ExportFormat, thread: str | None
) -> dict[str, int]:
    """Write a file for each conversation."""
    from contextinfinity.cli.engine_thread import listed_threads
    from contextinfinity.exchange.exporter import file_name

    threads = [work.do(work.client.threads.get(thread, options.owner))] if thread else listed_threads(options, 10**9)
    taken: set[str] = set()
    written: dict[str, int] = {}
    for one in threads:
        path = folder / file_name(one.title or one.opening, one.created_at, form, taken)
        written[str(path)] = write_export(work, options, path, form, one.thread_id)
    return written


def write_export(
    work: EngineThread,
    options: CommonOptions,
    file: Path,
    form: ExportFormat,
    thread: str | None,
    owner: Owner | None = None,
) -> int:
    """Write an export atomically and return its size; ``owner``: another user than ``--user``."""
    from contextinfinity.storage.folders import sync_file

    pieces = work.do(work.client.exports.open(form, thread_id=thread, owner=owner or options.owner))
    if file == STDOUT:
        sys.stdout.flush()
        return work.do(_write(pieces, sys.stdout.buffer.write))
    partial = file.with_name(f".{file.name}.partial")
    try:
        with open(partial, "wb", opener=_private) as stream:
            size = work.do(_write(pieces, stream.write))
            stream.flush()
            sync_file(stream.fileno())
        partial.replace(file)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written ({error.strerror or error}).") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return size


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


async def _write(pieces: AsyncIterator[bytes], write: Callable[[bytes], object]) -> int:
    size = 0
    async for piece in pieces:
        write(piece)
        size += len(piece)
    return size


INDEXED_AT_ONCE = 20_000
"""Messages that are indexed before the command ends: about twenty seconds."""
IMPORT_FORMAT_HELP = (
    "auto: detect it. chatgpt, claude, openwebui, librechat: their exports; llm: its logs.db; "
    "jsonl: one message per line; openai: a JSON list of messages, or lines; cix: our own."
)
IMPORT_SESSION_HELP = "The conversation for messages without one: an existing one, or a name for a new one."
MOST_SHOWN = 100
"""The most bad records that are printed."""

MOST_ROWS = 40
"""The most conversations that are printed one by one."""

IMPORT_FILE_HELP = "The export: JSON, JSON Lines, zip, gzip, a folder, or logs.db; - is standard input."

ImportedFile = Annotated[Path, typer.Argument(metavar="FILE", help=IMPORT_FILE_HELP, show_default=False)]
ImportForm = Annotated[str, typer.Option("--format", metavar="auto|cix|chatgpt|claude|…", help=IMPORT_FORMAT_HELP)]
ImportHome = Annotated[str | None, typer.Option("--session", metavar="ID|last", help=IMPORT_SESSION_HELP)]


@command
def import_(options: CommonOptions, file: ImportedFile, form: ImportForm = "auto", session: ImportHome = None) -> None:
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
