"""Build the material of a prompt from the recalled context, for the model that answers.

The parts of the workspace section are stored by hash: an unchanged tier is not stored again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.memory import MemoryReference
from contextinfinity.domain.message import Message, TextBlock
from contextinfinity.domain.plan import Front, LeftOut
from contextinfinity.domain.prompt import WorkspaceText
from contextinfinity.domain.turn import Turn
from contextinfinity.domain.wire import dumps, loads
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.model_choice import Model
from contextinfinity.engine.recall import PriorContext, chosen, memories_for_question, placed, without_memories
from contextinfinity.engine.running_turn import RunningTurn, SendOptions
from contextinfinity.engine.turn_cache import TextCache
from contextinfinity.memory.snippet import MemoryLine, lines
from contextinfinity.prompt.assemble import Frame, choose_front
from contextinfinity.prompt.layout import tools_json
from contextinfinity.prompt.measure import Measure, least_rejected
from contextinfinity.prompt.prompt_sections import Artifact, Sections, message_of
from contextinfinity.prompt.redact import Redactor, hidden
from contextinfinity.prompt.tasks import shown_with_opening
from contextinfinity.storage.ledger.turns import Turns
from contextinfinity.tools.toolbox import Toolbox

TIERS = 3


class _Part(Struct, frozen=True, omit_defaults=True):
    """A system text, the messages of a tier, or the messages behind the tiers with the last turn before them."""

    system: str = ""
    messages: tuple[Message, ...] = ()
    history_to: int = 0


def keep(texts: TextCache, workspace: WorkspaceText | None) -> tuple[str, ...]:
    """Store the parts and return their hashes, which ``restored`` takes."""
    if workspace is None:
        return ()
    parts = (
        _Part(system=workspace.system),
        *(_Part(messages=tier) for tier in workspace.tiers),
        _Part(messages=workspace.context, history_to=workspace.history_to),
        *([_Part(messages=workspace.matches)] if workspace.matches else []),
    )
    return tuple(texts.keep(dumps(part).decode()) for part in parts)


async def restored(
    read: Callable[[str], Awaitable[str | None]], hashes: Sequence[str], removed: list[str]
) -> WorkspaceText | None:
    """Read the parts back; append those that are no longer stored to ``removed``."""
    if not hashes:
        return None
    parts = []
    for sha256 in hashes:
        text = await read(sha256)
        if text is None:
            removed.append("a part of the workspace")
        parts.append(_Part() if text is None else loads(_Part, text))
    first, *tiers, last = parts[: 2 + TIERS]
    return WorkspaceText(
        system=first.system,
        tiers=tuple(tier.messages for tier in tiers),
        context=last.messages,
        history_to=last.history_to,
        matches=parts[-1].messages if len(parts) > 2 + TIERS else (),
    )


def redacted(workspace: WorkspaceText | None, redactor: Redactor | None) -> WorkspaceText | None:
    """Redact secrets in the workspace section."""
    if workspace is None or redactor is None:
        return workspace

    def clean(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return tuple(
            msgspec.structs.replace(
                message,
                blocks=tuple(
                    replace(block, text=hidden(block.text, redactor)) if isinstance(block, TextBlock) else block
                    for block in message.blocks
                ),
            )
            for message in messages
        )

    return replace(
        workspace,
        system=hidden(workspace.system, redactor),
        tiers=tuple(map(clean, workspace.tiers)),
        context=clean(workspace.context),
        matches=clean(workspace.matches),
        files=tuple(hidden(block, redactor) for block in workspace.files),
    )


LONGEST_REWRITING = 300
"""A rewritten question of more characters is not shown: it would not be clearer."""
UNREAD = "[Older turns are kept, and not shown here.]"


@dataclass(frozen=True, kw_only=True)
class PromptMaterial:
    """The material for the prompts of a turn, independent of the model."""

    recalled: PriorContext
    explicit: str | None
    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The material for the prompts of one model, their limits, and the reason for a new front."""

    sections: Sections
    frame: Frame
    measure: Measure
    front: str
    """The hash of the stored front."""
    reason: str | None
    workspace: tuple[str, ...] = ()
    """The hashes of the stored workspace parts."""
    remembered: tuple[MemoryReference, ...] = ()
    """The memories shown with the question, outside the front."""
    missing: tuple[LeftOut, ...] = ()


