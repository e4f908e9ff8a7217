"""The texts of a turn that chunks are cut from.

    user        the user's own words
    assistant   the answer
    tool        what went to and fro with tools: results the user's message brought, then what the model said between
                calls and what each call gave back, with an empty line between them

Offsets of a chunk count the characters of the text of its side; for a turn that has ended that text never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec
from msgspec import Struct

from contextinfinity.domain.chunk import ChunkSide
from contextinfinity.domain.message import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock, blocks_of
from contextinfinity.domain.turn import Turn

Side: TypeAlias = ChunkSide

BETWEEN = "\n\n"
_LONGEST_CALL = 300
"""Characters of a call's arguments that tell what its result is about."""


class Passage(Struct, frozen=True):
    """A stretch of a side that was said in one go; ``call`` is the call it is the result of."""

    start: int
    end: int
    result: bool = False
    call: str = ""


class TurnSide(Struct, frozen=True):
    """One side of a turn."""

    side: Side
    text: str
    passages: tuple[Passage, ...]


def sides_of(turn: Turn) -> tuple[TurnSide, ...]:
    """Give the sides of a turn on which anything was said."""
    answer = turn.answer.rendered_text if turn.answer else ""
    sides = (_plain("user", turn.user_message.rendered_text), _tools(turn), _plain("assistant", answer))
    return tuple(spoken for spoken in sides if spoken.text.strip())


def side_text(turn: Turn, side: Side) -> str:
    """Give the text that the offsets of a side count in."""
    return next((spoken.text for spoken in sides_of(turn) if spoken.side == side), "")


def _plain(side: Side, text: str) -> TurnSide:
    return TurnSide(side, text, (Passage(0, len(text)),))


def _tools(turn: Turn) -> TurnSide:
    calls: dict[str, str] = {}
    blocks = [block for block in turn.user_message.blocks if isinstance(block, ToolResultBlock)]
    passages, texts, place = list[Passage](), list[str](), 0
    for text, result, call in _said((*blocks, *blocks_of(turn.rounds)), calls):
        passages.append(Passage(place, place + len(text), result, call))
        texts.append(text)
        place += len(text) + len(BETWEEN)
    return TurnSide("tool", BETWEEN.join(texts), tuple(passages))


def _said(blocks: Iterable[ContentBlock], calls: dict[str, str]) -> Iterator[tuple[str, bool, str]]:
    for block in blocks:
        if isinstance(block, ToolUseBlock):
            arguments = msgspec.json.encode(block.input).decode()[:_LONGEST_CALL]
            calls[block.tool_use_id] = f"{block.name} {arguments}"
        elif isinstance(block, TextBlock) and block.text.strip():
            yield block.text, False, ""
        elif isinstance(block, ToolResultBlock):
            text = BETWEEN.join(part.text for part in block.content if isinstance(part, TextBlock) and part.text)
            if text.strip():
                yield text, True, calls.get(block.tool_use_id, "")
