"""What a prompt is made from, read once a turn: read-only, before the message is touched.

History and the committed state come from the ledger. Memories, retrieved text and the contextualised question come
through seams; one that fails is left out, and the plan and the log say so: a request never fails for want of them.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import msgspec

from contextinfinity.domain.ids import BranchId, now
from contextinfinity.domain.plan import Budget, Front, LeftOut
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import OPEN_PHASES, Phase, Turn
from contextinfinity.domain.wire import dumps, loads
from contextinfinity.engine.artifacts import attachments
from contextinfinity.engine.parts import Model, Need, Parts, Running
from contextinfinity.engine.sparing import spared
from contextinfinity.prompt.assemble import Frame
from contextinfinity.prompt.budget import share_out
from contextinfinity.prompt.fronts import Last, choose_front
from contextinfinity.prompt.layout import tools_json
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.sections import Artifact, Sections, shown_turns

T = TypeVar("T")

SYSTEM = "You are a helpful assistant."
PAGE = 100
"""How many turns are read at a time."""
NEAR = 8
"""How many turns back the request before this one is looked for."""
LONGEST_MEMORIES = 2000
LONGEST_REWRITING = 300
"""A question made explicit that is longer, in characters, makes nothing clearer."""
UNREAD = "[Older turns are kept, and not shown here.]"
UNFINISHED = OPEN_PHASES | {Phase.ACCEPTED}
FAR_TOO_MANY = 8
"""Characters for each token of the window: older turns beyond that fit under no circumstances."""


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """What a turn's prompts are made from, what they have to fit into, and why their front is new, if it is."""

    sections: Sections
    frame: Frame
    measure: Measure
    front: str
    """The hash under which the front is kept."""
    reason: str | None
    missing: tuple[LeftOut, ...] = ()


async def recall(parts: Parts, running: Running, model: Model) -> Recalled:
    """Gather what the model will see."""
    turn, abilities = running.turn, model.provider.abilities(model.model_id)
    state = await parts.store.states.head(turn.branch_id)
    earlier = await settled_before(parts, running, state.covers_turn_seq, abilities.context_limit * FAR_TOO_MANY)
    await learn_from(parts, earlier, model)
    helpers, asked = parts.setup.helpers, running.asked
    never_read = unread(state, earlier, turn)
    missing = [] if never_read is None else [never_read]
    memories = await wanted(asked.use_memory, "memory", missing, lambda: helpers.memories(turn))
    rewritten = await wanted(asked.use_rewriter, "rewriting", missing, lambda: helpers.rewrite(turn, earlier))
    budget = budget_of(parts, model)
    attached = await attachments(parts.store, turn.session_id, asked.attach)
    need = Need(
        turn=turn,
        explicit=rewritten,
        first_shown=earlier[0].turn_seq if earlier else turn.turn_seq,
        room=budget.retrieval_budget - sum(artifact.tokens for artifact in attached),
        attached=asked.attach,
    )
    found = await spared("retrieval", missing, lambda: brought_back(parts, need, missing))
    candidate = await new_front(parts, state, turn, bounded(memories or "", Measure(model.counter), budget.memories))
    if never_read is not None:
        candidate = msgspec.structs.replace(candidate, summary=f"{candidate.summary}\n{UNREAD}".strip())
    last = await last_request(parts, earlier, turn)
    front, reason = choose_front(candidate, last, with_memories=asked.use_memory)
    sections = Sections(
        front=front,
        turn_seq=turn.turn_seq,
        message=turn.user_message,
        covers=state.covers_turn_seq,
        turns=shown_turns(earlier, turn),
        artifacts=(*attached, *(found or ())),
        contextualised=rewritten if rewritten and len(rewritten) <= LONGEST_REWRITING else None,
    )
    frame = Frame(budget=budget, abilities=abilities, redactor=parts.setup.redactor)
    return Recalled(
        sections=sections,
        frame=frame,
        measure=Measure(model.counter),
        front=parts.texts.keep(dumps(front).decode()),
        reason=reason,
        missing=tuple(missing),
    )


def budget_of(parts: Parts, model: Model) -> Budget:
    """Share out a model's window."""
    ceilings = msgspec.structs.replace(parts.setup.ceilings, reserve=model.max_output_tokens)
    return share_out(model.provider.abilities(model.model_id).context_limit, ceilings)


async def read_back(
    parts: Parts, branch_id: BranchId, *, after: int, before: int, room: float = math.inf
) -> list[Turn]:
    """Read a branch's turns between two places, oldest first; older ones than fill ``room`` characters are left."""
    turns: list[Turn] = []
    while before - 1 > after and room > 0:
        count = min(PAGE, before - 1 - after)
        page = await parts.store.turns.history(branch_id, limit=count, before=before)
        if not page:
            break
        turns[:0] = page
        room -= sum(len(earlier.user_message.rendered_text) + len(earlier.text) for earlier in page)
        before = page[0].turn_seq
    return turns


