"""Remembering a turn: what its user tells of themselves is kept, and what they want forgotten goes.

It runs behind the answers and may be run twice. Only what the user said in a finished turn counts: nothing of the
answer, of what was recalled, summarised or asked back. What a turn placed in its prompt is noted here as well, so that
nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from contextinfinity.domain.ids import SessionId, TurnId, now
from contextinfinity.domain.memory import ANONYMOUS, Memory, NewMemory, Recall
from contextinfinity.domain.message import TextBlock
from contextinfinity.domain.plan import Front
from contextinfinity.domain.search import HowFar
from contextinfinity.domain.session import Session
from contextinfinity.domain.turn import Phase, Turn, TurnOutcome
from contextinfinity.domain.wire import loads
from contextinfinity.engine.parts import Parts, Remembering
from contextinfinity.engine.standing import placed_texts
from contextinfinity.memory.reconciling import meant, settled
from contextinfinity.memory.values import Told, Unwanted
from contextinfinity.storage.contract import Store
from contextinfinity.text.keywords import terms
from contextinfinity.text.orders import neutral

FINISHED: frozenset[TurnOutcome] = frozenset({"completed", "incomplete", "paused", "cancelled"})
"""Ends of a turn in which somebody was answered, or wanted to be: what failed may be said again."""
Pause: TypeAlias = Callable[[], Awaitable[None]]
"""Lets others go first."""
PAGE = 64
MOST_KNOWN = 10_000
"""Memories among which those to be forgotten are looked for."""
MOST_LATER = 512
"""Turns accepted after one whose memories were just stored that may be processed again."""
MOST_ATTEMPTS = 3
"""Times that the memories of one turn are stored while other turns change what they are reconciled with."""
PROCESSED = frozenset({Phase.INDEXED, Phase.DONE})
"""The phases of a turn whose memory job may have run: its index job is older."""


async def remember_turn(parts: Parts, remembering: Remembering, turn_id: TurnId) -> int:
    """Remember what a turn tells; gives how many facts."""
    turn = await parts.store.turns.get(turn_id)
    session = None if turn is None else await parts.store.sessions.get(turn.session_id)
    if turn is None or session is None:
        return 0
    await _note_placed(parts, session, turn)
    kept = await _remember(parts.store, remembering, session, turn)
    if kept:
        await _remember_later_turns(parts.store, remembering, session, turn)
    await parts.store.memories.expire(session.owner, now() - remembering.expiry)
    return kept


async def remember_again(
    store: Store, remembering: Remembering, progress: HowFar | None = None, pause: Pause | None = None
) -> int:
    """Draw the memories of every turn again, oldest first; what was forgotten or edited stays so. Gives how many."""
    kept, done, after = 0, 0, None
    while page := await store.index.turns(after=after, limit=PAGE):
        for turn in page:
            session = await store.sessions.get(turn.session_id)
            if session is not None:
                kept += await _remember(store, remembering, session, turn)
            if pause is not None:
                await pause()
        after, done = page[-1].id, done + len(page)
        if progress is not None:
            progress(done, done)
    return kept


async def _remember(store: Store, remembering: Remembering, session: Session, turn: Turn) -> int:
    if is_off_record(turn):
        return 0
    told, said_at = tuple[Told, ...](), await _said_at(store, turn)
    if said_at <= now() - remembering.expiry:
        return 0  # what is known of it lives on as long as it is shown
    if turn.outcome in FINISHED:
        drawn = await remembering.draw(_typed(turn), said_at)
        if (drawn.told or drawn.unwanted) and not await _answers_a_question(store, turn):
            told = drawn.told
            for unwanted in drawn.unwanted:
                await _forget(store, session, unwanted, said_at)
    facts, kept = await _settled(store, session, told), 0
    for _ in range(MOST_ATTEMPTS):
        kept = len(await store.memories.draw(turn.id, await _new(session, facts, said_at)))
        # Another turn of this owner may have been processed since the known memories were read.
        before, facts = facts, await _settled(store, session, told)
        if facts == before:
            break
    return kept


async def _remember_later_turns(store: Store, remembering: Remembering, session: Session, turn: Turn) -> None:
    """Extract memories again from later turns of the same owner that may have been processed before this one.

    Jobs of different branches run in any order, so a later turn that corrects, ends or forgets what this turn says
    may have been processed first, and found nothing to correct. A turn that still waits for its index job is skipped:
    its own job runs after that one.
    """
    for later in await store.index.turns(after=turn.id, limit=MOST_LATER):
        if later.branch_id == turn.branch_id or not (later.phase in PROCESSED or later.degraded):
            continue
        speaker = await store.sessions.get(later.session_id)
        if speaker is not None and speaker.owner == session.owner and own_shelf(speaker) in (None, session.id):
            await _remember(store, remembering, speaker, later)


def is_off_record(turn: Turn) -> bool:
    """Tell whether nobody knows whose words these are: an application sent them and did not say."""
    return isinstance(turn.metadata, dict) and turn.metadata.get("off_record") is True


def _typed(turn: Turn) -> str:
    """Give what was typed: the first piece of text, since further ones are what was brought along."""
    return next((block.text for block in turn.user_message.blocks if isinstance(block, TextBlock)), "")


async def _said_at(store: Store, turn: Turn) -> datetime:
    """Tell when it was said, also where that was elsewhere; never later than now, or no correction would win."""
    origins = (await store.arrivals.origins([turn.id])).get(turn.id, ())
    times = [one.created_at for one in origins if one.side == "user" and one.created_at is not None]
    return min(min(times, default=turn.created_at), now())


async def _answers_a_question(store: Store, turn: Turn) -> bool:
    """Tell whether it answers what was asked back: that is about the question, not about the user."""
    before = await store.turns.history(turn.branch_id, limit=1, before=turn.turn_seq)
    return bool(before) and before[0].outcome == "clarification"


async def _forget(store: Store, session: Session, unwanted: Unwanted, said_at: datetime) -> None:
    thread = own_shelf(session)
    known = await store.memories.list(session.owner, thread=thread, superseded=True, limit=MOST_KNOWN)
    ids = [each.id for each in meant(unwanted, known) if (each.valid_from or each.created_at) <= said_at]
    if ids:
        await store.memories.forget(session.owner, ids, at=said_at, thread=thread)


def own_shelf(session: Session) -> SessionId | None:
    """Name the only shelf that who speaks may use: of whoever did not say who they are, that of the conversation."""
    return session.id if session.owner.user_id == ANONYMOUS else None


async def _settled(store: Store, session: Session, told: Sequence[Told]) -> list[Told]:
    """Reconcile extracted facts with the memories of the same owner that share words with them."""
    if not told:
        return []
    known = await _near(store, session, told)
    return [fact for each in told if (fact := settled(each, known)) is not None]


async def _new(session: Session, facts: Sequence[Told], said_at: datetime) -> list[NewMemory]:
    if not facts:
        return []
    vectors = await placed_texts([fact.content for fact in facts])
    return [
        NewMemory(
            owner=session.owner,
            content=neutral(fact.content),
            said_at=said_at,
            thread=session.id if fact.here else own_shelf(session),
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


async def _near(store: Store, session: Session, told: Sequence[Told]) -> list[Memory]:
    """Read what is known in much the same words."""
    words = {word for fact in told for word in terms(fact.content)} - {"user"}
    asked = Recall(
        owner=session.owner,
        session_id=session.id,
        branch_id=session.active_branch,
        terms=tuple(words),
        at=now(),
        oldest=now() - timedelta(days=36_500),
        other_branches=True,
    )
    return [each.memory for each in (await store.memories.recall(asked)).found]


async def _note_placed(parts: Parts, session: Session, turn: Turn) -> None:
    plan = await parts.store.turns.plan(turn.id)
    if plan is None:
        return
    text = None if plan.front is None else await parts.texts.read(plan.front)
    front = () if text is None else loads(Front, text).standing
    await parts.store.memories.placed(session.owner, [each.id for each in (*front, *plan.remembered)], now())
