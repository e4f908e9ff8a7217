"""Answer an identified user's question about themselves from their other conversations, if no memory answers it.

Only the user's own messages on active branches are quoted, without what was forgotten or corrected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from contextinfinity.domain.memory import ANONYMOUS
from contextinfinity.domain.plan import LeftOut
from contextinfinity.domain.search import Scope
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.artifacts import Need
from contextinfinity.engine.engine_setup import Remembering
from contextinfinity.engine.history_search import HistorySearch
from contextinfinity.engine.memory_jobs import MOST_KNOWN, is_off_record
from contextinfinity.engine.optional_stage import run_optional
from contextinfinity.engine.recall import PriorContext
from contextinfinity.prompt.prompt_sections import Artifact
from contextinfinity.rewriting.question_detection import asks
from contextinfinity.storage.contract import Store
from contextinfinity.text.cues import carries_content
from contextinfinity.text.keywords import terms
from contextinfinity.text.vocabulary import everywhere

MOST: Final = 2
"""The maximum number of passages."""
TOKENS: Final = 400
"""The maximum number of tokens of all passages."""

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_OWNING: Final = everywhere("first_person", "owning")
_INSIDE: Final = everywhere("first_person", "owning_inside")
_ADVICE_INSIDE: Final = everywhere("first_person", "advice_inside")
_RECALLING: Final = re.compile("|".join(rf"\b(?:{one})" for one in everywhere("first_person", "recalling")), re.I)
_ADVICE: Final = re.compile(rf"\W*(?:{'|'.join(everywhere('first_person', 'advice'))})", re.I)


@dataclass(frozen=True, kw_only=True)
class OtherConversations:
    """Finds what a user said about themselves in their other conversations."""

    store: Store
    search: HistorySearch
    remembering: Remembering | None

    async def passages(self, recalled: PriorContext, need: Need, missing: list[LeftOut]) -> tuple[Artifact, ...]:
        """Return passages from other conversations, if a question about the user has no answer in the context."""
        owner, text = recalled.session.owner, need.turn.user_message.rendered_text
        if owner.user_id == ANONYMOUS or self.search.retrieval is None or self.remembering is None:
            return ()
        if recalled.known is None or not asks_about_user(text) or is_in_context(text, recalled):
            return ()
        wider = replace(need, scope=Scope(owner=owner, sides=("user",)), room=min(need.room, TOKENS))
        found = await run_optional("other conversations", missing, lambda: self._found(wider, missing))
        return (found or ())[:MOST]

    async def _found(self, need: Need, missing: list[LeftOut]) -> tuple[Artifact, ...]:

        wanted = _content(need.turn.user_message.rendered_text)
        pieces = [piece for piece in await self.search.retrieve(need, missing) if wanted & _content(piece.text)]
        return tuple([piece for piece in pieces if piece.conversation and await self._is_shown(need, piece)])

    async def _is_shown(self, need: Need, piece: Artifact) -> bool:
        """Return whether the passage is on its conversation's active branch, still true, and written by the user."""
        session = await self.store.sessions.get(piece.conversation)
        chunk = await self.store.chunks.get(piece.chunk_id)
        if session is None or chunk is None or need.scope is None or session.owner != need.scope.owner:
            return False
        turn = await self.store.turns.get(chunk.source_turn)
        if turn is None or is_off_record(turn):
            return False
        seen = await self.store.turns.history(session.active_branch, limit=1, before=turn.turn_seq + 1)
        return bool(seen) and seen[-1].id == turn.id and await self._still_holds(session.owner, turn)

    async def _still_holds(self, owner: Owner, turn: Turn) -> bool:
        """Return whether no fact of the turn was forgotten or corrected."""
        if self.remembering is None:
            return False
        drawn = await self.remembering.extract(turn.user_message.rendered_text, turn.created_at)
        if drawn.unwanted:
            return False
        if not drawn.facts:
            return True
        living = {memory.content for memory in await self.store.memories.list(owner, limit=MOST_KNOWN)}
        return all(fact.content in living for fact in drawn.facts)


def asks_about_user(text: str) -> bool:
    """Return whether a text asks for a fact about its writer ("What is my dentist called?") and not for advice."""
    if not asks(text) or _ADVICE.match(text) or any(word in text for word in _ADVICE_INSIDE):
        return False
    words = {match[0].lower() for match in _WORD.finditer(text)}
    return not words.isdisjoint(_OWNING) or _RECALLING.search(text) is not None or any(word in text for word in _INSIDE)


def is_in_context(text: str, recalled: PriorContext) -> bool:
    """Return whether a memory or a shown turn contains most words of the question."""
    wanted = _content(text)
    known = () if recalled.known is None else (*recalled.known.asked, *recalled.known.standing)
    shown = [turn.user_message.rendered_text for turn in recalled.earlier]
    return any(2 * len(wanted & _content(said)) >= len(wanted) for said in (*(line.text for line in known), *shown))


def _content(text: str) -> set[str]:
    """Return the indexed forms of the content words of a text."""
    return {term for match in _WORD.finditer(text) if carries_content(match[0].lower()) for term in terms(match[0])}
