"""Extract memories from a turn: the facts its user states, and the memories they want forgotten.

This computes an ``Extraction``; the transaction that ends the job writes it. Only the user's message of a finished turn
is used, never the answer, retrieved text, summaries or clarifications. The extraction also lists the memories that the
prompt of the turn showed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec.structs import replace

from contextinfinity.domain.ids import MemoryId, SessionId, now
from contextinfinity.domain.job import AnsweredTurn
from contextinfinity.domain.memory import ANONYMOUS, Extraction, Memory, NewMemory, Recall
from contextinfinity.domain.message import TextBlock
from contextinfinity.domain.plan import Front, Plan
from contextinfinity.domain.search import ProgressCallback
from contextinfinity.domain.session import Session
from contextinfinity.domain.turn import Turn, TurnOutcome
from contextinfinity.domain.wire import loads
from contextinfinity.engine.engine_setup import Remembering, Setup
from contextinfinity.engine.model_choice import Models
from contextinfinity.engine.recall import placed_texts
from contextinfinity.engine.turn_cache import TextCache
from contextinfinity.memory.memory_findings import ExtractedMemories, ForgetRequest, StatedFact
from contextinfinity.memory.reconciling import meant, reconciled
from contextinfinity.storage.contract import Store
from contextinfinity.text.keywords import terms
from contextinfinity.text.orders import neutral

FINISHED: frozenset[TurnOutcome] = frozenset({"completed", "incomplete", "paused", "cancelled"})
"""The outcomes after which memories are extracted; the message of a failed turn may be sent again."""
Pause: TypeAlias = Callable[[], Awaitable[None]]
"""Pauses background work while turns run."""
PAGE = 64
MOST_KNOWN = 10_000
"""The maximum number of memories that are searched for those to forget."""
MOST_ATTEMPTS = 3
"""The maximum number of attempts to store the memories of a turn while other turns change related memories."""


async def extract_turn(store: Store, texts: TextCache, remembering: Remembering, answered: AnsweredTurn) -> Extraction:
    """Compute the memory changes of a turn; also delete the owner's expired memories."""
    changes = await _changes(store, remembering, answered)
    await store.memories.expire(answered.session.owner, now() - remembering.expiry)
    return replace(changes, placed=await _placed(texts, answered.plan), placed_at=now())


async def remember_again(
    store: Store,
    setup: Setup,
    models: Models,
    progress: ProgressCallback | None = None,
    pause: Pause | None = None,
) -> int:
    """Extract the memories of every turn again, oldest first; return how many were stored.

    Memories that were forgotten or edited are not restored.
    """
    kept, done, after = 0, 0, None
    while page := await store.index.turns(after=after, limit=PAGE):
        for turn in page:
            answered = await store.turns.answered(turn.id, earlier=1)
            remembering = setup.following(models.that_answered(turn)).remembering
            if answered is not None and remembering is not None:
                kept += await _remember(store, remembering, answered)
            if pause is not None:
                await pause()
        after, done = page[-1].id, done + len(page)
        if progress is not None:
            progress(done, done)
    return kept


async def _remember(store: Store, remembering: Remembering, answered: AnsweredTurn) -> int:
    """Store the memories of a turn; retry while other turns change related memories."""
    before, kept = None, 0
    for _ in range(MOST_ATTEMPTS):
        changes = await _changes(store, remembering, answered)
        if changes.new is None or (changes.new == before and not changes.forget):
            break
        before = changes.new
        if changes.forget:
            thread = changes.only_thread
            await store.memories.forget(changes.owner, changes.forget, at=changes.forget_at, thread=thread)
        kept = len(await store.memories.replace_extracted(answered.turn.id, changes.new))
        if changes.based_on is None:
            break
    return kept


