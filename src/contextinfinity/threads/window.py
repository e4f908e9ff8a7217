"""Which of the newest turns make a window.

At least the last N, and N is never under 2. A window that leaves something out begins with a user turn: it reaches
back to the nearest one, where there is one. And it always holds the last user turn that was answered, with its
answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from contextinfinity.threads.values import Turn

SMALLEST = 2
DEFAULT = 20


def window_start(turns: Sequence[Turn], most: int, *, whole: bool) -> int | None:
    """Give the place where a window of ``most`` turns begins among the newest turns of a thread.

    ``whole``: these are all its turns. Otherwise None says that earlier ones have to be known to tell.
    """
    cut = len(turns) - max(most, SMALLEST)
    if cut <= 0:
        return 0 if whole else None
    opening = _last_of("user", turns, cut)
    answer = _last_of("assistant", turns, len(turns) - 1)
    asked = None if answer is None else _last_of("user", turns, answer)
    if not whole and (opening is None or asked is None):
        return None
    return min(cut if opening is None else opening, cut if asked is None else asked)


def _last_of(role: str, turns: Sequence[Turn], place: int) -> int | None:
    """Find the last turn of a role up to a place."""
    while place >= 0 and turns[place].role != role:
        place -= 1
    return None if place < 0 else place
