"""Questions that failed and are asked again: all of them are kept, and the model is shown one (``prompt.render``)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from contextinfinity.domain.ids import BranchId, TurnId
from contextinfinity.domain.message import Message
from contextinfinity.domain.trail import says_the_same
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.errors import LedgerAway
from contextinfinity.prompt.render import came_to_nothing
from contextinfinity.storage.contract import Store


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
