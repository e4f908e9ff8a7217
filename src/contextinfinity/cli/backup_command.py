"""``cix backup``: an online backup of the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, command_for_all_users, settings_for
from contextinfinity.errors import InvalidInput, NotFound

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist yet.", show_default=False)
]


@command_for_all_users
def backup(options: CommonOptions, file: File) -> None:
    """Back up the ledger to a file. It is a consistent snapshot; a server may keep running."""
    import asyncio

    from contextinfinity.cli.output import print_json, print_notice
    from contextinfinity.cli.progress import bar
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
