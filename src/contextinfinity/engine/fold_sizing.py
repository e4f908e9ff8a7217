"""Measure a branch for folding: its newest turns as the model sees them, and the tokens of each.

Folding runs in the background and is throttled while turns run. A branch is read page by page, so its length does not
matter.
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
"""An upper bound for the turns that wait or run on a branch."""
PAGE = 50
"""The number of turns that are read, measured and summarised at a time."""


@dataclass(frozen=True, kw_only=True)
class FoldContext:
    """A branch that may be folded: its head, its budget, and its newest turns with their sizes."""

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
        """The number of turns up to the head: only committed turns can be folded."""
        return sum(turn.turn_seq <= self.head.turn_seq for turn in self.turns)

    @property
    def limits(self) -> FoldLimits:
        """The limits that decide when and where the branch is folded."""
        floor = self.parts.setup.min_exchanges
        return FoldLimits(trigger=self.budget.fold_trigger, window=self.budget.verbatim_window, exchanges=floor)


async def measure_branch(parts: Parts, branch_id: BranchId, budget: Budget | None = None) -> FoldContext | None:
    """Read turns, newest first, until they exceed the trigger or all are read; return None if there are none to
    fold.

    ``budget`` is that of the request being prepared; by default that of the newest request.
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
        parts=parts, branch_id=branch_id, head=head, measure=measure, budget=budget, pause=Throttle(parts.running).pause
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
    """Return the token budget for the turn's branch.

    For a client that resends the conversation, the trigger is what the front of its last request leaves free.
    """
    plan = await parts.store.turns.plan(turn.id)
    if plan is None or plan.budget is None or not plan.budget.resent:
        return parts.budget_of(model)
    front = sum(section.tokens for section in plan.sections if section.name not in ("turns", "message", "steps"))
    trigger = max(1, plan.budget.input_limit - front)
    return replace(plan.budget, fold_trigger=trigger, verbatim_window=trigger // 2)


async def model_of(parts: Parts, turn: Turn) -> Model:
    """Return the model the branch stays with, or else the model that answered the turn, or else the default.

    A model that answered a single message, by a rule or as a fallback, is not considered.
    """
    plan = await parts.store.turns.plan(turn.id)
    if plan is not None:
        parts.models.recall_window(plan)
    if plan is not None and plan.route is not None and plan.route.home in parts.models.by_name:
        return parts.models.by_name[plan.route.home]
    answered = (model for model in parts.models.by_name.values() if model.answered(turn))
    return next(answered, parts.models.named(None))


def shown_with(here: FoldContext, turns: Sequence[Turn], after: Turn | None) -> list[Shown]:
    """Render turns as the model sees them, with secrets redacted."""
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
    """Yield the turns to be folded, oldest first, as (page number, turns)."""
    for number, after in enumerate(range(here.head.covers_turn_seq, covers, PAGE)):
        last = min(after + PAGE, covers)
        # Read one turn more: how a turn is rendered depends on its successor.
        turns = await here.parts.store.turns.history(here.branch_id, limit=last - after + 1, before=last + 2)
        folded = [turn for turn in turns if after < turn.turn_seq <= last]
        then = turns[-1] if turns and turns[-1].turn_seq > last else None
        yield number, shown_with(here, folded, then)


def said(shown: Shown) -> Iterator[TranscriptMessage]:
    """Yield the text of a turn by role; tool calls and their results have the role ``tool``."""
    for message in shown.messages:
        for role, text in _texts_of(message):
            if text.strip():
                yield TranscriptMessage(turn_seq=shown.turn_seq, role=role, text=text, at=shown.at)


def _texts_of(message: Message) -> Iterator[tuple[Role, str]]:
    yield message.role, message.rendered_text
    for block in message.blocks:
        if isinstance(block, ToolUseBlock):
            yield "tool", f"{block.name} {msgspec.json.encode(block.input).decode()}"
        elif isinstance(block, ToolResultBlock):
            yield "tool", "".join(part.text for part in block.content if isinstance(part, TextBlock))
