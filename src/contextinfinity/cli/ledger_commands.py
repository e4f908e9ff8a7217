"""Commands for whole ledgers: ``cix backup``, ``restore``, ``migrate-store`` and ``shadow-report``.

A backup is made while the ledger is in use; a restore makes it the ledger of a data_dir. ``migrate-store`` copies every
conversation to another ledger, SQLite or PostgreSQL. ``shadow-report`` lists where two thread backends differed.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, command_for_all_users, settings_for
from contextinfinity.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from contextinfinity.compat.shadow_threads import ThreadDifference
    from contextinfinity.exchange.store_migration import Progress, StoreMigration
    from contextinfinity.settings import Settings

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist yet.", show_default=False)
]


@command_for_all_users
def backup(options: CommonOptions, file: File) -> None:
    """Back up the ledger to a file. It is a consistent snapshot; a server may keep running."""
    import asyncio

    from contextinfinity.cli.output import bar, print_json, print_notice
    from contextinfinity.domain.ids import now
    from contextinfinity.storage.copies import note_external_backup
    from contextinfinity.storage.sqlite.backup import back_up
    from contextinfinity.storage.sqlite.purge import purge_deleted

    settings = settings_for(options.config, options.data_dir, creates=False).settings
    ledger = settings.ledger_path
    if ledger is None:
        raise InvalidInput("This ledger is not a file.", hint="Back it up with the tools of its database.")
    if not ledger.is_file():
        raise NotFound(f"There is no ledger {ledger}.")
    if file.exists():
        raise InvalidInput(f"{file} exists already.", hint="Name a new file.")
    if not file.parent.is_dir():
        raise InvalidInput(f"There is no folder {file.parent}.", hint="Create it first.")
    began = now()
    with bar("backup") as progress:
        back_up(
            ledger,
            file.parent,
            lambda part: progress(int(part * 100), 100),
            lambda copy: asyncio.run(purge_deleted(copy, ledger, began)),
            file.name,
        )
    note_external_backup(settings.data_dir / "backups", file)
    if options.as_json:
        print_json({"file": str(file), "bytes": file.stat().st_size})
    else:
        print_notice(f"Wrote {file.stat().st_size:,} bytes to {file}.")


BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="A file that `cix backup` wrote.", show_default=False)]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace the existing ledger; it is copied to backups/ first.")
]


@command_for_all_users
def restore(options: CommonOptions, file: BackupFile, replace: Replace = False) -> None:
    """Restore a backup. The file is checked before anything is changed."""
    from contextinfinity.cli.doctor import progress_bar
    from contextinfinity.cli.output import print_json, print_notice
    from contextinfinity.text.plurals import counted
    from contextinfinity.upkeep.backups import restore as restore_backup

    settings = settings_for(options.config, options.data_dir).settings
    with progress_bar() as progress:
        done = restore_backup(settings, file, replace=replace, progress=progress)
    if options.as_json:
        print_json(done)
        return
    print_notice(f"Restored {counted(done.turns, 'turn')} to {done.ledger}.")
    if done.kept is not None:
        print_notice(f"The previous ledger is kept as {done.kept}.")


_COUNTS = ("copied", "updated", "deleted", "there_before")

Source = Annotated[str, typer.Option("--from", metavar="URL", help="The ledger to read.", show_default=False)]
Target = Annotated[str, typer.Option("--to", metavar="URL", help="The ledger to write.", show_default=False)]


@command_for_all_users
def migrate_store(options: CommonOptions, source: Source, target: Target) -> None:
    """Copy everything to another ledger, which may be in use meanwhile; run it again to copy what changed.

    The hash of each conversation is compared.
    """
    import asyncio

    from contextinfinity.cli.output import bar, print_json, print_notice

    settings = settings_for(options.config, options.data_dir, creates=False).settings
    start, end = _at(settings, source), _at(settings, target)
    if start.ledger_url == end.ledger_url:
        raise InvalidInput("--from and --to name the same ledger.")
    if (file := start.ledger_path) is not None and not file.is_file():
        raise NotFound(f"There is no ledger {file}.")
    with bar("conversations") as progress:
        done = asyncio.run(_move(start, end, progress))
    if options.as_json:
        print_json(done)
    else:
        counts = (f"{name.replace('_', ' ')} {getattr(done, name)}" for name in _COUNTS)
        print_notice(f"Conversations: {', '.join(counts)}; memories: added {done.memories}.")
        if done.changing:
            print_notice(f"{done.changing} changed meanwhile; run this again when nothing writes to the source.")
        if done.only_there:
            print_notice(f"{done.only_there} memories are only in the target: new, or forgotten in the source.")
    if done.different:
        raise InvalidInput(
            f"{len(done.different)} conversations differ in the two ledgers: {', '.join(done.different[:5])}.",
            hint="They were continued in the target ledger; delete them there and run this again.",
        )


def _at(settings: Settings, url: str) -> Settings:
    """Return the settings with another ledger."""
    from msgspec.structs import replace

    if not url.startswith(("sqlite:///", "postgresql://")):
        raise InvalidInput(f"{url!r} is not the address of a ledger.", hint="Use sqlite:///FILE or postgresql://…")
    return replace(settings, storage=replace(settings.storage, url=url))


async def _move(source: Settings, target: Settings, progress: Progress) -> StoreMigration:
    from contextinfinity.exchange.store_migration import migrate_store
    from contextinfinity.wiring import open_store

    async with AsyncExitStack() as stack:
        start = open_store(source)
        stack.push_async_callback(start.close)
        end = open_store(target)
        stack.push_async_callback(end.close)
        return await migrate_store(start, end, progress)


SHOWN = 20
"""Differences that are listed, the last ones; ``--json`` gives all."""


@command_for_all_users
def shadow_report(options: CommonOptions) -> None:
    """Show where the backend of storage.threads_shadow differed. Exits with 1 if it did."""
    import typer

    from contextinfinity.cli.output import print_json, print_notice, print_table
    from contextinfinity.compat.shadow_threads import read_report, report_file

    settings = settings_for(options.config, options.data_dir, creates=False).settings
    found = read_report(report_file(settings.data_dir))
    if options.as_json:
        print_json(found)
    elif found:
        print_table(("when", "verb", "conversation", "difference"), map(_row, found[-SHOWN:]))
        threads = len({difference.thread_id for difference in found})
        print_notice(f"{len(found)} differences in {threads} conversations.")
    else:
        print_notice("No read or write of the second backend differed.")
    if found:
        raise typer.Exit(1)


def _row(difference: ThreadDifference) -> tuple[str, str, str, str]:
    if difference.error is not None:
        said = f"failed: {difference.error}"
    elif difference.first_difference is None:
        said = "only one of the two has it"
    else:
        said = f"{difference.turns} and {difference.shadow_turns} turns, from turn {difference.first_difference + 1} on"
    return difference.at[:19], difference.verb, difference.thread_id, said
