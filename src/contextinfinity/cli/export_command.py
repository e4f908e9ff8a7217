"""``cix export``: writes conversations to files."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from contextinfinity.cli.command_options import CommonOptions, command
from contextinfinity.cli.output import print_notice
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.domain.session import Owner
    from contextinfinity.exchange.exporter import ExportFormat

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
