"""A client of a server: the same nouns over HTTP, for every door that knows the contract.

What is said is said once: each message has a key, so that a request whose answer was lost on the way can be sent again.
A stream that is cut is resumed where it was, also at a server that was started anew. What needs the ledger itself
(tokens, the index) is refused, with where to do it.
"""

from __future__ import annotations

from contextinfinity.client.remote.client import RemoteClient

__all__ = ["RemoteClient"]
