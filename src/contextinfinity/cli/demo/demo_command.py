"""The command ``cix demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, command_for_all_users

DEMO_DIR = Path("~/.contextinfinity-demo")
"""The data_dir of the example, where none is named: it never mixes with a person's own conversations unasked."""
CONFIG = """\
# Written by `cix demo`. An echo answers here, so that no model is needed to look around.
[general]
default_model = "demo"

[models.demo]
provider = "scripted"
context_limit = 8192

[librarian]
model = "offline"
"""

Turns = Annotated[
    int, typer.Option("--turns", min=1, max=1_000_000, help="The number of turns of the long example conversation.")
]


Add = Annotated[bool, typer.Option("--add", help="Add the example to a data_dir that has other conversations.")]


@command_for_all_users
def demo(options: CommonOptions, turns: Turns = 1200, add: Add = False) -> None:
    """Fill a data_dir with a long example conversation, or complete it. By default that is ~/.contextinfinity-demo."""
    import asyncio

    from contextinfinity.cli.command_options import settings_for
    from contextinfinity.cli.demo.demo_player import play, survey
    from contextinfinity.cli.output import print_json, print_notice

    folder = (options.data_dir or DEMO_DIR).expanduser()
    config = folder / "config.toml"
    settings = settings_for(options.config, folder).settings
    missing, is_own = asyncio.run(survey(settings, add=add))
    if is_own and options.config is None and not config.exists():
        config.write_text(CONFIG, encoding="utf-8")
    asyncio.run(play(settings, turns, lambda line: None if options.as_json else print_notice(line), missing))
    if options.as_json:
        print_json({"data_dir": str(folder), "made": bool(missing)})
    else:
        typer.echo(
            f"The example is {'ready' if missing else 'there already'}. Look at it:\n\n  cix tui --data-dir {folder}"
        )
