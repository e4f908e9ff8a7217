"""``cix serve``: the server."""

from __future__ import annotations

from typing import Annotated

import typer

from contextinfinity.cli.options import Means, command_for_all_users, settings_for

Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")]
Port = Annotated[int | None, typer.Option("--port", metavar="N", min=0, max=65_535, help="The port; 0: a free one.")]
Workers = Annotated[int | None, typer.Option("--workers", metavar="N", min=1, max=64, help="How many processes.")]


@command_for_all_users
def serve(means: Means, host: Host = None, port: Port = None, workers: Workers = None) -> None:
    """Serve conversations over HTTP until told to end; the settings of [server] count where nothing is said."""
    import asyncio

    from msgspec.structs import replace

    from contextinfinity.cli.printing import print_json, remark
    from contextinfinity.server import serving
    from contextinfinity.wiring import open_client, open_store

    settings = settings_for(means.config, means.data_dir).settings
    asyncio.run(open_store(settings).close())  # a ledger that cannot be opened is reported before anything listens
    given = {"host": host, "port": port, "workers": workers}
    asked = replace(settings.server, **{name: value for name, value in given.items() if value is not None})

    def tell(address: str) -> None:
        if means.as_json:
            print_json({"url": address}, indent=None)
        else:
            remark(f"Serving at {address}; Ctrl-C ends it.")

    serving.serve(replace(settings, server=asked), open_client, tell=tell)
