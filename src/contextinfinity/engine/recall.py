"""What a prompt is made from, read once a turn: read-only, before the message is touched.

History and the committed state come from the ledger. Memories, retrieved text and the contextualised question come
through seams; one that fails is left out, and the plan and the log say so: a request never fails for want of them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import msgspec

from contextinfinity.domain.ids import ChunkId, now
from contextinfinity.domain.plan import Front, LeftOut
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import Turn
from contextinfinity.domain.wire import dumps, loads
from contextinfinity.engine.parts import Model, Parts, Running
from contextinfinity.errors import NotFound
from contextinfinity.prompt.assemble import Frame
from contextinfinity.prompt.budget import share_out
from contextinfinity.prompt.fronts import Last, choose_front
from contextinfinity.prompt.layout import tools_json
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.sections import Artifact, Sections, shown_turns

log = logging.getLogger(__name__)
T = TypeVar("T")

SYSTEM = "You are a helpful assistant."
PAGE = 50
"""How many turns are read at a time."""
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
    earlier = await read_back(parts, turn, state.covers_turn_seq, abilities.context_limit * FAR_TOO_MANY)
    await learn_from(parts, earlier, model)
    helpers, asked, missing = parts.setup.helpers, running.asked, list[LeftOut]()
    memories = await spared("memory", missing, lambda: helpers.memories(turn)) if asked.use_memory else None
    rewritten = (
        await spared("rewriting", missing, lambda: helpers.rewrite(turn, earlier)) if asked.use_rewriter else None
    )
    artifacts = await spared("retrieval", missing, lambda: helpers.retrieve(turn, rewritten))
    attached = await attachments(parts, asked.attach)
    candidate = await new_front(parts, model, state, earlier, turn, memories or "")
    front, reason = choose_front(candidate, await last_request(parts, earlier, turn))
    sections = Sections(
        front=front,
        turn_seq=turn.turn_seq,
        message=turn.user_message,
        covers=state.covers_turn_seq,
        turns=shown_turns(earlier, turn),
        artifacts=(*attached, *(artifacts or ())),
        contextualised=rewritten,
    )
    ceilings = msgspec.structs.replace(parts.setup.ceilings, reserve=model.max_output_tokens)
    frame = Frame(
        budget=share_out(abilities.context_limit, ceilings), abilities=abilities, redactor=parts.setup.redactor
    )
    return Recalled(
        sections=sections,
        frame=frame,
        measure=Measure(model.counter),
        front=await parts.texts.keep(dumps(front).decode()),
        reason=reason,
        missing=tuple(missing),
    )


async def read_back(parts: Parts, turn: Turn, covers: int, room: int) -> list[Turn]:
    """Read every turn that the summary does not cover, oldest first; at most what could ever fit."""
    turns: list[Turn] = []
    before = turn.turn_seq
    while before - 1 > covers and room > 0:
        count = min(PAGE, before - 1 - covers)
        page = await parts.store.turns.history(turn.branch_id, limit=count, before=before)
        if not page:
            break
        turns[:0] = page
        room -= sum(len(earlier.user_message.rendered_text) + len(earlier.text) for earlier in page)
        before = page[0].turn_seq
    return turns


async def new_front(parts: Parts, model: Model, state: State, earlier: list[Turn], turn: Turn, memories: str) -> Front:
    """Put together the front as it would be if it were new."""
    session = await parts.store.sessions.get(turn.session_id)
    abilities = model.provider.abilities(model.model_id)
    first = earlier[0].turn_seq if earlier else turn.turn_seq
    summary = state.summary
    if first > state.covers_turn_seq + 1:  # more than could ever fit: folding will see to it
        summary += f"\n[Turns {state.covers_turn_seq + 1}–{first - 1} are kept, and not shown here.]"
    return Front(
        system=session.system if session and session.system else SYSTEM,
        pinned_facts=state.pinned_facts,
        memories=memories,
        summary=summary.strip(),
        tools=tools_json(parts.setup.tools.specs) if abilities.tools else None,
    )


async def last_request(parts: Parts, earlier: list[Turn], turn: Turn) -> Last | None:
    """Find the request before this one in the lineage, and its front."""
    before = earlier or await parts.store.turns.history(turn.branch_id, limit=1, before=turn.turn_seq)
    if not before:
        return None
    newest = before[-1]
    plan = await parts.store.turns.plan(newest.id)
    text = await parts.texts.read(plan.front) if plan is not None and plan.front else None
    if plan is None or text is None:
        return None
    silence: timedelta = now() - newest.updated_at
    return Last(front=loads(Front, text), plan=plan, silence=silence, same_branch=newest.branch_id == turn.branch_id)


async def attachments(parts: Parts, wanted: tuple[ChunkId, ...]) -> tuple[Artifact, ...]:
    """Fetch the pieces that were asked for by name."""
    found = []
    for chunk_id in wanted:
        chunk = await parts.store.chunks.get(chunk_id)
        if chunk is None:
            raise NotFound(f"There is no chunk {chunk_id}.", hint="`cix search` shows the ids there are.")
        found.append(Artifact(chunk=chunk))
    return tuple(found)


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


async def spared(stage: str, missing: list[LeftOut], work: Callable[[], Awaitable[T]]) -> T | None:
    """Do without a stage that fails, and say so."""
    try:
        return await work()
    except Exception as error:  # whatever it is, the question is answered without it
        log.warning("%s failed, the request goes on without it: %s", stage, error, exc_info=True)
        missing.append(LeftOut(what=stage, reason=f"it failed: {type(error).__name__}: {error}"[:200]))
        return None
