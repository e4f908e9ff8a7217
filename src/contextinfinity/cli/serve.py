"""``cix serve``: the server."""

from __future__ import annotations

from typing import Annotated

import typer

from contextinfinity.cli.options import Config, DataDir, Json, NoServer, settings_for, told_in_words

Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")]
Port = Annotated[int | None, typer.Option("--port", metavar="N", min=0, max=65_535, help="The port; 0: a free one.")]
Workers = Annotated[int | None, typer.Option("--workers", metavar="N", min=1, max=64, help="How many processes.")]


def serve(
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    server: NoServer = None,
) -> None:
    """Serve conversations over HTTP until told to end; the settings of [server] count where nothing is said."""
    with told_in_words():
        from msgspec.structs import replace

        from contextinfinity.cli.printing import print_json, remark
        from contextinfinity.server import serving
        from contextinfinity.wiring import open_client

        settings = settings_for(config, data_dir).settings
        given = {"host": host, "port": port, "workers": workers}
        asked = replace(settings.server, **{name: value for name, value in given.items() if value is not None})

        def tell(address: str) -> None:
            if as_json:
                print_json({"url": address}, indent=None)
            else:
                remark(f"Serving at {address}; Ctrl-C ends it.")

        serving.serve(replace(settings, server=asked), open_client, tell=tell)
