"""Place tool results next to their calls, as every vendor requires.

In the result, the results of an assistant's calls come right after it, in the order of the calls. A call without a
result gets a constant one. A result without a preceding call becomes text of the user: nothing is lost, and nothing is
sent that a vendor rejects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from contextinfinity.domain.message import ContentBlock, Message, Role, TextBlock, ToolResultBlock, ToolUseBlock
from contextinfinity.providers.wire_values import ERROR_MARK

NOT_RUN = "[not run]"
NO_CALL = "[result of a tool call that is no longer shown] "

_OF_TOOLS = (ToolUseBlock, ToolResultBlock)

NOWHERE = -1
"""The position of an added message, which is not in the prompt."""


class PlacedMessage(NamedTuple):
    """A message, and the position of its source message in the prompt."""

    place: int
    message: Message


def paired(messages: Sequence[Message]) -> list[PlacedMessage]:
    """Move results right after their calls. Messages of role ``tool`` contain only results, others contain none."""
    if all(map(_plain, messages)):
        return [PlacedMessage(place, message) for place, message in enumerate(messages)]
    parts = [PlacedMessage(place, part) for place, message in enumerate(messages) for part in _sides(message)]
    out: list[PlacedMessage] = []
    answer: list[PlacedMessage] = []
    for is_answer, run in groupby(parts, lambda part: part.message.role == "assistant"):
        if is_answer:
            answer = list(run)
        else:
            out.extend(_exchange(answer, run))
            answer = []
    out.extend(_exchange(answer, ()))
    return out


def _plain(message: Message) -> bool:
    """Return whether a message has no tool blocks."""
    return message.role != "tool" and not any(isinstance(block, _OF_TOOLS) for block in message.blocks)


def _sides(message: Message) -> Iterator[Message]:
    """Split a message by role: calls belong to the assistant, results never do."""
    if _plain(message):
        yield message
        return

    def role(block: ContentBlock) -> Role:
        if isinstance(block, ToolUseBlock):
            return "assistant"
        return "tool" if isinstance(block, ToolResultBlock) and message.role == "assistant" else message.role

    for side, blocks in groupby(message.blocks, role):
        yield Message(role=side, blocks=tuple(blocks))


def _exchange(answer: Sequence[PlacedMessage], after: Iterable[PlacedMessage]) -> Iterator[PlacedMessage]:
    """Yield the assistant's messages, the results of their calls, and the messages after them."""
    open_calls = {call.tool_use_id for part in answer for call in _calls(part.message)}
    came: dict[str, PlacedMessage] = {}
    said: list[PlacedMessage] = []
    for place, message in after:
        if _plain(message):
            said.append(PlacedMessage(place, message))
            continue
        others: list[ContentBlock] = []
        for block in message.blocks:
            if not isinstance(block, ToolResultBlock):
                others.append(block)
            elif block.tool_use_id in open_calls:
                open_calls.remove(block.tool_use_id)
                came[block.tool_use_id] = PlacedMessage(place, Message(role="tool", blocks=(block,)))
            else:
                others.extend(_words(block))
        if others:
            said.append(
                PlacedMessage(
                    place, Message(role="user" if message.role == "tool" else message.role, blocks=tuple(others))
                )
            )
    for part in answer:
        yield part
        for call in _calls(part.message):
            yield came.get(call.tool_use_id) or PlacedMessage(NOWHERE, _not_run(call))
    yield from said


def _calls(message: Message) -> list[ToolUseBlock]:
    return [block for block in message.blocks if isinstance(block, ToolUseBlock)]


def _not_run(call: ToolUseBlock) -> Message:
    content = (TextBlock(text=NOT_RUN),)
    return Message(role="tool", blocks=(ToolResultBlock(tool_use_id=call.tool_use_id, content=content, is_error=True),))


def _words(result: ToolResultBlock) -> list[ContentBlock]:
    """Convert a result to text, with its images."""
    said: list[ContentBlock] = [TextBlock(text=NO_CALL + (ERROR_MARK if result.is_error else ""))]
    for block in (*_inside(result.content), TextBlock(text="\n")):
        if isinstance(block, TextBlock) and isinstance(last := said[-1], TextBlock):
            said[-1] = TextBlock(text=last.text + block.text)
        else:
            said.append(block)
    return said


def _inside(blocks: Iterable[ContentBlock]) -> Iterator[ContentBlock]:
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            yield from _inside(block.content)
        else:
            yield block
