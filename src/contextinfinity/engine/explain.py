"""Show what the model saw: rebuild the request of any past step from the ledger and compare it with its hash.

A plan stores references, which are resolved here. Data that was deleted since is listed in ``removed``; the rebuilt
body then differs from the one that was sent.

The route of a message can be shown without sending it: nothing is written, and no model is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, ChunkId, MemoryId, SessionId, TurnId
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.plan import Front, Plan
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.search import ChunkSide
from contextinfinity.domain.turn import Step, Turn, Usage
from contextinfinity.domain.wire import loads
from contextinfinity.engine.artifacts import artifact_again
from contextinfinity.engine.image_content import with_pictures
from contextinfinity.engine.prompt_material import restored
from contextinfinity.engine.recall import NEAR, session_of, written, written_out
from contextinfinity.errors import NotFound
from contextinfinity.prompt.assemble import shared
from contextinfinity.prompt.layout import lay_out
from contextinfinity.prompt.prompt_sections import Artifact, Sections, Shown, message_of, render_rounds
from contextinfinity.prompt.redact import Redaction, Span, apply, locate
from contextinfinity.prompt.shrink import cut
from contextinfinity.prompt.tasks import shown_with_opening
from contextinfinity.providers.contract import written_again
from contextinfinity.storage.contract import Store


class Quoted(Struct, frozen=True, kw_only=True):
    """A quotation of an earlier message in a request; ``turn_seq`` is 0 if it comes from another conversation."""

    chunk_id: ChunkId
    role: ChunkSide
    text: str
    score: float
    turn_seq: int
    created_at: datetime


class Explained(Struct, frozen=True, kw_only=True):
    """One past request with its plan, sections and rebuilt body."""

    thread_id: SessionId
    branch_id: BranchId
    turn_id: TurnId
    step_index: int
    provider: str
    model: str
    usage: Usage
    plan: Plan
    system: tuple[str, ...]
    messages: tuple[Message, ...]
    body: Json
    matches: bool
    """Whether the hash of the rebuilt body equals that of the body that was sent."""
    quoted: tuple[Quoted, ...] = ()
    """The retrieved passages."""
    memories: tuple[MemoryId, ...] = ()
    """The memories that the request showed."""
    removed: tuple[str, ...] = ()
    """References that could not be resolved because their data was deleted."""
    redactions: tuple[Redaction, ...] = ()
    """What was sent as ``[redacted]``."""
    shared_bytes: int = 0
    """The length of the prefix that is identical with the previous request."""
    total_bytes: int = 0


async def explain(
    store: Store, turn_id: TurnId, step_index: int | None = None, compare: TurnId | None = None
) -> Explained:
    """Rebuild a turn's last request, or that of one of its steps; raise ``NotFound`` if there is none.

    The shared prefix is measured against the previous request, or against the last one of ``compare``.
    """
    turn, steps = await _turn(store, turn_id)
    index = len(steps) - 1 if step_index is None else step_index
    if not 0 <= index < len(steps):
        raise NotFound(f"Turn {turn_id} has no request {index}; it has {len(steps)}.")
    explained = await rebuilt(store, turn, steps, index)
    if compare is None:
        before = await _body_before(store, turn, steps, index)
    else:
        other, others = await _turn(store, compare)
        before = (await rebuilt(store, other, others, len(others) - 1)).body
    common, total = shared(before, explained.body)
    return replace(explained, shared_bytes=common, total_bytes=total)


async def rebuilt(store: Store, turn: Turn, steps: Sequence[Step], index: int) -> Explained:
    """Rebuild the request of the step at ``index``; raise ``NotFound`` if its front is no longer stored."""
    step, plan = steps[index], steps[index].plan
    front, form = await _kept(store, plan.front), await _kept(store, plan.form)
    if front is None or form is None:
        raise NotFound(f"What request {index} of turn {turn.id} was made from is no longer kept.")
    owner = (await session_of(store, turn)).owner
    whole, removed = await written_out(store.memories, owner, loads(Front, front))
    memories = await store.memories.read(owner, [each.id for each in plan.remembered])
    remembered, deleted = written(plan.remembered, memories)
    removed += deleted
    lead, message, begun = message_of(turn)
    sections = Sections(
        layout=plan.layout,
        front=whole,
        turn_seq=turn.turn_seq,
        message=message,
        lead=lead,
        begun=begun,
        bridge=plan.bridge,
        turns=await _shown(store, turn, plan, removed),
        artifacts=await _artifacts(store, turn, plan, removed),
        contextualised=plan.contextualised,
        remembered=remembered,
        rounds=rounds_before(steps, index),
        workspace=await restored(store.contents.text, plan.workspace, removed),
    )
    request_form = msgspec.json.decode(form)
    sections, redactions = await _redacted(store, sections, plan)
    with_tools = request_form["form"].get("abilities", {}).get("tools", True)
    sections = cut(sections, plan.shrunk) if plan.shrunk else sections
    prompt = lay_out(sections, with_tools=with_tools)
    messages = await with_pictures(store.contents, prompt.messages)
    prompt = replace(prompt, messages=messages, markers=tuple(request_form.get("markers", plan.markers)))
    request = ProviderRequest(
        model_id=step.model_id,
        prompt=prompt,
        max_output_tokens=request_form["max_output_tokens"],
        cache_key=turn.session_id,
        options=request_form["options"],
    )
    request_again = written_again(request_form["form"], request)
    return Explained(
        thread_id=turn.session_id,
        branch_id=turn.branch_id,
        turn_id=turn.id,
        step_index=index,
        provider=step.provider,
        model=step.model_id,
        usage=step.usage,
        plan=plan,
        system=prompt.system,
        messages=prompt.messages,
        body=msgspec.json.decode(request_again.body),
        matches=request_again.sha256 == plan.request_sha256,
        quoted=tuple(map(_quoted, sections.artifacts)),
        memories=tuple(each.id for each in (*whole.standing, *plan.remembered)),
        removed=tuple(removed),
        redactions=redactions,
    )


def _quoted(artifact: Artifact) -> Quoted:
    return Quoted(
        chunk_id=artifact.chunk_id,
        role=artifact.side,
        text=artifact.text,
        score=artifact.score,
        turn_seq=artifact.turn_seq,
        created_at=artifact.said_at,
    )


def rounds_before(steps: Sequence[Step], index: int) -> tuple[Message, ...]:
    """Return the messages of the turn's tool loop before the step at ``index``."""
    messages: list[Message] = []
    for step, after in pairwise(steps[: index + 1]):
        messages.extend(render_rounds((*step.items, *after.inputs), running=True))
    return tuple(messages)


