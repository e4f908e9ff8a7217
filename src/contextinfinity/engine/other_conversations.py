"""What no memory holds: a question about the user is looked for in the user's other conversations.

Only for a user who said who they are, only in conversations of the same owner, only among the user's own words, and
only what the active branch of that conversation shows. What was forgotten or corrected is not brought back. Each piece
says in which conversation and when it was said.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from contextinfinity.domain.memory import ANONYMOUS
from contextinfinity.domain.plan import LeftOut
from contextinfinity.domain.search import Scope
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.artifacts import Need
from contextinfinity.engine.memory_jobs import MOST_KNOWN, is_off_record
from contextinfinity.engine.parts import Parts
from contextinfinity.engine.recall import PriorContext, run_optional
from contextinfinity.prompt.prompt_sections import Artifact
from contextinfinity.rewriting.question_detection import asks
from contextinfinity.text.cues import carries_content
from contextinfinity.text.keywords import terms
from contextinfinity.text.vocabulary import everywhere

MOST: Final = 2
"""Pieces that are shown at most."""
TOKENS: Final = 400
"""Tokens that they may take."""

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_OWNING: Final = everywhere("first_person", "owning")
_INSIDE: Final = everywhere("first_person", "owning_inside")
_ADVICE_INSIDE: Final = everywhere("first_person", "advice_inside")
_RECALLING: Final = re.compile("|".join(rf"\b(?:{one})" for one in everywhere("first_person", "recalling")), re.I)
_ADVICE: Final = re.compile(rf"\W*(?:{'|'.join(everywhere('first_person', 'advice'))})", re.I)


async def said_elsewhere(
    parts: Parts, recalled: PriorContext, need: Need, missing: list[LeftOut]
) -> tuple[Artifact, ...]:
    """Find what the user said in other conversations, where a question about them has no answer at hand."""
    owner, text = recalled.session.owner, need.turn.user_message.rendered_text
    if owner.user_id == ANONYMOUS or parts.setup.retrieval is None or parts.setup.remembering is None:
        return ()
    if recalled.known is None or not asks_about_user(text) or is_at_hand(text, recalled):
        return ()
    wider = replace(need, scope=Scope(owner=owner, sides=("user",)), room=min(need.room, TOKENS))
    found = await run_optional("other conversations", missing, lambda: _found(parts, wider, missing))
    return (found or ())[:MOST]


def asks_about_user(text: str) -> bool:
    """Return whether a text asks for something about its writer ("What is my dentist called?") and for no advice."""
    if not asks(text) or _ADVICE.match(text) or any(word in text for word in _ADVICE_INSIDE):
        return False
    said = {match[0].lower() for match in _WORD.finditer(text)}
    return not said.isdisjoint(_OWNING) or _RECALLING.search(text) is not None or any(word in text for word in _INSIDE)


def is_at_hand(text: str, recalled: PriorContext) -> bool:
    """Return whether a memory, or a turn that is shown, has most words of a question."""
    wanted = _content(text)
    known = () if recalled.known is None else (*recalled.known.asked, *recalled.known.standing)
    shown = [turn.user_message.rendered_text for turn in recalled.earlier]
    return any(2 * len(wanted & _content(said)) >= len(wanted) for said in (*(line.text for line in known), *shown))


async def _found(parts: Parts, need: Need, missing: list[LeftOut]) -> tuple[Artifact, ...]:
    from contextinfinity.engine.history_search import bring_back  # its word lists take time to load

    wanted = _content(need.turn.user_message.rendered_text)
    pieces = [piece for piece in await bring_back(parts, need, missing) if wanted & _content(piece.text)]
    return tuple([piece for piece in pieces if piece.conversation and await _is_shown(parts, need, piece)])


def _content(text: str) -> set[str]:
    """Return the words of a text that carry content, as the index knows them."""
    return {term for match in _WORD.finditer(text) if carries_content(match[0].lower()) for term in terms(match[0])}


async def _is_shown(parts: Parts, need: Need, piece: Artifact) -> bool:
    """Return whether the owner's conversation shows the turn on its active branch, and the user is known to say it."""
    session = await parts.store.sessions.get(piece.conversation)
    chunk = await parts.store.chunks.get(piece.chunk_id)
    if session is None or chunk is None or need.scope is None or session.owner != need.scope.owner:
        return False
    turn = await parts.store.turns.get(chunk.source_turn)
    if turn is None or is_off_record(turn):
        return False
    seen = await parts.store.turns.history(session.active_branch, limit=1, before=turn.turn_seq + 1)
    return bool(seen) and seen[-1].id == turn.id and await _still_holds(parts, session.owner, turn)


async def _still_holds(parts: Parts, owner: Owner, turn: Turn) -> bool:
    """Return whether all facts of a turn are living memories, so that none was forgotten or corrected."""
    if parts.setup.remembering is None:
        return False
    drawn = await parts.setup.remembering.draw(turn.user_message.rendered_text, turn.created_at)
    if drawn.unwanted:
        return False
    if not drawn.told:
        return True
    living = {memory.content for memory in await parts.store.memories.list(owner, limit=MOST_KNOWN)}
    return all(fact.content in living for fact in drawn.told)
