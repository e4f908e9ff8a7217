"""What prompts are made of in tests: turns, artifacts, fronts, and a model's way to count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from contextinfinity.domain.ids import now
from contextinfinity.domain.message import (
    ContentBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    say,
)
from contextinfinity.domain.plan import Front
from contextinfinity.domain.turn import Turn
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.prompt_sections import Artifact, Sections, Shown, render_turn
from contextinfinity.text.tokens import Counter
from contextinfinity.text.tokens.families import family_of
from contextinfinity.text.tokens.images import rule_of

MEASURE = Measure(Counter(family_of("openai", "gpt-5.5"), rule_of("openai", "gpt-5.5")))
"""Counts as one model does, and never learns."""

FRONT = Front(system="Be brief.")
FULL = Front(
    system="Be brief.",
    pinned_facts=("The dog is called Rex.", "Answers are in metres."),
    memories="Ann likes coffee.",
    summary="They looked for the café.",
    tools=[{"name": "look", "description": "Look at something.", "parameters": {"type": "object"}}],
)
QUESTION = say("user", "Where is he now?")


def identity(number: int) -> str:
    """Make an id that is the same in every run."""
    return f"0192f0c1-2345-7abc-8def-{number:012x}"


def shown(seq: int, question: str = "Who?", answer: str = "Rex.") -> Shown:
    """Make a turn of plain words."""
    return Shown(turn_seq=seq, messages=(say("user", question), say("assistant", answer)))


def artifact(number: int, text: str, score: float = 1.0) -> Artifact:
    """Make a piece of the past."""
    return Artifact(
        chunk_id=identity(number),
        side="user",
        text=text,
        start=0,
        end=len(text),
        tokens=MEASURE.text(text),
        said_at=now(),
        score=score,
    )


def sections(**more: Any) -> Sections:
    """Return the material of a prompt; by default of an eleventh turn."""
    return Sections(**{"front": FRONT, "turn_seq": 11, "message": QUESTION, **more})


def called(call_id: str, *, thinking: str | None = None, **arguments: Any) -> Message:
    """Make an answer that asks for a tool."""
    thought = () if thinking is None else (ReasoningBlock(raw={"thinking": thinking}),)
    return Message(role="assistant", blocks=(*thought, ToolUseBlock(tool_use_id=call_id, name="look", input=arguments)))


def gave(call_id: str, text: str, *more: ContentBlock, role: Any = "tool") -> Message:
    """Make what a tool gave back."""
    result = ToolResultBlock(tool_use_id=call_id, content=(TextBlock(text=text),))
    return Message(role=role, blocks=(result, *more))


def with_front(material: Sections, **changes: Any) -> Sections:
    """Change the front of some material."""
    return replace(material, front=replace(material.front, **changes))


def render(turns: Sequence[Turn], then: Turn | None = None) -> tuple[Message, ...]:
    """Write turns one after the other, as the model reads them before the turn ``then``."""
    pairs = zip(turns, [*turns[1:], then], strict=True)
    return tuple(message for turn, following in pairs for message in render_turn(turn, following))
