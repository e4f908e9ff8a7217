"""Access tokens of a server.

The text of a token is shown once, when it is created; only its hash is stored. Revoked and expired tokens stay listed.
Once a first token exists, a server rejects every request without a valid one, even when no valid token is left:
revoking a token never opens a server.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.session import Owner

TokenId: TypeAlias = str
TokenScope: TypeAlias = Literal["user", "app"]
"""``user``: acts for its owner only; ``app``: for any user of its owner's organisation."""
TokenState: TypeAlias = Literal["valid", "expired", "revoked"]


class NewToken(Struct, frozen=True, kw_only=True):
    """A token to store: the SHA-256 (in hex) of its text and its owner. ``expires_at`` None means never."""

    sha256: str
    owner: Owner = Owner()
    scope: TokenScope = "user"
    expires_at: datetime | None = None


class Token(Struct, frozen=True, kw_only=True):
    """A stored token."""

    id: TokenId
    owner: Owner
    scope: TokenScope
    created_at: datetime
    revoked_at: datetime | None = None
    expires_at: datetime | None = None

    def state(self, at: datetime) -> TokenState:
        """Return whether it is valid, expired or revoked at a time."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= at else "valid"

    def may_act_for(self, owner: Owner) -> bool:
        """Return whether it gives access to that owner's data."""
        if self.scope == "app":
            return owner.org_id == self.owner.org_id
        return owner == self.owner
