"""The page of the manual that lists every command, made from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import typer.main

from contextinfinity.cli.main import app

_OPENING = """\
# Commands

<!-- Made by `python -m tests.house.pages`; change the commands, not this page. -->

The command is `cix`; `contextinfinity` and `python -m contextinfinity` are the same. Every command takes `--data-dir`,
`--config` and `--json` and works without a server. The exit code is 0 on success, 1 on failure and 2 for a usage error.
Results go to stdout, everything else to stderr. With `--server URL` a command uses a running server (`cix serve`); set
`CIX_TOKEN` if the server requires a token. A server shows the conversations of one user only: `--user`, else the
token's user, else `local`. Without `--server`, an id finds the conversation of any user.

Some commands work only on the machine of the ledger, also while a server runs there, and reject `--server`:

- `token`: a token can act for any user, so creating one requires access to the machine.
- `import`: it writes past answers with their times and calls no model. `POST /import` is its HTTP route.
- `cleanup`, `reindex`, `rebuild`: they process the conversations of all users, and a token acts for one. A server
  cleans up every few hours and completes its index by itself.
- `serve`, `config`, `model`, `doctor --repair`: they use this machine's processes, settings and files.

Name a conversation by its id, by the external id that your program chose, by the first or last six or more characters
of its id, or by `last`, the most recently used one. Name a branch by its label, its id, or the first or last six or
more characters of its id. An ambiguous name is an error that lists all matches. Tables show the last eight characters
of an id at a terminal and the full id in a pipe.

`--data-dir`, `--config`, `--json` and `--server` may also precede the command; an option after the command takes
precedence. `cix --version` prints the version; `cix --verbose COMMAND` prints log messages to stderr.

## Common options

These options mean the same in every command; each command below names those that it takes.
"""

_SHARED = ("user", "config", "data_dir", "as_json", "server", "begin_new")
_HELP = "help"
_HEADING = ("| | meaning | default |", "| --- | --- | --- |")


def reference() -> str:
    """Return the page, in Markdown."""
    group: Any = typer.main.get_command(app)
    options = {one.name: one for one in group.commands["ask"].params}
    shared = {_option(options[name]): options[name].opts[0] for name in _SHARED}
    commands = "\n".join("\n".join(_command(name, one, shared)) for name, one in group.commands.items())
    return "\n".join([_OPENING, *_HEADING, *shared, "", commands])


def _command(name: str, command: Any, shared: Mapping[str, str]) -> Iterator[str]:
    if hasattr(command, "commands"):
        for inner, one in command.commands.items():
            yield from _command(f"{name} {inner}", one, shared)
        return
    own = [one for one in command.params if one.name != _HELP and not getattr(one, "hidden", False)]
    arguments = [one for one in own if one.param_type_name == "argument"]
    options = [_option(one) for one in own if one.param_type_name == "option"]
    yield f"## cix {' '.join([name, *(one.metavar for one in arguments)])}\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    if rows := [_row(one.metavar, one) for one in arguments] + [row for row in options if row not in shared]:
        yield from (*_HEADING, *rows, "")
    yield f"Common options: {', '.join(f'`{flag}`' for row, flag in shared.items() if row in options)}.\n"


def _option(option: Any) -> str:
    return _row(" ".join(filter(None, [option.opts[0], option.metavar])), option)


def _row(name: str, parameter: Any) -> str:
    default = "" if parameter.default in (None, False, "") or parameter.required else f"`{parameter.default}`"
    shown = name.replace("|", "\\|")
    return f"| `{shown}` | {parameter.help} | {default} |"
