"""Read the context of a message once per turn: history, state, memories. Nothing is written.

History and the committed state come from the ledger. Memories, retrieved text and the rewritten question are optional
stages: if one fails, the request is sent without it, and the plan and the log record that.

Memories are in the front of a prompt, stable for an epoch, or shown with one question. A front and a plan refer to
memories by id and text hash. The text is stored in one place only, so that a deleted memory disappears from all past
requests as well; a deletion or an edit makes the next front new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.memory import ANONYMOUS, Memory, MemoryRecall, MemoryReference, Recall
from contextinfinity.domain.plan import Front, LeftOut, Shrunk
from contextinfinity.domain.search import Embedding, packed
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import UNFINISHED, Phase, Turn
from contextinfinity.domain.wire import loads, text_hash
from contextinfinity.engine.engine_setup import Remembering, Setup
from contextinfinity.engine.model_choice import Model, ModelChoice
from contextinfinity.engine.optional_stage import run_if_enabled
from contextinfinity.engine.running_turn import POLL_SECONDS, RunningTurn, Terms, TurnNotification
from contextinfinity.engine.turn_cache import Caches, read_back
from contextinfinity.errors import NotFound
from contextinfinity.memory.relevance import MOST, ranked
from contextinfinity.memory.snippet import LONGEST, MemoryLine, besides, fitting, lines, within
from contextinfinity.prompt.assemble import PreviousFront
from contextinfinity.prompt.prompt_sections import RenderCache
from contextinfinity.prompt.shrink import repeated_cuts
from contextinfinity.prompt.tasks import continues_task, is_by_a_person
from contextinfinity.storage.contract import Store
from contextinfinity.storage.ledger.keyword_index import BORROWED_FROM
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
    recalled = await recall_memories(memories, remembering, session, turn.branch_id, question)
    return await known_from(recalled, question, remembering.most)


async def recall_memories(
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


T = TypeVar("T")

SYSTEM = "You are a helpful assistant."
NEAR = 40
"""How many turns back the previous request is searched: more than can wait on a branch."""
FAR_TOO_MANY = 8
"""Characters per token of the window beyond which older turns are not read: they could not fit."""


@dataclass(frozen=True, kw_only=True)
class PriorContext:
    """The context of a message, independent of the model that answers."""

    session: Session
    state: State
    earlier: list[Turn]
    """The turns that the summary does not cover, oldest first."""
    last: PreviousFront | None
    """The previous request of the lineage."""
    home: Model
    """The model that answers by default."""
    branch_model: str | None = None
    """The model that the branch stays with; None if it has none yet."""
    memories: str = ""
    known: StandingMemories | None = None
    """The memories that may be shown; ``memories`` is their text for the rewriter."""
    missing: list[LeftOut] = field(default_factory=list)
    """What was omitted from the request; every stage may append to it."""
    opening: tuple[Turn, ...] = ()
    """If the first shown turn continues a task: the turn that opened the task, and the last hidden turn."""
    has_more: bool = False
    """Whether unread turns exist between the summary and ``earlier``; a gap may also be due to deletions."""
    terms: Terms | None = None
    continues_task: bool = False
    """Whether the message is part of a running task, as tool results are."""
    rendered: RenderCache = field(default_factory=RenderCache)
    """The cached rendering and token counts of ``earlier``."""

    @property
    def system(self) -> str:
        """The system text: the caller's, or that of the conversation."""
        return (self.session.system or SYSTEM) if self.terms is None else self.terms.system

    @property
    def is_as_sent(self) -> bool:
        """Whether the prompt is what the client sent: no turn is folded, or shown as a line until it is.

        Within a task lines change nothing yet, because a new front would lose the vendor's prompt cache.
        """
        if self.terms is None or self.terms.only_last is not None:
            return self.terms is not None
        was_bare = self.last is None or self.last.front.is_bare
        return not self.state.covers_turn_seq and (not self.lines_to or (self.continues_task and was_bare))

    @property
    def cuts(self) -> Shrunk | None:
        """The cuts that a resent conversation repeats: those of the branch's previous request in turns still shown."""
        last = self.last
        if self.terms is None or last is None or not last.same_branch or last.plan.shrunk is None:
            return None
        cuts = repeated_cuts(last.plan.shrunk)
        cuts = cuts if cuts.lines_to > self.state.covers_turn_seq else replace(cuts, lines_to=0)
        return cuts if cuts.touches_front else None

    @property
    def lines_to(self) -> int:
        """The last turn that is shown as a line and not folded yet; 0 if there is none."""
        return 0 if self.cuts is None else self.cuts.lines_to

    def first_shown(self, turn: Turn) -> int:
        """Return the number of the first turn that was read."""
        return self.earlier[0].turn_seq if self.earlier else turn.turn_seq

    def unread(self, turn: Turn) -> tuple[int, int] | None:
        """Return the range of turns that were not read because no window could hold them; None if there are none."""
        first, begin = self.first_shown(turn), self.state.covers_turn_seq + 1
        return (begin, first - 1) if self.has_more and first > begin else None


