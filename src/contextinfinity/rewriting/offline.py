"""The rewriter that asks no one: entities and references, from the words alone.

A change is made when it is sure enough; one threshold decides for all of them. The time is bounded: long messages are
left as they are, and of a long history only the newest turns and the first are read, each in part.
"""

from __future__ import annotations

from contextinfinity.rewriting.clarification import asking, described
from contextinfinity.rewriting.completing import completed
from contextinfinity.rewriting.continuing import continued
from contextinfinity.rewriting.contract import FollowUp, Rewritten
from contextinfinity.rewriting.focus import Focus
from contextinfinity.rewriting.message import Message, applied
from contextinfinity.rewriting.resolve import Resolved, resolved

LEAST = 0.6
"""How sure a change has to be. Higher: fewer questions are made explicit, and fewer are changed without need."""
LONGEST = 600
"""Characters of a message; a longer one says what it is about."""
ENTITIES = 20
"""Things told beside the explicit form, most in mind first."""


class Offline:
    """``Rewriter`` by entities and references; it needs no model and no network."""

    def __init__(self, least: float = LEAST) -> None:
        self._least = least

    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        """Make a message explicit; one that says all itself comes back as it is."""
        words = follow_up.latest_user_message
        focus = Focus.of(follow_up.recent_history, follow_up.memory_snippet)
        entities = tuple(described(thing) for thing in focus.ranked()[:ENTITIES])
        if (not focus.things and not focus.texts) or len(words) > LONGEST or "```" in words:
            return Rewritten(query=words, entities=entities)
        message = Message.of(words)
        if message.is_small_talk or message.thanks:
            return Rewritten(query=words, entities=entities)
        whole = continued(message, focus)
        if whole is not None:
            return Rewritten(query=whole, entities=entities)
        told = resolved(message, focus) if message.is_english else Resolved()
        told.changes = [change for change in told.changes if change.sure >= self._least]
        more = [change for change in completed(message, focus, told) if change.sure >= self._least]
        return Rewritten(
            query=applied(words, [*told.changes, *more]),
            entities=entities,
            is_ambiguous=bool(told.doubts),
            disambiguation_data=asking(told.doubts[0]) if told.doubts else None,
        )
