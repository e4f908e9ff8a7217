"""Memories in a prompt: those in its front, stable for an epoch, and those shown with one question.

A front and a plan refer to memories by id and text hash. The text is stored in one place only, so that a deleted memory
disappears from all past requests as well; a deletion or an edit makes the next front new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from contextinfinity.domain.chunk import Embedding
from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.memory import ANONYMOUS, Memory, MemoryRecall, MemoryReference, Recall
from contextinfinity.domain.plan import Front
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.turn import Turn
from contextinfinity.domain.vectors import packed
from contextinfinity.domain.wire import text_hash
from contextinfinity.engine.engine_setup import Remembering, Setup
from contextinfinity.memory.relevance import MOST, ranked
from contextinfinity.memory.snippet import LONGEST, MemoryLine, besides, fitting, lines, within
from contextinfinity.storage.ledger.memories import Memories
from contextinfinity.text.keywords import terms

DIGEST = 16
QUESTION = 2000
"""The number of characters of a question that are used to search memories."""


@dataclass(frozen=True, kw_only=True)
class StandingMemories:
    """The memories of a user that may be shown: permanent ones, and those relevant to the question, best first."""

    standing: tuple[MemoryLine, ...] = ()
    asked: tuple[MemoryLine, ...] = ()
    most: int = LONGEST

    @property
    def text(self) -> str:
        """The text of all memories for the rewriter, relevant ones first."""
        return lines(fitting(dict.fromkeys((*self.asked, *self.standing))))


async def known_to(memories: Memories, setup: Setup, session: Session, turn: Turn) -> StandingMemories | None:
    """Return the memories for a turn; None if there are none to give."""
    remembering = setup.remembering
    if remembering is None:
        given = await setup.helpers.memories(turn)
        return None if given is None else StandingMemories(standing=tuple(map(MemoryLine, given.splitlines())))
    question = turn.user_message.rendered_text[:QUESTION]
    recalled = await recall(memories, remembering, session, turn.branch_id, question)
    return await known_from(recalled, question, remembering.most)


async def recall(
    memories: Memories, remembering: Remembering, session: Session, branch_id: str, words: str
) -> MemoryRecall:
    """Read the memories that may be relevant to a message; for an anonymous user only those of the thread."""
    recalled = await memories.recall(_query(remembering, session, branch_id, words))
    if session.owner.user_id != ANONYMOUS:
        return recalled
    own = [tuple(one for one in some if len(one.memory.tags) > 1) for some in (recalled.found, recalled.standing)]
    return MemoryRecall(found=own[0], standing=own[1])


def _query(remembering: Remembering, session: Session, branch_id: str, words: str = "") -> Recall:
    return Recall(
        owner=session.owner,
        session_id=session.id,
        branch_id=branch_id,
        terms=tuple(set(terms(words)) - {"user"}),
        at=now(),
        oldest=now() - remembering.expiry,
        other_branches=remembering.other_branches,
    )


def placeholder_session(owner: Owner) -> Session:
    """Return a placeholder session for memory searches outside a conversation."""
    moment = now()
    return Session(
        id=new_id(), owner=owner, kind="thread", active_branch=new_id(), created_at=moment, updated_at=moment
    )


async def known_from(recalled: MemoryRecall, words: str, most: int) -> StandingMemories:
    """Rank the memories that were found."""
    if not recalled.standing and not recalled.found:
        return StandingMemories(most=most)
    (question,) = await placed_texts([words])
    found = [_line(memory) for _, memory in ranked(recalled, question)]
    standing = tuple(_line(each.memory) for each in recalled.standing)
    return StandingMemories(standing=standing, asked=tuple(found), most=most)


async def placed_texts(texts: Sequence[str]) -> list[Embedding]:
    """Embed texts with the built-in embedder: it needs no network, and memories use no other."""
    from contextinfinity.embedders.static import built_in

    is_loaded = built_in.cache_info().currsize
    embedder = built_in() if is_loaded else await asyncio.to_thread(built_in)
    rows = await embedder.embed(texts)
    return [Embedding(model=embedder.name, dim=embedder.dim, values=packed(row)) for row in rows]


def _line(memory: Memory) -> MemoryLine:
    return MemoryLine(memory.content, memory.id, memory.source_turn)


def chosen(known: StandingMemories | None, count: Callable[[str], int], tokens: int) -> tuple[MemoryLine, ...]:
    """Choose the memories of new prompt prefix: whole lines that fit into its share."""
    return () if known is None else within(fitting(known.standing, known.most), count, tokens)


def memories_for_question(
    known: StandingMemories, front: Front, shown: Sequence[Turn], corrections: Sequence[Memory]
) -> tuple[MemoryLine, ...]:
    """Choose the memories shown with a question: corrections of the front, and those relevant now."""
    standing_ids, shown_ids = {each.id for each in front.standing}, {turn.id for turn in shown}
    return fitting(besides(dict.fromkeys((*map(_line, corrections), *known.asked[:MOST])), standing_ids, shown_ids))


def placed(line: MemoryLine) -> MemoryReference:
    """Return the reference to a memory that a front or a plan stores."""
    return MemoryReference(line.id, digest(line.text))


def digest(text: str) -> str:
    """Return the first characters of a text's hash."""
    return text_hash(text).hex()[:DIGEST]


def without_memories(front: Front) -> Front:
    """Return a front as it is stored, without the texts of its memories."""
    return replace(front, memories="") if front.standing else front


class RenderedMemories(NamedTuple):
    """A front with the texts of its memories, and the references that could not be resolved."""

    front: Front
    removed: list[str]


async def written_out(memories: Memories, owner: Owner, front: Front) -> RenderedMemories:
    """Resolve the memories of a stored front."""
    if not front.standing:
        return RenderedMemories(front, [])
    texts = await memories.read(owner, [each.id for each in front.standing])
    text, removed = written(front.standing, texts)
    return RenderedMemories(replace(front, memories=text), removed)


class Corrected(NamedTuple):
    """Memories that supersede lines of a front, and whether lines were removed without a replacement."""

    corrections: tuple[Memory, ...] = ()
    is_unfounded: bool = False


async def corrected(memories: Memories, setup: Setup, session: Session, branch_id: str, front: Front) -> Corrected:
    """Find the memories of a front that were corrected or removed since, as seen from a branch."""
    remembering = setup.remembering
    if remembering is None or not front.standing:
        return Corrected()
    ids = [each.id for each in front.standing]
    current = await memories.current(_query(remembering, session, branch_id), ids)
    instead = {memory.id: memory for memory_id, memory in current.items() if memory.id != memory_id}
    return Corrected(tuple(instead.values()), len(current) < len(ids))


def written(some: Sequence[MemoryReference], there: Sequence[Memory]) -> tuple[str, list[str]]:
    """Resolve references to memories; return their text, and the references to deleted or edited ones."""
    texts = {memory.id: memory.content for memory in there}
    kept = [texts[each.id] for each in some if digest(texts.get(each.id, "")) == each.digest]
    deleted = [f"memory {each.id}" for each in some if digest(texts.get(each.id, "")) != each.digest]
    return "\n".join(kept), deleted
