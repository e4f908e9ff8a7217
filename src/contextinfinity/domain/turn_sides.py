"""The texts of a turn that chunks are cut from.

    user        the user's message
    assistant   the answer
    tool        tool results in the user's message, then the model's text between calls and the result of each call,
                separated by empty lines

Chunk offsets are character positions in the text of their side; that text never changes once the turn has ended.
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
"""The number of characters of a call's arguments that are kept to describe its result."""


class Passage(Struct, frozen=True):
    """A contiguous passage of a side; ``call`` is the tool call whose result it is."""

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
    """Return the non-empty sides of a turn."""
    answer = turn.answer.rendered_text if turn.answer else ""
    sides = (_plain("user", turn.user_message.rendered_text), _tools(turn), _plain("assistant", answer))
    return tuple(spoken for spoken in sides if spoken.text.strip())


def side_text(turn: Turn, side: Side) -> str:
    """Return the text of a side, to which chunk offsets refer."""
    return next((spoken.text for spoken in sides_of(turn) if spoken.side == side), "")


def _plain(side: Side, text: str) -> TurnSide:
    return TurnSide(side, text, (Passage(0, len(text)),))


def _tools(turn: Turn) -> TurnSide:
    calls: dict[str, str] = {}
    blocks = [block for block in turn.user_message.blocks if isinstance(block, ToolResultBlock)]
    passages, texts, place = list[Passage](), list[str](), 0
    for text, result, call in _rows((*blocks, *blocks_of(turn.rounds)), calls):
        passages.append(Passage(place, place + len(text), result, call))
        texts.append(text)
        place += len(text) + len(BETWEEN)
    return TurnSide("tool", BETWEEN.join(texts), tuple(passages))


def _rows(blocks: Iterable[ContentBlock], calls: dict[str, str]) -> Iterator[tuple[str, bool, str]]:
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
