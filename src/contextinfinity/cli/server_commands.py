"""``cix serve``: the server.

``cix mcp``: an MCP server on standard input and output.

``cix token``: the API tokens of a server.
"""

from __future__ import annotations

import re
import sys
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import (
    CommonOptions,
    command,
    command_for,
    command_for_all_users,
    command_without_owner,
    settings_for,
)
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.domain.token import TokenScope
    from contextinfinity.server.serving import LogFormat

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


CLOSED = (
    "No valid token is left; the server answers every request with 401. "
    "Create a token with `cix token create --user NAME`."
)
UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}

token = typer.Typer(name="token", help="Create, list and revoke server tokens.")

ForUser = Annotated[
    str, typer.Option("--user", metavar="U", help="The user that the token acts for.", show_default=False)
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="90d", help="How long it is valid: 30m, 12h, 90d, 52w; default: no expiry."),
]
Org = Annotated[str, typer.Option("--org", metavar="O", help="The organisation of the user.")]
Scope = Annotated[str, typer.Option("--scope", metavar="user|app", help="app: for any user of the organisation.")]
TokenIdArgument = Annotated[
    str,
    typer.Argument(metavar="ID", help="The token's id in `cix token list`, or the end of it.", show_default=False),
]


@token.command("create")
@command_for(ForUser)
def create(options: CommonOptions, org: Org = "", scope: Scope = "user", expires: Expires = None) -> None:
    """Create a token and print it once. As soon as one exists, servers require a valid token with every request."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import local_time, print_json, print_notice
    from contextinfinity.domain.session import Owner

    if scope not in ("user", "app"):
        raise InvalidInput(f"--scope is {scope!r}; it may be user or app.")
    known: TokenScope = "app" if scope == "app" else "user"
    ends = None if expires is None else _moment_after(expires)
    with working(options, creates=True) as work:
        owner = Owner(user_id=options.user, org_id=org)
        made = work.do(work.client.tokens.create(owner, scope=known, expires_at=ends))
    if options.as_json:
        print_json(made)
        return
    typer.echo(made.token)
    until = "" if made.expires_at is None else f" It expires on {local_time(made.expires_at)}."
    print_notice(f"This is token {made.id} of {options.user}. It is not shown again.{until}")


@token.command("list")
@command_without_owner
def list_tokens(options: CommonOptions) -> None:
    """List all tokens, including revoked and expired ones."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import local_time, print_json, print_notice, print_table, shown_id
    from contextinfinity.domain.ids import now

    with working(options) as work:
        tokens = work.do(work.client.tokens.list())
    if options.as_json:
        print_json({"tokens": tokens})
    elif not tokens:
        print_notice("There are no tokens: a server on this machine accepts every request.")
    else:
        rows = [
            (
                *(shown_id(one.id), one.owner.user_id, one.owner.org_id, one.scope, local_time(one.created_at)),
                *("never" if one.expires_at is None else local_time(one.expires_at), one.state(now())),
            )
            for one in tokens
        ]
        print_table(("id", "user", "org", "scope", "created", "expires", "state"), rows)
        if all(one.state(now()) != "valid" for one in tokens):
            print_notice(CLOSED)


@token.command("revoke")
@command_without_owner
def revoke(options: CommonOptions, token_id: TokenIdArgument) -> None:
    """Revoke a token in every running server at once; its streams end within two seconds."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.output import print_json, print_notice
    from contextinfinity.client.references import fits, only_match

    with working(options) as work:
        fitting = [one.id for one in work.do(work.client.tokens.list()) if token_id == one.id or fits(one.id, token_id)]
        known = only_match("token", token_id, fitting, hint="`cix token list` lists the tokens.")
        revoked = work.do(work.client.tokens.revoke(known))
        is_closed = work.do(work.client.tokens.closed())
    if options.as_json:
        print_json(revoked)
    else:
        typer.echo(f"Token {revoked.id} of {revoked.owner.user_id} is revoked.")
    if is_closed:
        print_notice(CLOSED)


def _moment_after(expires: str) -> datetime:
    """Return the moment after a time such as 90d."""
    from contextinfinity.domain.ids import now

    found = re.fullmatch(r"([1-9][0-9]{0,4})([mhdw])", expires.strip().lower())
    if found is None:
        raise InvalidInput(f"--expires is {expires!r}.", hint="Write a number and a unit: 30m, 12h, 90d or 52w.")
    return now() + int(found[1]) * UNITS[found[2]]
