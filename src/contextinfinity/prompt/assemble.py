"""From what was said to what the model sees.

In go the system text, the earlier turns, the turn to be answered and what went on in it so far; out come a prompt and
the plan that accounts for it. For now the earlier turns are the newest that fit a bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from contextinfinity.domain.message import Message
from contextinfinity.domain.plan import LeftOut, Plan, PlanSection
from contextinfinity.domain.prompt import Prompt, ToolSpec
from contextinfinity.domain.turn import Turn
from contextinfinity.prompt.render import render, render_turn
from contextinfinity.text.tokens import Counter

VERBATIM_TOKENS = 24_000

SYSTEM = "You are a helpful assistant."


class Material(Struct, frozen=True, kw_only=True):
    """What a prompt is made from; ``rounds`` is what this turn's earlier steps said and were told."""

    turn: Turn
    system: str | None = None
    earlier: tuple[Turn, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    rounds: tuple[Message, ...] = ()


class Assembled(Struct, frozen=True, kw_only=True):
    """What will be sent, and why it is what it is."""

    prompt: Prompt
    plan: Plan
    verbatim_tokens: int
    """What the earlier turns in it take."""


def assemble(material: Material, counter: Counter, bound: int = VERBATIM_TOKENS) -> Assembled:
    """Put the prompt of a step together, its earlier turns within a bound."""
    turn, system = material.turn, material.system or SYSTEM
    shown = newest_that_fit([*material.earlier, turn], counter, bound)
    messages = render(shown, turn)
    verbatim = counter.count(messages)
    sections = [
        PlanSection(name="system", tokens=counter.count(system)),
        PlanSection(name="turns", tokens=verbatim, source=_range(shown)),
        PlanSection(name="message", tokens=counter.count(turn.user_message), source=turn.turn_seq),
    ]
    if material.tools:
        sections.append(PlanSection(name="tools", tokens=counter.count(material.tools)))
    if material.rounds:
        sections.append(PlanSection(name="steps", tokens=counter.count(material.rounds)))
    prompt = Prompt(system=(system,), messages=(*messages, turn.user_message, *material.rounds), tools=material.tools)
    left_out = _left_out(material.earlier, len(shown))
    plan = Plan(sections=tuple(sections), left_out=left_out, token_scale=counter.scale)
    return Assembled(prompt=prompt, plan=plan, verbatim_tokens=verbatim)


def smaller_bound(rejected: Assembled) -> int | None:
    """Say what earlier turns may take after a prompt was too large; None when there is nothing left to leave out."""
    return rejected.verbatim_tokens // 2 or None


def newest_that_fit(turns: Sequence[Turn], counter: Counter, bound: int = VERBATIM_TOKENS) -> list[Turn]:
    """Give the newest of the turns before the last that stay within the bound together, oldest first."""
    kept: list[Turn] = []
    for place in range(len(turns) - 2, -1, -1):
        bound -= counter.count(render_turn(turns[place], turns[place + 1]))
        if bound < 0:
            break
        kept.append(turns[place])
    return kept[::-1]


def _left_out(earlier: Sequence[Turn], shown: int) -> tuple[LeftOut, ...]:
    """Account for the turns that were not shown, as one stretch."""
    missing = earlier[: len(earlier) - shown]
    if not missing:
        return ()
    return (LeftOut(what=f"turns {missing[0].turn_seq}–{missing[-1].turn_seq}", reason="beyond the verbatim bound"),)


def _range(turns: Sequence[Turn]) -> list[int] | None:
    return [turns[0].turn_seq, turns[-1].turn_seq] if turns else None
