"""A client of a server: the client contract over HTTP.

Each message has an idempotency key, so a request whose response was lost can be sent again. An interrupted stream is
resumed where it was, also after a restart of the server. What needs the ledger itself (tokens, clean-up, the index)
raises ``Refused``.
"""

from __future__ import annotations

from contextinfinity.client.remote.client import RemoteClient

__all__ = ["RemoteClient"]
