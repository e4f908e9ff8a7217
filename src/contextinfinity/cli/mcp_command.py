"""``cix mcp``: an MCP server on standard input and output."""

from __future__ import annotations

import sys

from contextinfinity.cli.command_options import CommonOptions, command


@command
def mcp(options: CommonOptions) -> None:
    """Run an MCP server on stdin and stdout. An assistant can search, recall, pin and remember with it."""
    import msgspec

    from contextinfinity.cli.engine_thread import working
    from contextinfinity.mcp_server.protocol import answer

    with working(options, creates=True) as work:
        client = work.client if options.server is not None else work.client.acting_for(options.owner)
        while line := sys.stdin.buffer.readline():
            if line.strip() and (reply := work.do(answer(client, line))) is not None:
                sys.stdout.buffer.write(msgspec.json.encode(reply) + b"\n")
                sys.stdout.buffer.flush()
