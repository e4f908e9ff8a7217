"""``cix config``: the values in force, and where each came from."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from contextinfinity.cli.command_options import Config, DataDir, Json, NoServer, errors_on_stderr, settings_for

if TYPE_CHECKING:
    from rich.table import Table

    from contextinfinity.settings import LoadedSettings


def config(config: Config = None, data_dir: DataDir = None, as_json: Json = False, server: NoServer = None) -> None:
    """Show every setting, its value and where it came from."""
    with errors_on_stderr():
        loaded = settings_for(config, data_dir, creates=False)
    if as_json:
        typer.echo(json.dumps(_for_programs(loaded), indent=2))
    else:
        _print_for_people(loaded)


def _for_programs(loaded: LoadedSettings) -> dict[str, object]:
    import msgspec

    from contextinfinity.settings.keys import masked

    return {
        "data_dir": str(loaded.settings.data_dir),
        "file": str(loaded.file) if loaded.file else None,
        "values": {
            key: {"value": masked(value) if isinstance(value, str) else msgspec.to_builtins(value), "source": source}
            for key, value, source in loaded.effective()
        },
    }


def _print_for_people(loaded: LoadedSettings) -> None:
    from rich.console import Console

    from contextinfinity.settings.keys import shown

    # A pipe has no width that lines would have to be folded to.
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 1000)
    console.print(f"file: {shown(str(loaded.file)) if loaded.file else 'none'}", soft_wrap=True)
    console.print(_table(loaded.effective()))


def _table(rows: Iterable[tuple[str, object, str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from contextinfinity.settings.keys import shown

    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    section = ""
    for key, value, source in rows:
        owner, _, name = key.rpartition(".")
        if owner != section:
            section = owner
            table.add_row()
            table.add_row(Text(f"[{owner}]", style="bold"))
        style = "dim" if source == "default" else ""
        table.add_row(Text(f"  {name}"), Text(shown(value)), Text(source), style=style)
    return table