async def _turn(store: Store, turn_id: TurnId) -> tuple[Turn, tuple[Step, ...]]:
    turn = await store.turns.get(turn_id)
    if turn is None:
        raise NotFound(f"There is no turn {turn_id}.", hint="`cix show` prints the ids of turns.")
    steps = await store.turns.steps(turn_id)
    if not steps:
        reasons = {
            "clarification": "It was answered with a clarifying question.",
            "completed": "Its answer was not made here, but imported or added by a program.",
        }
        raise NotFound(
            f"No model was asked in turn {turn_id}.", hint=reasons.get(turn.outcome or "", "It ended before that.")
        )
    return turn, steps


async def _kept(store: Store, sha256: str | None) -> str | None:
    return None if sha256 is None else await store.contents.text(sha256)


async def _shown(store: Store, turn: Turn, plan: Plan, removed: list[str]) -> tuple[Shown, ...]:
    """Render the earlier turns as the request showed them."""
    turns = await _gathered(store, turn, plan, removed)
    opening = []
    for seq in () if plan.bridge is None else sorted({*plan.bridge}):
        found = await store.turns.history(turn.branch_id, limit=1, before=seq + 1)
        opening += [one for one in found if one.turn_seq == seq]
        removed.extend(() if opening and opening[-1].turn_seq == seq else [f"turn {seq}"])
    return shown_with_opening(opening, turns, turn, plan.layout)


async def _gathered(store: Store, turn: Turn, plan: Plan, removed: list[str]) -> tuple[Turn, ...]:
    if plan.gathered is None:
        return ()
    first, last = plan.gathered
    turns = await store.turns.history(turn.branch_id, limit=last - first + 1, before=last + 1)
    missing = {*range(first, last + 1)} - {found.turn_seq for found in turns}
    removed.extend(f"turn {seq}" for seq in sorted(missing))
    return tuple(found for found in turns if found.turn_seq >= first)


async def _artifacts(store: Store, turn: Turn, plan: Plan, removed: list[str]) -> tuple[Artifact, ...]:
    found = []
    for placed in plan.retrieved:
        artifact = await artifact_again(store, turn.session_id, placed)
        if artifact is None:
            removed.append(f"artifact {placed.chunk_id}")
        else:
            found.append(artifact)
    return tuple(found)


async def _redacted(store: Store, sections: Sections, plan: Plan) -> tuple[Sections, tuple[Redaction, ...]]:
    """Redact what was redacted in the request; return the sections and the spans."""
    kept = await _kept(store, plan.redactions)
    if kept is None:
        return sections, ()
    spans = msgspec.json.decode(kept, type=tuple[Span, ...])
    return apply(sections, spans), locate(sections, spans)


async def _body_before(store: Store, turn: Turn, steps: Sequence[Step], index: int) -> Json:
    """Rebuild the previous request, of this turn or of an earlier one; return None if there is none."""
    if index > 0:
        return (await rebuilt(store, turn, steps, index - 1)).body
    for before in reversed(await store.turns.history(turn.branch_id, limit=NEAR, before=turn.turn_seq)):
        if (body := await _last_body(store, before.id)) is not None:
            return body
    return None


async def _last_body(store: Store, turn_id: TurnId) -> Json:
    try:
        turn, steps = await _turn(store, turn_id)
        return (await rebuilt(store, turn, steps, len(steps) - 1)).body
    except NotFound:
        return None
