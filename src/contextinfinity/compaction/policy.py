"""When a fold is due, where it cuts, and whether it pays; on plain figures.

    oldest ◄─────────────────────────────────────────────► newest
    │ leaves: the summary covers it │ stays word for word: the window │

The cut is the start of the window, or the start of a new topic where that lies later ("truncate"). The floors keep a
number of messages and exchanges, as far as these fit half the trigger; the last exchange stays wherever folding still
pays without it. A task (a message and the tool rounds that follow it) is cut only where nothing older is left: between
two of its rounds, and the prompt goes on showing its opening message (``prompt.tasks``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

CONFIDENT = 0.5
"""How sure a topic boundary has to be before a fold cuts there."""


class FoldLimits(Struct, frozen=True, kw_only=True):
    """What decides, in tokens, messages and exchanges."""

    trigger: int
    window: int
    messages: int = 12
    exchanges: int = 2

    @property
    def pays(self) -> int:
        """The least a fold has to free."""
        return self.trigger // 4


class FoldableTurn(Struct, frozen=True, kw_only=True):
    """A turn of the word-for-word part, and what it takes.

    ``joined``: it brings results of tools that the one before asked for; ``waits``: it asked for some itself.
    """

    turn_seq: int
    tokens: int
    messages: int = 2
    joined: bool = False
    waits: bool = False


class FoldCut(Struct, frozen=True, kw_only=True):
    """How many of the pieces leave, and why there."""

    leaves: int
    case: Literal["truncate", "summarize"]


def is_due(pieces: Sequence[FoldableTurn], limits: FoldLimits, *, since: int = 0) -> bool:
    """Tell whether the word-for-word part is too long; ``since``: only what came after that turn counts."""
    return sum(piece.tokens for piece in pieces if piece.turn_seq > since) > limits.trigger


def choose_cut(
    pieces: Sequence[FoldableTurn], limits: FoldLimits, topic: int | None = None, *, most: int | None = None
) -> FoldCut | None:
    """Find where to cut; ``topic`` is the place of the piece that begins a new one. None: nothing can leave.

    ``most``: no more than the first so many can.
    """
    floor = _floor(pieces, limits)
    window = min(floor, _start(pieces, lambda kept, _: kept <= limits.window))
    over = topic is not None and topic >= window
    leaves = min(topic, floor) if topic is not None and over else window
    leaves = leaves if most is None else min(leaves, most)
    between = leaves
    while between > 0 and _parts(pieces, between):
        between -= 1
    inside = min(leaves, len(pieces) - 1)
    if between == 0 and sum(piece.tokens for piece in pieces[1:inside]) >= limits.pays:
        return FoldCut(leaves=inside, case="summarize")  # one task is all there is, and its opening message stays
    return FoldCut(leaves=between, case="truncate" if over else "summarize") if between else None


def pays(pieces: Sequence[FoldableTurn], cut: FoldCut, limits: FoldLimits) -> bool:
    """Tell whether a cut frees enough to be worth a new front."""
    return sum(piece.tokens for piece in pieces[: cut.leaves]) >= limits.pays


def _parts(pieces: Sequence[FoldableTurn], place: int) -> bool:
    """Tell whether a cut would part a call from its results, or from those that may still come."""
    return pieces[place].joined if place < len(pieces) else pieces[-1].waits


def _floor(pieces: Sequence[FoldableTurn], limits: FoldLimits) -> int:
    """Find the latest place to cut at."""

    def needed(kept: int, count: int) -> bool:
        messages = sum(piece.messages for piece in pieces[len(pieces) - count + 1 :])
        missing = messages < limits.messages or count <= limits.exchanges
        return missing and kept <= limits.trigger // 2

    floor = _start(pieces, needed)
    spare_last = bool(pieces) and pieces[-1].tokens <= limits.trigger - limits.pays
    return min(floor, len(pieces) - 1) if spare_last else floor


def _start(pieces: Sequence[FoldableTurn], stays: Callable[[int, int], bool]) -> int:
    """Go back from the newest while one more may stay: told what would be kept then, in tokens and in pieces."""
    place, kept = len(pieces), 0
    while place > 0 and stays(kept + pieces[place - 1].tokens, len(pieces) - place + 1):
        place -= 1
        kept += pieces[place].tokens
    return place