@dataclass(frozen=True, kw_only=True)
class ContextReader:
    """Reads what precedes a message."""

    store: Store
    caches: Caches
    choice: ModelChoice
    setup: Setup
    turn_ends: TurnNotification
    """Notified whenever a turn ends."""

    async def read(self, running: RunningTurn, session: Session | None = None) -> PriorContext:
        """Read the context of a turn; ``session`` avoids reading the session again."""
        turn, missing = running.turn, list[LeftOut]()
        running.session = session = session or await session_of(self.store, turn)
        state, earlier, rendered = await self._state_and_earlier_turns(running)
        running.before = turns_for_index(turn, earlier)
        last, home = await self._previous_request(session, earlier, turn)
        only_sent = running.asked.terms is not None and running.asked.terms.only_last is not None
        known = await run_if_enabled(
            running.asked.use_memory,
            "memory",
            missing,
            lambda: known_to(self.store.memories, self.setup, session, turn),
        )
        recalled = PriorContext(
            session=session,
            state=state,
            earlier=earlier,
            rendered=rendered,
            last=last,
            home=self.choice.home_of(running.asked, session.owner, home),
            branch_model=home,
            memories="" if known is None else known.text,
            known=known,
            missing=missing,
            opening=() if only_sent else await self._task_opening(turn, state, earlier),
            has_more=await self._has_more(turn, state, earlier),
            terms=running.asked.terms,
            continues_task=continues_task(turn.user_message),
        )
        if (unread := recalled.unread(turn)) is not None:
            reason = "larger than the model's window; not folded yet"
            missing.insert(0, LeftOut(what=f"turns {unread[0]}–{unread[1]}", reason=reason))
        return recalled

    async def _state_and_earlier_turns(self, running: RunningTurn) -> tuple[State, list[Turn], RenderCache]:
        """Read the state and the turns that its summary does not cover; with ``only_last`` just the turns that were
        sent.
        """
        terms = running.asked.terms
        if terms is None or terms.only_last is None:
            return await self._read_earlier_turns(running)
        state, turns, rendered = await self._read_earlier_turns(running, 0)
        earlier = [turn for turn in turns if turn.phase is not Phase.FAILED]
        sent = earlier[max(0, len(earlier) - terms.only_last) :]
        covers = sent[0].turn_seq - 1 if sent else running.turn.turn_seq - 1
        return replace(state, covers_turn_seq=covers, summary="", pinned_facts=()), sent, rendered

    async def _read_earlier_turns(
        self, running: RunningTurn, after: int | None = None
    ) -> tuple[State, list[Turn], RenderCache]:
        """Read the state and the turns after it, or after another one.

        Wait for those that are still running on the parent branch, unless the turn is cancelled.
        """
        room = self._largest_window() * FAR_TOO_MANY
        while True:
            news = self.turn_ends.listen()
            place = running.turn
            read = self.caches.turns.read(place.branch_id, after=after, before=place.turn_seq, room=room)
            state, turns, rendered = await read
            if running.cancelled.is_set() or not any(turn.phase in UNFINISHED for turn in turns):
                return state, turns, rendered
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), POLL_SECONDS)

    async def _previous_request(
        self, session: Session, earlier: list[Turn], turn: Turn
    ) -> tuple[PreviousFront | None, str | None]:
        """Return the previous request of the lineage with its front, and the model that the branch stays with.

        Turns without a request are skipped; the route of a failed turn does not determine the model.
        """
        before: Sequence[Turn] = earlier
        if not earlier and turn.turn_seq > 1:
            before = await self.store.turns.history(turn.branch_id, limit=NEAR, before=turn.turn_seq)
        last, home = None, None
        for newest in reversed(before[-NEAR:]):
            known = self.caches.answered.get(newest.id)
            plan = await self.store.turns.plan(newest.id) if known is None else known.plan
            if plan is None:
                continue
            self.choice.models.recall_window(plan)
            if home is None and plan.route is not None and newest.outcome != "failed":
                home = plan.route.home
            text = await self.caches.texts.read(plan.front) if plan.front and last is None else None
            if text is not None:
                silence, there = now() - newest.updated_at, newest.branch_id == turn.branch_id
                kept = await written_out(self.store.memories, session.owner, loads(Front, text))
                since = await corrected(self.store.memories, self.setup, session, turn.branch_id, kept.front)
                last = PreviousFront(
                    front=kept.front,
                    plan=plan,
                    silence=silence,
                    same_branch=there,
                    removed=bool(kept.removed) or since.is_unfounded,
                    corrections=since.corrections,
                )
            if last is not None and newest.outcome != "failed":
                break
        return last, home

    async def _task_opening(self, turn: Turn, state: State, earlier: list[Turn]) -> tuple[Turn, ...]:
        """If the first shown turn continues a task, read the turn that opened it and the last hidden turn."""
        first = earlier[0] if earlier else turn
        if not state.covers_turn_seq or not continues_task(first.user_message):
            return ()
        last, before = list[Turn](), first.turn_seq
        while page := await self.store.turns.history(turn.branch_id, limit=NEAR, before=before):
            usable = [one for one in page if one.phase is not Phase.FAILED]
            last = last or usable[-1:]
            opening = next((one for one in reversed(usable) if is_by_a_person((one.user_message,))), None)
            if opening is not None:
                return tuple({one.id: one for one in (opening, *last)}.values())
            before = page[0].turn_seq
        return ()

    async def _has_more(self, turn: Turn, state: State, earlier: list[Turn]) -> bool:
        """Return whether the branch has turns that the summary does not cover and that were not read."""
        first, covers = earlier[0].turn_seq if earlier else turn.turn_seq, state.covers_turn_seq
        return bool(await read_back(self.store.turns, turn.branch_id, after=covers, before=first, room=1))

    def _largest_window(self) -> int:
        """Return the largest context window of all models."""
        return max(model.abilities.context_limit for model in self.choice.models.by_name.values())


def turns_for_index(turn: Turn, earlier: Sequence[Turn]) -> Sequence[Turn] | None:
    """Return the turns that the index entry of a turn needs; None if some of them are not among ``earlier``."""
    near = earlier[-BORROWED_FROM:]
    wanted = range(max(1, turn.turn_seq - BORROWED_FROM), turn.turn_seq)
    return near if [one.turn_seq for one in near] == [*wanted] else None


async def session_of(store: Store, turn: Turn) -> Session:
    """Return the session of a turn; raise ``NotFound`` if it was deleted."""
    session = await store.sessions.get(turn.session_id)
    if session is None:
        raise NotFound(f"There is no conversation {turn.session_id} any more.")
    return session
