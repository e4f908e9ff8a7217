"""``cix token``: who may use a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.options import Config, DataDir, Json, Means, NoServer, told_in_words
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.domain.token import Token

token = typer.Typer(name="token", help="Make, list and revoke the tokens that a server asks for.")

ForUser = Annotated[str, typer.Option("--user", metavar="U", help="Whom it stands for.", show_default=False)]
Org = Annotated[str, typer.Option("--org", metavar="O", help="That user's organisation.")]
Scope = Annotated[str, typer.Option("--scope", metavar="user|app", help="app: for any user of the organisation.")]
TokenIdArgument = Annotated[
    str,
    typer.Argument(metavar="ID", help="Its id in `cix token list`, or the end of it.", show_default=False),
]


@token.command("create")
def create(
    user: ForUser,
    org: Org = "",
    scope: Scope = "user",
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    server: NoServer = None,
) -> None:
    """Make a token and show it, this once; from the first one on a server lets nobody in without."""
    with told_in_words():
        from contextinfinity.cli.printing import print_json, remark
        from contextinfinity.cli.working import working
        from contextinfinity.domain.session import Owner

        if scope not in ("user", "app"):
            raise InvalidInput(f"--scope is {scope!r}; it may be user or app.")
        with working(Means(user=user, config=config, data_dir=data_dir, as_json=as_json), creates=True) as work:
            owner = Owner(user_id=user, org_id=org)
            made = work.do(work.client.tokens.create(owner, scope="app" if scope == "app" else "user"))
        if as_json:
            print_json(made)
        else:
            typer.echo(made.token)
            remark(f"This is token {made.id} of {user}. It is not shown again.")


@token.command("list")
def list_tokens(
    config: Config = None, data_dir: DataDir = None, as_json: Json = False, server: NoServer = None
) -> None:
    """List the tokens there ever were."""
    with told_in_words():
        from contextinfinity.cli.printing import moment, print_json, print_table, remark, shown_id
        from contextinfinity.cli.working import working

        with working(Means(user="local", config=config, data_dir=data_dir, as_json=as_json)) as work:
            tokens = work.do(work.client.tokens.list())
        if as_json:
            print_json({"tokens": tokens})
        elif not tokens:
            remark("There are no tokens: a server on this machine lets everybody in.")
        else:
            rows = [
                (shown_id(one.id), one.owner.user_id, one.owner.org_id, one.scope, moment(one.created_at), _state(one))
                for one in tokens
            ]
            print_table(("id", "user", "org", "scope", "made", "state"), rows)


@token.command("revoke")
def revoke(
    token_id: TokenIdArgument,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    server: NoServer = None,
) -> None:
    """Revoke a token, at once and in every running server."""
    with told_in_words():
        from contextinfinity.cli.printing import print_json
        from contextinfinity.cli.working import working
        from contextinfinity.client.references import fits, the_one

        with working(Means(user="local", config=config, data_dir=data_dir, as_json=as_json)) as work:
            fitting = [
                one.id for one in work.do(work.client.tokens.list()) if token_id == one.id or fits(one.id, token_id)
            ]
            known = the_one("token", token_id, fitting, hint="`cix token list` lists those there are.")
            revoked = work.do(work.client.tokens.revoke(known))
        if as_json:
            print_json(revoked)
        else:
            typer.echo(f"Token {revoked.id} of {revoked.owner.user_id} is revoked.")


def _state(token: Token) -> str:
    return "counts" if token.revoked_at is None else "revoked"