async def prepare(
    setup: Setup, texts: TextCache, turns: Turns, running: RunningTurn, material: PromptMaterial, model: Model
) -> Prepared:
    """Build the sections, limits and front of the prompts for a model."""
    turn, recalled, explicit = running.turn, material.recalled, material.explicit
    await learn_from(turns, recalled.earlier, model)
    terms = recalled.terms
    budget, missing = model.budget(setup.ceilings, terms), [*recalled.missing]
    measure = Measure(model.counter, tools=model.abilities.tools, cache=recalled.rendered)
    home = recalled.home  # the front is sized for the branch's model, not for one that answers a single message
    standing = chosen(recalled.known, Measure(home.counter).text, home.budget(setup.ceilings).memories)
    candidate = new_front(setup.tools, recalled, turn, standing)
    front, reason = choose_front(candidate, recalled.last, with_memories=running.asked.use_memory)
    corrections = () if recalled.last is None or reason is not None else recalled.last.corrections
    riding = (
        ()
        if recalled.known is None or recalled.is_as_sent
        else memories_for_question(recalled.known, front, recalled.earlier, corrections)
    )
    lead, message, begun = message_of(turn)
    sections = Sections(
        front=front,
        turn_seq=turn.turn_seq,
        message=message,
        lead=lead,
        begun=begun,
        covers=recalled.state.covers_turn_seq,
        turns=shown_with_opening(recalled.opening, recalled.earlier, turn, cache=recalled.rendered),
        bridge=(recalled.opening[0].turn_seq, recalled.opening[-1].turn_seq) if recalled.opening else None,
        artifacts=fitting_artifacts(material.artifacts, len(running.asked.attach), budget.retrieval_budget, missing),
        contextualised=shown_form(explicit, running.asked),
        remembered=lines(riding),
        workspace=redacted(running.asked.workspace, setup.redactor),
    )
    start = recalled.cuts
    if front.tools and not model.abilities.tools:
        missing.append(LeftOut(what="tools", reason=f"{model.name} cannot call tools"))
        if terms is None:
            setup.tools.warn_unable(model.name)
    return Prepared(
        sections=sections,
        frame=Frame(
            budget=budget,
            abilities=model.abilities,
            redactor=setup.redactor,
            start=start,
            holds_cuts=terms is not None,
            rejected=None if terms is None else least_rejected(budget, terms.request_options.max_output_tokens),
        ),
        measure=measure,
        front=texts.keep(dumps(without_memories(front)).decode()),
        reason=None if reason == "shrunk" and start is not None else reason,
        workspace=keep(texts, sections.workspace),
        remembered=tuple(map(placed, riding)),
        missing=tuple(missing),
    )


def shown_form(explicit: str | None, asked: SendOptions) -> str | None:
    """Return the rewritten question if it is shown: it must be short, and the caller must not bring their own terms."""
    return explicit if explicit and len(explicit) <= LONGEST_REWRITING and asked.terms is None else None


def new_front(tools: Toolbox, recalled: PriorContext, turn: Turn, standing: tuple[MemoryLine, ...]) -> Front:
    """Build the front from the current state."""
    state, terms = recalled.state, recalled.terms
    standing = () if recalled.is_as_sent else standing
    return Front(
        system=recalled.system,
        pinned_facts=() if recalled.is_as_sent else state.pinned_facts,
        memories=lines(standing),
        standing=tuple(placed(line) for line in standing if line.id),
        sent=None if terms is None else terms.sent,
        summary=f"{state.summary}\n{UNREAD}".strip() if recalled.unread(turn) else state.summary,
        tools=tools_json(tools.specs if terms is None else terms.tools),
        response_format=None if terms is None else terms.response_format,
        is_bare=recalled.is_as_sent,
    )


def fitting_artifacts(
    artifacts: Sequence[Artifact], attached: int, most: int, missing: list[LeftOut]
) -> tuple[Artifact, ...]:
    """Keep the attachments and the best retrieved passages that fit; record the rest in ``missing``."""
    sums = list(accumulate(artifact.tokens for artifact in artifacts))
    kept = max(attached, bisect_right(sums, most))
    if kept < len(artifacts):
        over, place = sums[-1] - (sums[kept - 1] if kept else 0), kept - attached + 1
        missing.append(LeftOut(what=f"retrieved text from place {place} on", reason="its share is full", tokens=over))
    return tuple(artifacts[:kept])


async def learn_from(turns: Turns, earlier: list[Turn], model: Model) -> None:
    """Calibrate the token counter with the input tokens reported for the model's last turn."""
    turn = earlier[-1] if earlier else None
    if turn is None or model.counter.is_calibrated or turn.rounds or not turn.usage.input_tokens:
        return
    if (turn.provider, turn.model) != (model.provider.name, model.model_id):
        return
    plan = await turns.plan(turn.id)
    if plan is not None and plan.token_scale:
        model.counter.recall(plan.token_scale, plan.tokens, turn.usage.input_tokens)
