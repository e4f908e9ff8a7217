"""``cix mcp``: the Model Context Protocol on standard input and output, for assistants that start a program."""

from __future__ import annotations

import sys

from contextinfinity.cli.command_options import CommonOptions, command


@command
def mcp(means: CommonOptions) -> None:
    """Let another assistant search, recall, pin and remember; it starts this command and speaks MCP with it."""
    import msgspec

    from contextinfinity.cli.engine_thread import working
    from contextinfinity.mcp_server.protocol import answer

    with working(means, creates=True) as work:
        client = work.client if means.server is not None else work.client.acting_for(means.owner)
        while line := sys.stdin.buffer.readline():
            if line.strip() and (told := work.do(answer(client, line))) is not None:
                sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
                sys.stdout.buffer.flush()
