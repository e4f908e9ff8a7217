"""Folding: old turns leave the word-for-word part of the prompt, and the summary covers them from then on.

For now a turn is summarised by a line: its first words and those of its answer. The newest lines stay, as far as the
summary's share of the window allows.
"""

from __future__ import annotations

from collections.abc import Sequence

from contextinfinity.domain.ids import BranchId
from contextinfinity.domain.message import ToolResultBlock
from contextinfinity.domain.state import State, StateDraft
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.parts import Model, Parts
from contextinfinity.engine.recall import budget_of, read_back
from contextinfinity.prompt.cutting import line
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.redact import Redactor, redact_turns
from contextinfinity.prompt.sections import Shown, shown_turns

FLOOR = 2
"""The last exchanges that a fold always leaves."""


async def fold(parts: Parts, branch_id: BranchId) -> State | None:
    """Fold a branch, if that is due and pays; gives the new state."""
    head = await parts.store.states.head(branch_id)
    turns = await read_back(parts, branch_id, after=head.covers_turn_seq, before=head.turn_seq + 1)
    if len(turns) <= FLOOR:
        return None
    model = model_of(parts, turns[-1])
    budget = budget_of(parts, model)
    measure = Measure(model.counter)
    shown = hidden(shown_turns(turns[:-1], turns[-1]), parts.setup.redactor)
    costs = [measure.messages(each.messages) for each in shown]
    if sum(costs) <= budget.fold_trigger:
        return None
    place = where_to_cut(turns, costs, budget.verbatim_window)
    if sum(costs[:place]) < budget.fold_trigger // 4:
        return None
    summary = summarised(head.summary, shown[:place], measure, budget.summary)
    draft = StateDraft(
        branch_id=branch_id,
        reason="fold",
        summary=summary,
        covers_turn_seq=turns[place - 1].turn_seq,
        token_count_est=measure.text(summary),
    )
    return await parts.store.states.commit(draft, expected_head=head.id)


def hidden(shown: tuple[Shown, ...], redactor: Redactor | None) -> tuple[Shown, ...]:
    """Black out before anything is shortened: half a secret is one that no pattern finds."""
    return shown if redactor is None else redact_turns(shown, redactor)


def model_of(parts: Parts, turn: Turn) -> Model:
    """Find the model that answered a turn; the default one if it is gone."""
    found = [m for m in parts.models.by_name.values() if (m.provider.name, m.model_id) == (turn.provider, turn.model)]
    return found[0] if found else parts.models.named(None)


def where_to_cut(turns: Sequence[Turn], costs: Sequence[int], window: int) -> int:
    """Count the turns that leave: the newest that fit the window stay, and never a result without its call."""
    place, room = len(turns) - 1, window
    while place > 0 and (room >= costs[place - 1] or len(turns) - place < FLOOR):
        place -= 1
        room -= costs[place]
    while place > 0 and any(isinstance(block, ToolResultBlock) for block in turns[place].user_message.blocks):
        place -= 1
    return place


def summarised(summary: str, shown: Sequence[Shown], measure: Measure, most: int) -> str:
    """Add a line for each turn; where that is too long the oldest go."""
    lines = [*summary.splitlines(), *map(line, shown)]
    kept: list[str] = []
    for each in reversed(lines):
        most -= measure.text(each) + 1
        if most < 0:
            break
        kept.append(each)
    return "\n".join(reversed(kept))
