"""The stable front of a prompt, and when it may change.

A front is replaced only for one of the listed reasons. Other changes, such as a new memory, wait for the next
replacement, so that the provider's prompt cache keeps matching.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from contextinfinity.domain.memory import Memory
from contextinfinity.domain.message import Json
from contextinfinity.domain.plan import Front, Plan

SILENCE = timedelta(hours=1)
"""After this time no provider cache is still valid."""


class PreviousFront(Struct, frozen=True, kw_only=True):
    """The previous request on the branch."""

    front: Front
    plan: Plan
    silence: timedelta
    same_branch: bool = True
    removed: bool = False
    """Whether a memory in it was removed or edited, or is no longer stated by any turn."""
    corrections: tuple[Memory, ...] = ()
    """Newer memories that supersede memories in it."""


def choose_front(
    candidate: Front, last: PreviousFront | None, *, with_memories: bool = True
) -> tuple[Front, str | None]:
    """Keep the front of the last request or replace it; return (front, reason for a new epoch or None).

    ``with_memories`` is False if memories are turned off; those in the last front are then removed.
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
