"""Memories in a prompt: those that stand in its front for an epoch, and those that ride with one question.

A front and a plan name memories by id and by the hash of their text. The text is kept in one place only, so that what
is forgotten is gone from every request of the past too; what a person took out or changed makes the next front new.
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
from contextinfinity.storage.memories import Memories
from contextinfinity.text.keywords import terms

DIGEST = 16
QUESTION = 2000
"""Characters of a question by which memories are looked for."""


@dataclass(frozen=True, kw_only=True)
class StandingMemories:
    """What may be shown of a user: what always matters and what matters now, the best first."""

    standing: tuple[MemoryLine, ...] = ()
    asked: tuple[MemoryLine, ...] = ()
    most: int = LONGEST

    @property
    def text(self) -> str:
        """All of it for a rewriter: what matters now first."""
        return lines(fitting(dict.fromkeys((*self.asked, *self.standing))))


async def known_to(memories: Memories, setup: Setup, session: Session, turn: Turn) -> StandingMemories | None:
    """Find what is known of who says something."""
    remembering = setup.remembering
    if remembering is None:
        given = await setup.helpers.memories(turn)
        return None if given is None else StandingMemories(standing=tuple(map(MemoryLine, given.splitlines())))
    words = turn.user_message.rendered_text[:QUESTION]
    recalled = await recall(memories, remembering, session, turn.branch_id, words)
    return await known_from(recalled, words, remembering.most)


async def recall(
    memories: Memories, remembering: Remembering, session: Session, branch_id: str, words: str
) -> MemoryRecall:
    """Read what may matter to a message of a conversation."""
    recalled = await memories.recall(_asked(remembering, session, branch_id, words))
    if session.owner.user_id != ANONYMOUS:
        return recalled
    own = [tuple(one for one in some if len(one.memory.tags) > 1) for some in (recalled.found, recalled.standing)]
    return MemoryRecall(found=own[0], standing=own[1])


def _asked(remembering: Remembering, session: Session, branch_id: str, words: str = "") -> Recall:
    return Recall(
        owner=session.owner,
        session_id=session.id,
        branch_id=branch_id,
        terms=tuple(set(terms(words)) - {"user"}),
        at=now(),
        oldest=now() - remembering.expiry,
        other_branches=remembering.other_branches,
    )


def nobodys(owner: Owner) -> Session:
    """Stand in for a conversation where memories are asked for outside of one."""
    moment = now()
    return Session(
        id=new_id(), owner=owner, kind="thread", active_branch=new_id(), created_at=moment, updated_at=moment
    )


async def known_from(recalled: MemoryRecall, words: str, most: int) -> StandingMemories:
    """Choose from what was found."""
    if not recalled.standing and not recalled.found:
        return StandingMemories(most=most)
    (question,) = await placed_texts([words])
    found = [_line(memory) for _, memory in ranked(recalled, question)]
    standing = tuple(_line(each.memory) for each in recalled.standing)
    return StandingMemories(standing=standing, asked=tuple(found), most=most)


async def placed_texts(texts: Sequence[str]) -> list[Embedding]:
    """Place texts by the embedder that comes with us: it needs no network, and memories are placed by no other."""
    from contextinfinity.embedders.static import built_in

    is_loaded = built_in.cache_info().currsize
    embedder = built_in() if is_loaded else await asyncio.to_thread(built_in)
    rows = await embedder.embed(texts)
    return [Embedding(model=embedder.name, dim=embedder.dim, values=packed(row)) for row in rows]


def _line(memory: Memory) -> MemoryLine:
    return MemoryLine(memory.content, memory.id, memory.source_turn)


def chosen(known: StandingMemories | None, count: Callable[[str], int], tokens: int) -> tuple[MemoryLine, ...]:
    """Choose what stands in a new front: whole lines, as far as their share goes."""
    return () if known is None else within(fitting(known.standing, known.most), count, tokens)


def for_now(
    known: StandingMemories, front: Front, shown: Sequence[Turn], corrections: Sequence[Memory]
) -> tuple[MemoryLine, ...]:
    """Choose what rides with a question: what makes lines of the front untrue (``corrections``), what matters now."""
    there, said = {each.id for each in front.standing}, {turn.id for turn in shown}
    return fitting(besides(dict.fromkeys((*map(_line, corrections), *known.asked[:MOST])), there, said))


def placed(line: MemoryLine) -> MemoryReference:
    """Name a memory as a front or a plan keeps it."""
    return MemoryReference(line.id, digest(line.text))


def digest(text: str) -> str:
    """Give the beginning of a text's hash."""
    return text_hash(text).hex()[:DIGEST]


def without_memories(front: Front) -> Front:
    """Give a front as it is kept: memories by name only."""
    return replace(front, memories="") if front.standing else front


class RenderedMemories(NamedTuple):
    """A front with its memories, and what of them is gone."""

    front: Front
    removed: list[str]


async def written_out(memories: Memories, owner: Owner, front: Front) -> RenderedMemories:
    """Write the memories of a front out again."""
    if not front.standing:
        return RenderedMemories(front, [])
    there = await memories.read(owner, [each.id for each in front.standing])
    text, removed = written(front.standing, there)
    return RenderedMemories(replace(front, memories=text), removed)


class Corrected(NamedTuple):
    """What was said since a front was made that makes lines of it untrue, and whether something went without that."""

    corrections: tuple[Memory, ...] = ()
    is_unfounded: bool = False


async def corrected(memories: Memories, setup: Setup, session: Session, branch_id: str, front: Front) -> Corrected:
    """Hold the memories of a front against what was said since, as a turn of a branch sees it."""
    remembering = setup.remembering
    if remembering is None or not front.standing:
        return Corrected()
    ids = [each.id for each in front.standing]
    current = await memories.current(_asked(remembering, session, branch_id), ids)
    instead = {memory.id: memory for memory_id, memory in current.items() if memory.id != memory_id}
    return Corrected(tuple(instead.values()), len(current) < len(ids))


def written(some: Sequence[MemoryReference], there: Sequence[Memory]) -> tuple[str, list[str]]:
    """Write memories out again, a line each; gives the text, and those that are gone or say something else by now."""
    texts = {memory.id: memory.content for memory in there}
    kept = [texts[each.id] for each in some if digest(texts.get(each.id, "")) == each.digest]
    gone = [f"memory {each.id}" for each in some if digest(texts.get(each.id, "")) != each.digest]
    return "\n".join(kept), gone
