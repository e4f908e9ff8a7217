"""``cix migrate-store``: every conversation from one ledger to another, SQLite or PostgreSQL."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, command_for_all_users, settings_for
from contextinfinity.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from contextinfinity.exchange.store_migration import Progress, StoreMigration
    from contextinfinity.settings import Settings

_COUNTS = ("copied", "updated", "deleted", "there_before")

Source = Annotated[str, typer.Option("--from", metavar="URL", help="The ledger to read.", show_default=False)]
Target = Annotated[str, typer.Option("--to", metavar="URL", help="The ledger to write.", show_default=False)]


@command_for_all_users
def migrate_store(options: CommonOptions, source: Source, target: Target) -> None:
    """Copy everything to another ledger, which may be in use meanwhile; run it again to copy what changed.

    The hash of each conversation is compared.
    """
    import asyncio

    from contextinfinity.cli.output import print_json, print_notice
    from contextinfinity.cli.progress import bar

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