async def settled_before(parts: Parts, running: Running, covers: int, room: int) -> list[Turn]:
    """Read the earlier turns; where one is still being answered on the branch we came from, wait for its end."""
    while True:
        news = parts.branches.listen()
        place = running.turn
        turns = await read_back(parts, place.branch_id, after=covers, before=place.turn_seq, room=room)
        if running.cancelled.is_set() or not any(turn.phase in UNFINISHED for turn in turns):
            return turns
        with suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), 5 * parts.look_seconds)


def unread(state: State, earlier: list[Turn], turn: Turn) -> LeftOut | None:
    """Name the turns that were not even read: more than the window could ever hold; folding will see to them."""
    first, begin = earlier[0].turn_seq if earlier else turn.turn_seq, state.covers_turn_seq + 1
    if first <= begin:
        return None
    return LeftOut(what=f"turns {begin}–{first - 1}", reason="more than the window could hold; not folded yet")


def bounded(memories: str, measure: Measure, tokens: int) -> str:
    """Keep whole lines of the standing memories, as far as their share goes."""
    kept: list[str] = []
    room = LONGEST_MEMORIES
    for line in memories.splitlines():
        room, tokens = room - len(line) - 1, tokens - measure.text(line) - 1
        if room < 0 or tokens < 0:
            break
        kept.append(line)
    return "\n".join(kept)


async def new_front(parts: Parts, state: State, turn: Turn, memories: str) -> Front:
    """Put together the front as it would be if it were new."""
    session = await parts.store.sessions.get(turn.session_id)
    return Front(
        system=session.system if session and session.system else SYSTEM,
        pinned_facts=state.pinned_facts,
        memories=memories,
        summary=state.summary,
        tools=tools_json(parts.setup.tools.specs),
    )


async def last_request(parts: Parts, earlier: list[Turn], turn: Turn) -> Last | None:
    """Find the request before this one in the lineage, and its front; turns that failed before any are passed over."""
    before = earlier or await parts.store.turns.history(turn.branch_id, limit=1, before=turn.turn_seq)
    for newest in reversed(before[-NEAR:]):
        plan = await parts.store.turns.plan(newest.id)
        text = await parts.texts.read(plan.front) if plan is not None and plan.front else None
        if plan is not None and text is not None:
            silence, there = now() - newest.updated_at, newest.branch_id == turn.branch_id
            return Last(front=loads(Front, text), plan=plan, silence=silence, same_branch=there)
    return None


async def brought_back(parts: Parts, need: Need, missing: list[LeftOut]) -> tuple[Artifact, ...]:
    """Bring back what was said before and matters now; nothing while all that was said stands there word for word."""
    if (retrieve := parts.setup.helpers.retrieve) is not None:
        return the_best(await retrieve(need.turn, need.explicit), need.room, missing)
    if parts.setup.retrieval is None or need.first_shown <= 1 or need.room <= 0:
        return ()
    from contextinfinity.engine.finding import bring_back  # what it knows of words takes time to load

    return await bring_back(parts, need, missing)


def the_best(found: Sequence[Artifact], most: int, missing: list[LeftOut]) -> tuple[Artifact, ...]:
    """Keep what was retrieved as far as its share of the window goes, the best first."""
    found = sorted(found, key=lambda artifact: -artifact.score)
    sums = list(accumulate(artifact.tokens for artifact in found))
    kept = bisect_right(sums, most)
    if kept < len(found):
        over = sums[-1] - (sums[kept - 1] if kept else 0)
        missing.append(
            LeftOut(what=f"retrieved text from place {kept + 1} on", reason="its share is full", tokens=over)
        )
    return tuple(found[:kept])


async def learn_from(parts: Parts, earlier: list[Turn], model: Model) -> None:
    """Compare what was counted for the last turn of the same model with what its provider reported."""
    turn = earlier[-1] if earlier else None
    if turn is None or model.counter.taught or turn.rounds or not turn.usage.input_tokens:
        return
    if (turn.provider, turn.model) != (model.provider.name, model.model_id):
        return
    plan = await parts.store.turns.plan(turn.id)
    if plan is not None and plan.token_scale:
        model.counter.recall(plan.token_scale, plan.tokens, turn.usage.input_tokens)


async def wanted(is_so: bool, stage: str, missing: list[LeftOut], work: Callable[[], Awaitable[T]]) -> T | None:
    """Do a stage unless the caller does without it; the plan says so."""
    if is_so:
        return await spared(stage, missing, work)
    missing.append(LeftOut(what=stage, reason="it was not asked for"))
    return None
