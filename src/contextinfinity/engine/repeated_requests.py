"""Requests that come more than once.

Under an idempotency key a request is carried out once, however often it comes. Without a key, a message that repeats
one that just failed is its retry: both are kept, and the model is shown one (``prompt.render``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import pairwise

import msgspec

from contextinfinity.domain.ids import BranchId, TurnId
from contextinfinity.domain.message import Message
from contextinfinity.domain.prefix_hash import says_the_same
from contextinfinity.domain.session import IdempotencyKey, Owner
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.domain.wire import unicode_only
from contextinfinity.errors import InvalidInput, LedgerAway
from contextinfinity.prompt.render import came_to_nothing
from contextinfinity.storage.contract import Store

LONGEST_KEY = 255

_canonical = msgspec.json.Encoder(order="sorted")


def once_of(owner: Owner, key: str, asked: Mapping[str, object]) -> IdempotencyKey:
    """Name a request by its caller and the caller's key, and hash what it asks for."""
    if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise InvalidInput(f"A key has 1 to {LONGEST_KEY} visible characters.")
    return IdempotencyKey(key=_hash((owner, key)), asked=_hash(asked))


def for_message(
    owner: Owner, key: str | None, thread_id: str, content: object, how: Mapping[str, object]
) -> IdempotencyKey | None:
    """Name a message that is sent under a key, if it is; its metadata say nothing of what is asked for."""
    if key is None:
        return None
    how = {name: value for name, value in how.items() if name not in ("metadata", "terms")}  # only ``/v1`` has terms
    return once_of(owner, key, {"thread_id": thread_id, "content": content, "how": how})


def for_session(once: IdempotencyKey) -> IdempotencyKey:
    """Name the part of such a request that makes a session."""
    return IdempotencyKey(key=_hash(("session", once.key)), asked=once.asked)


def _hash(value: object) -> str:
    with unicode_only():
        return sha256(_canonical.encode(value)).hexdigest()


async def failed_just_now(store: Store, branch_id: BranchId, message: Message) -> TurnId | None:
    """Name the newest turn of a branch where it said the same and came to nothing; None: not as far as is known."""
    with suppress(LedgerAway):
        newest = await store.turns.history(branch_id, limit=1)
        return newest[-1].id if newest and is_same(newest[-1], message) else None
    return None


def is_same(turn: Turn, message: Message) -> bool:
    """Tell whether a turn said the same as a message and failed, without a word."""
    return turn.phase is Phase.FAILED and came_to_nothing(turn) and says_the_same(turn.user_message, message)


def all_the_same(turns: Sequence[Turn], message: Message) -> bool:
    """Tell whether turns that stand in a row are tries of one message, so that the next one shows none of them."""
    is_row = all(later.retry_of == earlier.id for earlier, later in pairwise(turns))
    return is_row and all(is_same(turn, message) for turn in turns)
