"""Repeated requests.

A request with an idempotency key is executed once. Without a key, a message that repeats one that just failed is a
retry: both are stored, and the model is shown one (``prompt.render``).
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
from contextinfinity.engine.running_turn import SendOptions
from contextinfinity.errors import InvalidInput, LedgerAway
from contextinfinity.prompt.render import has_no_output
from contextinfinity.storage.contract import Store

LONGEST_KEY = 255

_canonical = msgspec.json.Encoder(order="sorted")


def request_key(owner: Owner, key: str, asked: Mapping[str, object]) -> IdempotencyKey:
    """Return the idempotency key of a request: hashes of caller and key, and of the request's content.

    Raise ``InvalidInput`` if the caller's key is empty, too long or not printable.
    """
    if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise InvalidInput(f"A key has 1 to {LONGEST_KEY} visible characters.")
    return IdempotencyKey(key=_hash((owner, key)), asked=_hash(asked))


def for_message(sending: SendOptions, thread_id: str, content: object) -> IdempotencyKey | None:
    """Return the idempotency key of a message, or None without a key; metadata is not part of the content hash."""
    if sending.key is None:
        return None
    how = msgspec.to_builtins(sending)
    how = {name: value for name, value in how.items() if name not in ("metadata", "terms")}  # only /v1 sets terms
    return request_key(sending.owner, sending.key, {"thread_id": thread_id, "content": content, "how": how})


def for_session(once: IdempotencyKey) -> IdempotencyKey:
    """Derive the key of the session that such a request creates."""
    return IdempotencyKey(key=_hash(("session", once.key)), asked=once.asked)


def _hash(value: object) -> str:
    with unicode_only():
        return sha256(_canonical.encode(value)).hexdigest()


async def failed_just_now(store: Store, branch_id: BranchId, message: Message) -> TurnId | None:
    """Return the newest turn of a branch if it failed with the same message; None if not, or if the ledger is away."""
    with suppress(LedgerAway):
        newest = await store.turns.history(branch_id, limit=1)
        return newest[-1].id if newest and is_same(newest[-1], message) else None
    return None


def is_same(turn: Turn, message: Message) -> bool:
    """Return whether a turn with the same message failed without any text."""
    return turn.phase is Phase.FAILED and has_no_output(turn) and says_the_same(turn.user_message, message)


def are_retries(turns: Sequence[Turn], message: Message) -> bool:
    """Return whether consecutive turns are all retries of one message, so that the next retry hides all of them."""
    is_row = all(later.retry_of == earlier.id for earlier, later in pairwise(turns))
    return is_row and all(is_same(turn, message) for turn in turns)
