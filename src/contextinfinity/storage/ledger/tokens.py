"""API tokens, by the hash of their secret."""

from __future__ import annotations

from typing import get_args

from contextinfinity.domain.ids import from_millis, new_id, now, to_millis
from contextinfinity.domain.session import Owner
from contextinfinity.domain.token import NewToken, Token, TokenId, TokenScope
from contextinfinity.errors import AlreadyExists
from contextinfinity.storage.database import Connection, Row, StoreResource, looks, reads, writes
from contextinfinity.storage.invariants import check_hash, check_name, check_one_of, row_limit
from contextinfinity.storage.ledger.rows import must, pack, pack_hash, unpack


def find_token(connection: Connection, sha256: str) -> Token | None:
    """Return the token with that hash, also if it is revoked or expired."""
    row = connection.one("select_token", (pack_hash(sha256),))
    return None if row is None else _to_token(row)


def list_tokens(connection: Connection, *, limit: int = 1000) -> tuple[Token, ...]:
    """Return all tokens, including revoked and expired ones, oldest first."""
    return tuple(map(_to_token, connection.many("select_tokens", (row_limit(limit),))))


def revoke_token(connection: Connection, token_id: TokenId) -> Token:
    """Revoke a token, effective at once in every process. Revoking it again changes nothing."""
    connection.execute("revoke_token", {"id": pack(token_id), "now": to_millis(now())})
    return _existing(connection, token_id)


def any_token_exists(connection: Connection) -> bool:
    """Return whether any token exists, revoked or not."""
    return bool(connection.many("any_token")[0][0])


def check_new_token(new: NewToken) -> None:
    """Raise ``InvalidInput`` for a token with an invalid hash or name."""
    check_hash("sha256", new.sha256)
    check_name("user_id", new.owner.user_id, least=1)
    check_name("org_id", new.owner.org_id, least=0)
    check_one_of("scope", new.scope, get_args(TokenScope))


def create_token(connection: Connection, new: NewToken) -> Token:
    """Store a token. Raises ``AlreadyExists`` for a known hash and ``InvalidInput`` for a malformed one."""
    check_new_token(new)
    if connection.one("select_token", (pack_hash(new.sha256),)) is not None:
        raise AlreadyExists("There is a token of that hash already.")
    token_id = new_id()
    values = {"org_id": new.owner.org_id, "user_id": new.owner.user_id, "scope": new.scope, "now": to_millis(now())}
    ends = None if new.expires_at is None else to_millis(new.expires_at)
    keys = {"id": pack(token_id), "sha256": pack_hash(new.sha256), "expires_at": ends}
    connection.execute("insert_token", values | keys)
    return _existing(connection, token_id)


def _existing(connection: Connection, token_id: TokenId) -> Token:
    return _to_token(must(connection.one("select_token_by_id", (pack(token_id),)), "token", token_id))


def _to_token(row: Row) -> Token:
    token_id, org_id, user_id, scope, created_at, revoked_at, expires_at = row
    return Token(
        id=unpack(token_id),
        owner=Owner(user_id=user_id, org_id=org_id),
        scope=scope,
        created_at=from_millis(created_at),
        revoked_at=None if revoked_at is None else from_millis(revoked_at),
        expires_at=None if expires_at is None else from_millis(expires_at),
    )


class Tokens(StoreResource):
    """API tokens of a server. Only the hash of a token's secret is stored."""

    create = writes(create_token)
    find = looks(find_token)
    list = reads(list_tokens)
    revoke = writes(revoke_token)
    any = looks(any_token_exists)
