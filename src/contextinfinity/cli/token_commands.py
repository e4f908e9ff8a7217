"""``cix token``: the API tokens of a server."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import (
    CommonOptions,
    command_for,
    command_without_owner,
)
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.domain.token import TokenScope

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
