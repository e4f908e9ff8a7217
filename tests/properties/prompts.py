"""Strategies for what prompts are made of: conversations with all that can happen in them, fronts, windows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import now
from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    ImageBlock,
    Message,
    ReasoningItem,
    TextBlock,
    ToolCallItem,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
    say,
)
from contextinfinity.domain.plan import Front
from contextinfinity.domain.turn import Phase, Problem, Turn
from contextinfinity.prompt.prompt_sections import Sections, render_rounds, shown_turns
from tests.unit.prompt.material import artifact, identity

TOOLS = [{"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}]
MARK = "¶ what is said now"
"""Is in every text of the message to be answered, and nowhere else."""

words = st.sampled_from(["yes", "no?", "Wo ist Zoë?", "a < b", "", "line\nline", "{}", "#3 said", "[…]"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=20
)
lengths = st.sampled_from([1, 1, 1, 1, 20, 200, 600])
texts = st.builds(lambda text, times: f"{text} and so on. " * times, words, lengths)


class Talk(Struct, frozen=True, kw_only=True):
    """A conversation, and the turn that is to be answered now."""

    turns: tuple[Turn, ...]
    now: Turn
    front: Front

    def sections(self, **more: Any) -> Sections:
        """Return the material of the request to be made now."""
        shown = shown_turns(self.turns, self.now)
        return Sections(
            front=self.front,
            turn_seq=self.now.turn_seq,
            message=self.now.user_message,
            turns=shown,
            covers=self.turns[0].turn_seq - 1 if self.turns else 0,
            **more,
        )

    def later(self, answered: Turn, then: Turn) -> Talk:
        """Return the conversation one turn later."""
        return replace(self, turns=(*self.turns, answered), now=then)


def turn(seq: int, **more: Any) -> Turn:
    """Make a turn."""
    base = Turn(
        id=identity(seq),
        session_id=identity(0),
        branch_id=identity(0),
        turn_seq=seq,
        phase=Phase.DONE,
        state_before=identity(0),
        user_message=say("user", "?"),
        created_at=now(),
        updated_at=now(),
        outcome="completed",
    )
    return replace(base, **more)


def results_for(before: Turn | None, text: str) -> tuple[ContentBlock, ...]:
    """Return a result for each call that a turn waits for."""
    blocks = before.answer.blocks if before and before.outcome == "paused" and before.answer else ()
    return tuple(
        ToolResultBlock(tool_use_id=block.tool_use_id, content=(TextBlock(text=text),))
        for block in blocks
        if isinstance(block, ToolUseBlock)
    )


@st.composite
def rounds(draw: st.DrawFn, seq: int) -> tuple[TranscriptItem, ...]:
    """Draw the tool calls of a model and their results."""
    items: list[TranscriptItem] = []
    for number in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            items.append(ReasoningItem(raw={"type": "thinking", "thinking": draw(texts), "signature": "s"}))
        if draw(st.booleans()):
            items.append(AssistantItem(blocks=(TextBlock(text=draw(texts)),)))
        call_id = draw(st.sampled_from([f"c{seq}-{number}", "call-1"]))
        items.append(ToolCallItem(call_id=call_id, name="look", arguments={"z": draw(words), "at": seq}))
        items.append(ToolOutputItem(call_id=call_id, output=draw(texts), is_error=draw(st.booleans())))
    return tuple(items)


@st.composite
def user_messages(draw: st.DrawFn, before: Turn | None, mark: str = "") -> Message:
    """What a person says, perhaps with the results that the turn before waits for."""
    results = results_for(before, mark + draw(texts)) if draw(st.booleans()) else ()
    said = TextBlock(text=f"{mark}{draw(texts)} Tell me.")
    picture = ImageBlock(media_type="image/png", source={"type": "base64", "data": "iVBORw0KGgo="})
    more = (picture,) if draw(st.integers(0, 7)) == 0 else ()
    return Message(role="user", blocks=(*results, said, *more) if not results or draw(st.booleans()) else results)


@st.composite
def ends(draw: st.DrawFn, seq: int, asked: Turn) -> Turn:
    """How a turn may have ended."""
    answer = say("assistant", f"{draw(texts)} That is it.")
    match draw(st.sampled_from(["said", "said", "tools", "paused", "stopped", "cut", "nothing", "size", "empty"])):
        case "said":
            return replace(asked, answer=answer)
        case "tools":
            return replace(asked, answer=answer, rounds=draw(rounds(seq)))
        case "paused":
            calls = tuple(
                ToolUseBlock(tool_use_id=f"p{seq}-{number}", name="look", input={"at": number})
                for number in range(draw(st.integers(1, 2)))
            )
            return replace(asked, answer=Message(role="assistant", blocks=calls), outcome="paused")
        case "stopped":
            return replace(asked, answer=answer, outcome="cancelled")
        case "cut":
            return replace(asked, answer=answer, outcome="incomplete", phase=Phase.FAILED)
        case "size":
            error = Problem(code="size", message="Too large.")
            return replace(asked, outcome="failed", phase=Phase.FAILED, error=error)
        case "empty":
            return replace(asked, answer=say("assistant", ""))
        case _:
            return replace(asked, outcome="failed", phase=Phase.FAILED)


@st.composite
def talks(draw: st.DrawFn, most: int = 7) -> Talk:
    """A conversation."""
    first = draw(st.integers(1, 40))
    turns: list[Turn] = []
    for seq in range(first, first + draw(st.integers(0, most))):
        before = turns[-1] if turns else None
        retry = before.id if before and before.phase is Phase.FAILED and draw(st.booleans()) else None
        asked = turn(seq, user_message=draw(user_messages(before)), retry_of=retry)
        turns.append(draw(ends(seq, asked)))
    front = Front(
        system=draw(words) or "Be brief.",
        pinned_facts=tuple(draw(st.lists(words.filter(str.strip), max_size=3, unique=True))),
        memories=draw(st.sampled_from(["", "Ann likes coffee. " * 3, "Ann likes coffee. " * 100])),
        summary=draw(st.sampled_from(["", "They met. ", "They met. " * 150])) if first > 1 else "",
        tools=TOOLS,
    )
    last = turns[-1] if turns else None
    said = turn(first + len(turns), user_message=draw(user_messages(last, MARK)), phase=Phase.CONTEXT_PREPARED)
    return Talk(turns=tuple(turns), now=said, front=front)


@st.composite
def materials_of(draw: st.DrawFn, told: Talk) -> Sections:
    """The material of any step of the turn to be answered."""
    pieces = draw(st.lists(texts, max_size=4))
    running = render_rounds(draw(rounds(told.now.turn_seq)), running=True) if draw(st.booleans()) else ()
    return told.sections(
        artifacts=tuple(artifact(1000 + place, text, 1 - place / 10) for place, text in enumerate(pieces)),
        contextualised=draw(st.none() | st.just("Is Zoë in the barn?")),
        rounds=running,
    )


materials = talks().flatmap(materials_of)