async def _changes(store: Store, remembering: Remembering, answered: AnsweredTurn) -> Extraction:
    """Compute the changes that a turn makes to its owner's current memories."""
    session, turn = answered.session, answered.turn
    none = Extraction(owner=session.owner, only_thread=memory_thread(session))
    if is_off_record(turn):
        return none
    said_at = _said_at(answered)
    if said_at <= now() - remembering.expiry:
        return none  # too old: existing memories stay until they expire
    drawn = await remembering.extract(_typed(turn), said_at) if turn.outcome in FINISHED else ExtractedMemories()
    if not (drawn.facts or drawn.unwanted) or _answers_a_question(answered):
        return replace(none, new=())
    based_on = await store.memories.revision(session.owner)
    forget = [each for unwanted in drawn.unwanted for each in await _meant(store, session, unwanted, said_at)]
    facts = await _settled(store, session, drawn.facts, frozenset(forget))
    return replace(
        none,
        new=tuple(await _new(session, facts, said_at)),
        forget=tuple(dict.fromkeys(forget)),
        forget_at=said_at,
        based_on=based_on,
    )


def is_off_record(turn: Turn) -> bool:
    """Return whether no memories may be extracted, because the author of the message is unknown."""
    return isinstance(turn.metadata, dict) and turn.metadata.get("off_record") is True


def _typed(turn: Turn) -> str:
    """Return the first text block: further blocks are attachments, not typed text."""
    return next((block.text for block in turn.user_message.blocks if isinstance(block, TextBlock)), "")


def _said_at(answered: AnsweredTurn) -> datetime:
    """Return when a message was written, also for imports; never later than now, or corrections could not supersede
    it.
    """
    times = [one.created_at for one in answered.origins if one.side == "user" and one.created_at is not None]
    return min(min(times, default=answered.turn.created_at), now())


def _answers_a_question(answered: AnsweredTurn) -> bool:
    """Return whether the message answers a clarification: then it is about the question, not about the user."""
    return bool(answered.earlier) and answered.earlier[-1].outcome == "clarification"


async def _meant(store: Store, session: Session, unwanted: ForgetRequest, said_at: datetime) -> list[MemoryId]:
    """Return the memories that a request to forget refers to."""
    known = await store.memories.list(session.owner, thread=memory_thread(session), superseded=True, limit=MOST_KNOWN)
    return [each.id for each in meant(unwanted, known) if (each.valid_from or each.created_at) <= said_at]


def memory_thread(session: Session) -> SessionId | None:
    """Return the thread that an anonymous user's memories are limited to; None for identified users."""
    return session.id if session.owner.user_id == ANONYMOUS else None


async def _settled(
    store: Store, session: Session, facts: Sequence[StatedFact], forgotten: Collection[MemoryId]
) -> list[StatedFact]:
    """Reconcile extracted facts with the memories of the same owner that share words with them."""
    if not facts:
        return []
    known = [each for each in await _near(store, session, facts) if each.id not in forgotten]
    return [fact for each in facts if (fact := reconciled(each, known)) is not None]


async def _new(session: Session, facts: Sequence[StatedFact], said_at: datetime) -> list[NewMemory]:
    if not facts:
        return []
    vectors = await placed_texts([fact.content for fact in facts])
    return [
        NewMemory(
            owner=session.owner,
            content=neutral(fact.content),
            said_at=said_at,
            thread=session.id if fact.here else memory_thread(session),
            kind=fact.kind,
            about=fact.about,
            replaces=fact.replaces,
            origin=fact.origin,
            confidence=fact.confidence,
            weight=fact.weight,
            span=(fact.start, fact.end),
            valid_to=fact.valid_to,
            vector=vector,
        )
        for fact, vector in zip(facts, vectors, strict=True)
    ]


async def _near(store: Store, session: Session, facts: Sequence[StatedFact]) -> list[Memory]:
    """Return existing memories that share words with the facts."""
    words = {word for fact in facts for word in terms(fact.content)} - {"user"}
    query = Recall(
        owner=session.owner,
        session_id=session.id,
        branch_id=session.active_branch,
        terms=tuple(words),
        at=now(),
        oldest=now() - timedelta(days=36_500),
        other_branches=True,
    )
    return [each.memory for each in (await store.memories.recall(query)).found]


async def _placed(texts: TextCache, plan: Plan | None) -> tuple[MemoryId, ...]:
    """Return the memories that a prompt showed."""
    if plan is None:
        return ()
    text = None if plan.front is None else await texts.read(plan.front)
    front = () if text is None else loads(Front, text).standing
    return tuple(each.id for each in (*front, *plan.remembered))
