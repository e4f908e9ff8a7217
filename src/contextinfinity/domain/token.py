"""Tokens: who may use a server, and for whom.

The words of a token are shown once, when it is made; what is kept is their hash. A token that was revoked stays on
the list: that there ever was one is what closes a server to those who have none.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.session import Owner

TokenId: TypeAlias = str
TokenScope: TypeAlias = Literal["user", "app"]
"""``user``: acts for its owner only; ``app``: for any user of its owner's organisation."""


class NewToken(Struct, frozen=True, kw_only=True):
    """A token to be kept: the SHA-256 (in hex) of its words, and whom it stands for."""

    sha256: str
    owner: Owner = Owner()
    scope: TokenScope = "user"


class Token(Struct, frozen=True, kw_only=True):
    """A token that was given to somebody; ``revoked_at`` None: it counts."""

    id: TokenId
    owner: Owner
    scope: TokenScope
    created_at: datetime
    revoked_at: datetime | None = None

    def may_act_for(self, owner: Owner) -> bool:
        """Tell whether it opens what belongs to that owner."""
        if self.scope == "app":
            return owner.org_id == self.owner.org_id
        return owner == self.owner
