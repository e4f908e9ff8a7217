"""The page of the manual that lists every command, made from the commands themselves.

python -m contextinfinity.cli.command_reference > docs/reference/commands.md
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import typer.main

from contextinfinity.cli.main import app

_OPENING = """\
# Commands

<!-- Made by `python -m contextinfinity.cli.command_reference`; change the commands, not this page. -->

`cix`, also `contextinfinity` and `python -m contextinfinity`. Every command takes `--data-dir`, `--config` and
`--json`, works without a server, and ends with 0 when it was done, 1 when it could not be done, and 2 when it was
asked for in the wrong way. Answers and lists go to stdout, everything else to stderr. With `--server URL` it works with
a server elsewhere (`cix serve`); the token, where one is needed, stands in the environment variable `CIX_TOKEN`. A
server finds the conversations of one user only: those of `--user`, else of the token's user, else of `local`. On this
machine an id finds the conversation of any user.

Some commands work on the ledger's own machine only, beside a running server too, and say so where `--server` is given:

- `token`: whoever makes tokens can be anybody. That takes access to the machine, never a token alone.
- `import`: it records a past with its answers and its times, and asks no model. No route does that.
- `cleanup`, `reindex`, `rebuild`: they work on the conversations of all users, and no token stands for all. A server
  cleans up every few hours and completes its index by itself.
- `serve`, `config`, `model`, `doctor --repair`: they are about this machine, its processes, settings and files.

A conversation is named by its id, by the id your program gave it, by the first or last six or more characters of its
id, or by `last`: the one spoken in last. A branch is named by its label, its id, or the first or last six or more
characters of its id. What fits several is refused, with all of them. Tables show the last eight characters of an id at
a terminal, and all of it in a pipe.

`--data-dir`, `--config`, `--json` and `--server` may stand before the command as well; what stands behind it counts
more. `cix --version` prints the version; `cix --verbose COMMAND` tells on stderr what happens.
"""

_SHARED = ("user", "config", "data_dir", "as_json", "server")
_HELP = "help"


def reference() -> str:
    """Give the page, in Markdown."""
    group: Any = typer.main.get_command(app)
    return "\n".join([_OPENING, *("\n".join(_command(name, one)) for name, one in group.commands.items())])


def _command(name: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for inner, one in command.commands.items():
            yield from _command(f"{name} {inner}", one)
        return
    own = [one for one in command.params if one.name != _HELP and not getattr(one, "hidden", False)]
    arguments = [one for one in own if one.param_type_name == "argument"]
    options = [one for one in own if one.param_type_name == "option"]
    yield f"## cix {' '.join([name, *(one.metavar for one in arguments)])}\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    yield "| | meaning | default |"
    yield "| --- | --- | --- |"
    for one in arguments:
        yield _row(one.metavar, one)
    for one in sorted(options, key=lambda one: one.name in _SHARED):  # its own first
        yield _row(" ".join(filter(None, [one.opts[0], one.metavar])), one)
    yield ""


def _row(name: str, parameter: Any) -> str:
    default = "" if parameter.default in (None, False) or parameter.required else f"`{parameter.default}`"
    shown = name.replace("|", "\\|")
    return f"| `{shown}` | {parameter.help} | {default} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
