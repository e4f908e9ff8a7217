"""The options that every command takes, after its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contextinfinity.settings import LoadedSettings

DataDir = Annotated[Path | None, typer.Option("--data-dir", metavar="DIR", help="The folder that holds everything.")]
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The config.toml to read.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def settings_for(config: Path | None, data_dir: Path | None) -> LoadedSettings:
    """Read the settings a command runs with."""
    from contextinfinity.settings import load_settings

    return load_settings(config=config, data_dir=data_dir)
