"""The part of the prompt that stands still, and when it may change.

A front is replaced only for a reason. What else changes meanwhile (a memory that was learned) waits for the next one,
so that a provider's cache keeps knowing the beginning.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from contextinfinity.domain.memory import Memory
from contextinfinity.domain.message import Json
from contextinfinity.domain.plan import Front, Plan

SILENCE = timedelta(hours=1)
"""After so long no cache remembers anything."""


class PreviousFront(Struct, frozen=True, kw_only=True):
    """The request before this one on the branch."""

    front: Front
    plan: Plan
    silence: timedelta
    same_branch: bool = True
    removed: bool = False
    """Whether a person took something out of its memories, or changed it, or nobody says it any more."""
    corrections: tuple[Memory, ...] = ()
    """What makes memories untrue that stand in it."""


def choose_front(
    candidate: Front, last: PreviousFront | None, *, with_memories: bool = True
) -> tuple[Front, str | None]:
    """Keep the front of the last request, or take the new one for a reason; gives (front, reason for a new epoch).

    ``with_memories``: whether they are wanted; those that the last front has leave it otherwise.
    """
    if last is None:
        return candidate, "first"
    reason = _reason(candidate, last, with_memories)
    if reason is None or candidate == last.front:
        return last.front, "shrunk" if last.plan.shrunk and last.plan.shrunk.touches_front else None
    return candidate, reason


def _reason(candidate: Front, last: PreviousFront, with_memories: bool) -> str | None:
    before = last.front
    were_left_out = not before.memories and any(left.what == "memory" for left in last.plan.left_out)
    changed = {
        "fold": candidate.summary != before.summary,
        "pin": candidate.pinned_facts != before.pinned_facts,
        "system": (candidate.system, candidate.is_bare, _sent(candidate, "system"))
        != (before.system, before.is_bare, _sent(before, "system")),
        "tools": (candidate.tools, _sent(candidate, "tools")) != (before.tools, _sent(before, "tools")),
        "format": candidate.response_format != before.response_format,
        "memory": last.removed
        or (bool(candidate.memories) and were_left_out if with_memories else bool(before.memories)),
        "branch": not last.same_branch,
        "silence": last.silence > SILENCE,
    }
    return next((reason for reason, is_so in changed.items() if is_so), None)


def _sent(front: Front, name: str) -> Json:
    return front.sent.get(name) if isinstance(front.sent, dict) else None
