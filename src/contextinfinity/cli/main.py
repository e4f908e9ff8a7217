"""The ``cix`` application, assembled from its commands.

A failure prints one message on stderr and exits with 1; a usage error exits with 2. A traceback means a bug.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from contextinfinity.cli.ask import ask
from contextinfinity.cli.bench_command import bench
from contextinfinity.cli.chat.chat import chat
from contextinfinity.cli.command_options import Config, DataDir, Json, Server, apply_global_options
from contextinfinity.cli.demo.demo_command import demo
from contextinfinity.cli.doctor import doctor
from contextinfinity.cli.encryption_commands import decrypt, encrypt, rekey
from contextinfinity.cli.exchange_commands import COMPLETE, completion, copy, export, import_
from contextinfinity.cli.ledger_commands import backup, migrate_store, restore, shadow_report
from contextinfinity.cli.memory_commands import forget, memories, remember
from contextinfinity.cli.model_commands import model
from contextinfinity.cli.output import print_notice
from contextinfinity.cli.prompt_commands import context, fold, pin, pins, unpin
from contextinfinity.cli.search_command import rebuild, reindex, search
from contextinfinity.cli.server_commands import mcp, serve, token
from contextinfinity.cli.session_commands import (
    branches,
    cleanup,
    commit,
    delete,
    fork,
    rename,
    retention,
    rollback,
    sessions,
    show,
    spending,
    switch,
)
from contextinfinity.cli.setup_command import config, setup
from contextinfinity.cli.tui_command import tui
from contextinfinity.errors import ContextInfinityError

# Plain help: importing rich would take longer than everything else.
app = typer.Typer(
    name="cix", no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)
TALKING = (chat, ask, tui, sessions, show, copy, rename, search, context, spending)
LINES = (branches, switch, fork, rollback, fold, commit, pin, pins, unpin)
for command in (*TALKING, *LINES):
    app.command()(command)
app.command("import")(import_)
app.command()(export)
app.command()(backup)
app.command()(restore)
app.command("migrate-store")(migrate_store)
app.command("shadow-report")(shadow_report)
for command in (setup, serve, mcp, delete, retention, cleanup):
    app.command()(command)
for command in (remember, forget, reindex, rebuild, config, doctor, demo, bench, completion):
    app.command()(command)
for command in (encrypt, decrypt, rekey):
    app.command()(command)
app.add_typer(model)
app.add_typer(memories)
app.add_typer(token)


def run() -> None:
    """Run the command line, and end the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # replace characters that the terminal cannot show
    if COMPLETE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    try:
        app(prog_name="cix")
    except ContextInfinityError as error:
        print_notice(str(error))
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cix {version('contextinfinity')}")
        raise typer.Exit


def _log_more(wanted: bool) -> None:
    if wanted:
        import logging

        logging.getLogger("contextinfinity").setLevel(logging.INFO)


@app.callback()
def _cix(
    context: typer.Context,
    data_dir: DataDir = None,
    config: Config = None,
    as_json: Json = False,
    server: Server = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", callback=_log_more, help="Print log messages to stderr.")
    ] = False,
) -> None:
    """Endless, durable conversations with language models."""
    apply_global_options(context, data_dir=data_dir, config=config, as_json=as_json, server=server)
