"""Requests that may come again: a caller names one with a key, and however often it comes, it is done once."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from contextinfinity.domain.session import Once, Owner
from contextinfinity.domain.wire import unicode_only
from contextinfinity.errors import InvalidInput

LONGEST_KEY = 255

_canonical = msgspec.json.Encoder(order="sorted")


def once_of(owner: Owner, key: str, asked: Mapping[str, object]) -> Once:
    """Name a request by its caller and the caller's key, and hash what it asks for."""
    if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise InvalidInput(f"A key has 1 to {LONGEST_KEY} visible characters.")
    return Once(key=_hash((owner, key)), asked=_hash(asked))


def for_message(
    owner: Owner, key: str | None, thread_id: str, content: object, how: Mapping[str, object]
) -> Once | None:
    """Name a message that is sent under a key, if it is; its metadata say nothing of what is asked for."""
    if key is None:
        return None
    how = {name: value for name, value in how.items() if name not in ("metadata", "terms")}  # only ``/v1`` has terms
    return once_of(owner, key, {"thread_id": thread_id, "content": content, "how": how})


def for_session(once: Once) -> Once:
    """Name the part of such a request that makes a session."""
    return Once(key=_hash(("session", once.key)), asked=once.asked)


def _hash(value: object) -> str:
    with unicode_only():
        return sha256(_canonical.encode(value)).hexdigest()
