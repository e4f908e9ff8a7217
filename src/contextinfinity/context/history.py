"""The earlier turns of a thread: all of them, or of a very long one the newest that fill a bound."""

from __future__ import annotations

from dataclasses import dataclass

import contextinfinity.threads as threads
from contextinfinity.threads.values import Turn
from contextinfinity.threads.window import DEFAULT, window_start

MOST_CHARACTERS = 96_000
"""About 24,000 tokens; the newest ``DEFAULT`` turns are there whatever they take."""
MESSAGE_CHARACTERS = 16
"""What a message takes besides its words."""
FIRST_LOOK = 64


@dataclass(frozen=True, kw_only=True)
class History:
    """The turns, oldest first, whether older ones were left out, and where they are kept (None: no such thread)."""

    turns: tuple[Turn, ...]
    is_cut: bool
    kept_in: str | None


def load_history(thread_id: str) -> History:
    """Read the earlier turns; nothing is made and nothing is changed."""
    most = FIRST_LOOK
    turns = threads.get_history(thread_id, most)
    while len(turns) >= most and (size := sum(map(_size, turns))) <= MOST_CHARACTERS:
        most = max(2 * most, len(turns) * MOST_CHARACTERS // size + DEFAULT)  # as many as these let expect
        turns = threads.get_history(thread_id, most)
    shown = turns[window_start(turns, _that_fit(turns), whole=True) :]
    is_cut = len(shown) < len(turns) or len(turns) >= most
    return History(turns=tuple(shown), is_cut=is_cut, kept_in=threads.identity(thread_id))


def _that_fit(turns: list[Turn]) -> int:
    """Count the newest turns that stay within the bound together."""
    room, count = MOST_CHARACTERS, 0
    for turn in reversed(turns):
        room -= _size(turn)
        if room < 0:
            break
        count += 1
    return max(count, DEFAULT)


def _size(turn: Turn) -> int:
    return len(turn.content) + MESSAGE_CHARACTERS
