"""``cix serve``: the server."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, command_for_all_users, settings_for
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.server.logs import LogFormat

Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")]
Port = Annotated[int | None, typer.Option("--port", metavar="N", min=0, max=65_535, help="The port; 0: a free one.")]
Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", min=1, max=64, help="The number of worker processes.")
]
LOG_HELP = "The log format, text or json; default: text at a terminal, else json."
Log = Annotated[str | None, typer.Option("--log", metavar="json|text", help=LOG_HELP)]


@dataclass(frozen=True, kw_only=True)
class ListenAddress:
    """The server's address and number of worker processes."""

    host: Host = None
    port: Port = None
    workers: Workers = None


@command_for_all_users
def serve(options: CommonOptions, listening: ListenAddress, log: Log = None) -> None:
    """Run the HTTP server until it is stopped. Missing options are taken from [server] of the settings."""
    import asyncio

    from msgspec.structs import replace

    from contextinfinity.cli.output import print_json, print_notice
    from contextinfinity.server import serving
    from contextinfinity.wiring import open_client, open_store

    form = _log_format(log)
    settings = settings_for(options.config, options.data_dir).settings
    asyncio.run(open_store(settings).close())  # a ledger that cannot be opened is reported before anything listens
    given = {name: value for name, value in asdict(listening).items() if value is not None}

    def on_address(address: str) -> None:
        if options.as_json:
            print_json({"url": address}, indent=None)
        else:
            print_notice(f"Serving at {address}; Ctrl-C ends it.")

    changed = replace(settings, server=replace(settings.server, **given))
    serving.serve(changed, open_client, on_address=on_address, log_format=form)


def _log_format(log: str | None) -> LogFormat:
    if log not in (None, "json", "text"):
        raise InvalidInput(f"--log is {log!r}; it may be json or text.")
    return "text" if log == "text" or (log is None and sys.stderr.isatty()) else "json"
