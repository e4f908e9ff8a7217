"""A branch on the scales: its newest turns as the model reads them, and what each takes.

Folding goes on behind the answers and keeps out of their way: it works in moments and rests in between. A branch is
read a page at a time, however long it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from contextinfinity.compaction.policy import FoldableTurn, FoldLimits, is_due
from contextinfinity.domain.ids import BranchId
from contextinfinity.domain.message import Message, Role, TextBlock, ToolResultBlock, ToolUseBlock
from contextinfinity.domain.plan import Budget
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import UNFINISHED, Turn
from contextinfinity.engine.configured_models import Model
from contextinfinity.engine.job_runner import Throttle
from contextinfinity.engine.parts import Parts
from contextinfinity.librarian.contract import Pause, TranscriptMessage
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.prompt_sections import Shown, shown_turns
from contextinfinity.prompt.redact import redact_turns

MOST_WAITING = 20
"""More turns than can be waiting or running on a branch."""
PAGE = 50
"""How many turns are read, weighed and summarised at a time."""


@dataclass(frozen=True, kw_only=True)
class FoldContext:
    """A branch as it stands and what it is weighed with; of its turns the newest, and what each takes."""

    parts: Parts
    branch_id: BranchId
    head: State
    measure: Measure
    budget: Budget
    pause: Pause
    turns: list[Turn] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    pieces: list[FoldableTurn] = field(default_factory=list)

    @property
    def committed(self) -> int:
        """How many of the turns the head counts past: no others can leave yet."""
        return sum(turn.turn_seq <= self.head.turn_seq for turn in self.turns)

    @property
    def limits(self) -> FoldLimits:
        """What decides when it folds and where."""
        floor = self.parts.setup.min_exchanges
        return FoldLimits(trigger=self.budget.fold_trigger, window=self.budget.verbatim_window, exchanges=floor)


async def look(parts: Parts, branch_id: BranchId, budget: Budget | None = None) -> FoldContext | None:
    """Read back the newest turns until they are more than the trigger, or all there are; None: there are none.

    ``budget``: of the request that is being prepared; without it that of the newest one.
    """
    head = await parts.store.states.head(branch_id)
    newest = [
        turn for turn in await parts.store.turns.history(branch_id, limit=MOST_WAITING) if turn.phase not in UNFINISHED
    ]
    if not newest or newest[-1].turn_seq <= head.covers_turn_seq:
        return None
    model, before = await model_of(parts, newest[-1]), newest[-1].turn_seq + 1
    measure, budget = Measure(model.counter), budget or await budget_of(parts, model, newest[-1])
    here = FoldContext(
        parts=parts, branch_id=branch_id, head=head, measure=measure, budget=budget, pause=Throttle(parts.running).take
    )
    while before - 1 > head.covers_turn_seq and not is_due(here.pieces, here.limits):
        count = min(PAGE, before - 1 - head.covers_turn_seq)
        page = await parts.store.turns.history(branch_id, limit=count, before=before)
        turns = [turn for turn in page if turn.phase not in UNFINISHED]
        shown = shown_with(here, turns, here.turns[0] if here.turns else None)
        pieces = []
        for each, turn in zip(shown, turns, strict=True):
            pieces.append(_piece(here, each, turn))
            await here.pause()
        here.turns[:0], here.shown[:0], here.pieces[:0] = turns, shown, pieces
        before = page[0].turn_seq if page else 0
    return here


async def budget_of(parts: Parts, model: Model, turn: Turn) -> Budget:
    """Share out a model's window as for a turn's request: where the client resends all, only what its front leaves."""
    plan = await parts.store.turns.plan(turn.id)
    if plan is None or plan.budget is None or not plan.budget.resent:
        return parts.budget_of(model)
    front = sum(section.tokens for section in plan.sections if section.name not in ("turns", "message", "steps"))
    trigger = max(1, plan.budget.input_limit - front)
    return replace(plan.budget, fold_trigger=trigger, verbatim_window=trigger // 2)


async def model_of(parts: Parts, turn: Turn) -> Model:
    """Find the model that the branch stays with, or that answered a turn; the default one if it is gone.

    One that answered a single message, by a rule or for another that failed, has no say in what folds.
    """
    plan = await parts.store.turns.plan(turn.id)
    if plan is not None:
        parts.models.recall_window(plan)
    if plan is not None and plan.route is not None and plan.route.home in parts.models.by_name:
        return parts.models.by_name[plan.route.home]
    answered = (model for model in parts.models.by_name.values() if model.answered(turn))
    return next(answered, parts.models.named(None))


def shown_with(here: FoldContext, turns: Sequence[Turn], after: Turn | None) -> list[Shown]:
    """Write turns as the model reads them, without what must not leave the machine."""
    return [*redact_turns(shown_turns(turns, after), here.parts.setup.redactor)]


def _piece(here: FoldContext, shown: Shown, turn: Turn) -> FoldableTurn:
    return FoldableTurn(
        turn_seq=turn.turn_seq,
        tokens=here.measure.messages(shown.messages),
        messages=sum(message.role in ("user", "assistant") for message in shown.messages),
        joined=any(isinstance(block, ToolResultBlock) for block in turn.user_message.blocks),
        waits=turn.outcome == "paused",
    )


async def leaving(here: FoldContext, covers: int) -> AsyncIterator[tuple[int, list[Shown]]]:
    """Give the turns that leave, oldest first, a numbered page at a time."""
    for number, after in enumerate(range(here.head.covers_turn_seq, covers, PAGE)):
        last = min(after + PAGE, covers)
        # One more than leaves: how a turn reads depends on the one after it.
        turns = await here.parts.store.turns.history(here.branch_id, limit=last - after + 1, before=last + 2)
        there = [turn for turn in turns if after < turn.turn_seq <= last]
        then = turns[-1] if turns and turns[-1].turn_seq > last else None
        yield number, shown_with(here, there, then)


def said(shown: Shown) -> Iterator[TranscriptMessage]:
    """Return what was said in a turn: words by who said them, calls and their results as a tool's."""
    for message in shown.messages:
        for role, text in _words(message):
            if text.strip():
                yield TranscriptMessage(turn_seq=shown.turn_seq, role=role, text=text, at=shown.at)


def _words(message: Message) -> Iterator[tuple[Role, str]]:
    yield message.role, message.rendered_text
    for block in message.blocks:
        if isinstance(block, ToolUseBlock):
            yield "tool", f"{block.name} {msgspec.json.encode(block.input).decode()}"
        elif isinstance(block, ToolResultBlock):
            yield "tool", "".join(part.text for part in block.content if isinstance(part, TextBlock))
