"""``cix restore``: make a backup the ledger of a data_dir."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, command_for_all_users, settings_for

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
