"""Decide when a fold is due, where it cuts, and whether it is worth it; a pure computation on token counts.

    oldest ◄─────────────────────────────────────────────► newest
    │ removed: the summary covers it │ kept verbatim: the window │

The cut is the start of the window, or the start of a new topic if that is later ("truncate"). The floors keep a number
of messages and exchanges, as far as they fit into half the trigger; the last exchange is kept if folding is still worth
it. A task (a message and the tool rounds that follow it) is cut only if nothing older is left: between two of its
rounds, and the prompt keeps showing its opening message (``prompt.tasks``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

CONFIDENT = 0.5
"""The minimum confidence of a topic boundary for a fold to cut there."""


class FoldLimits(Struct, frozen=True, kw_only=True):
    """The limits, in tokens, messages and exchanges."""

    trigger: int
    window: int
    messages: int = 12
    exchanges: int = 2

    @property
    def least_freed(self) -> int:
        """The minimum number of tokens that a fold must free."""
        return self.trigger // 4


class FoldableTurn(Struct, frozen=True, kw_only=True):
    """A verbatim turn and its size.

    ``joined``: it contains results of tool calls of the previous turn; ``waits``: it made calls itself.
    """

    turn_seq: int
    tokens: int
    messages: int = 2
    joined: bool = False
    waits: bool = False


class FoldCut(Struct, frozen=True, kw_only=True):
    """The number of turns to fold, and the reason for the cut."""

    leaves: int
    case: Literal["truncate", "summarize"]


def is_due(pieces: Sequence[FoldableTurn], limits: FoldLimits, *, since: int = 0) -> bool:
    """Return whether the verbatim part is too long; with ``since``, only turns after that one are counted."""
    return sum(piece.tokens for piece in pieces if piece.turn_seq > since) > limits.trigger


def choose_cut(
    pieces: Sequence[FoldableTurn], limits: FoldLimits, topic: int | None = None, *, most: int | None = None
) -> FoldCut | None:
    """Return where to cut, or None if nothing can be removed; ``topic`` is the index of the turn that starts a new one.

    At most the first ``most`` turns are removed.
    """
    floor = _latest_cut(pieces, limits)
    window = min(floor, _walk_back(pieces, lambda kept, _: kept <= limits.window))
    over = topic is not None and topic >= window
    leaves = min(topic, floor) if topic is not None and over else window
    leaves = leaves if most is None else min(leaves, most)
    between = leaves
    while between > 0 and _splits_tool_round(pieces, between):
        between -= 1
    inside = min(leaves, len(pieces) - 1)
    if between == 0 and sum(piece.tokens for piece in pieces[1:inside]) >= limits.least_freed:
        return FoldCut(leaves=inside, case="summarize")  # there is only one task, and its opening message is kept
    return FoldCut(leaves=between, case="truncate" if over else "summarize") if between else None


def frees_enough(pieces: Sequence[FoldableTurn], cut: FoldCut, limits: FoldLimits) -> bool:
    """Return whether a cut frees enough to be worth a new front."""
    return sum(piece.tokens for piece in pieces[: cut.leaves]) >= limits.least_freed


def _splits_tool_round(pieces: Sequence[FoldableTurn], place: int) -> bool:
    """Return whether a cut would separate a call from its results, present or expected."""
    return pieces[place].joined if place < len(pieces) else pieces[-1].waits


def _latest_cut(pieces: Sequence[FoldableTurn], limits: FoldLimits) -> int:
    """Return the latest possible cut."""

    def needed(kept: int, count: int) -> bool:
        messages = sum(piece.messages for piece in pieces[len(pieces) - count + 1 :])
        missing = messages < limits.messages or count <= limits.exchanges
        return missing and kept <= limits.trigger // 2

    floor = _walk_back(pieces, needed)
    spare_last = bool(pieces) and pieces[-1].tokens <= limits.trigger - limits.least_freed
    return min(floor, len(pieces) - 1) if spare_last else floor


def _walk_back(pieces: Sequence[FoldableTurn], stays: Callable[[int, int], bool]) -> int:
    """Go back from the newest turn while ``stays`` accepts one more; it gets the kept tokens and turns."""
    place, kept = len(pieces), 0
    while place > 0 and stays(kept + pieces[place - 1].tokens, len(pieces) - place + 1):
        place -= 1
        kept += pieces[place].tokens
    return place
