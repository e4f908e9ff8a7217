"""Place tool results next to their calls, as every vendor requires.

In the result, the results of an assistant's calls come right after it, in the order of the calls. A call without a
result gets a constant one. A result without a preceding call becomes text of the user: nothing is lost, and nothing is
sent that a vendor rejects.

Tool call ids are replaced by ids that the vendor accepts. Calls may come from another vendor, or from a server that
gives every call the same id. The result has unique ids that match the vendor's rules, the same for a call and its
result. The ids of a message depend only on it and the messages before it, so a longer conversation starts with the same
bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

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


def with_safe_ids(messages: tuple[Message, ...], *, pattern: str, longest: int) -> tuple[Message, ...]:
    """Return the messages with ids that match ``pattern`` fully and have at most ``longest`` characters.

    The first call with an id keeps it if it is valid. A result belongs to the newest call with its id; if one answer
    used an id twice, results are matched by order.
    """
    naming = _Naming(pattern, longest)
    return tuple([naming.message(message) for message in messages])


class _Naming:
    def __init__(self, pattern: str, longest: int) -> None:
        self._fits = re.compile(pattern).fullmatch
        self._longest = longest
        self._used: set[str] = set()
        self._newest: dict[str, str] = {}
        self._unanswered: dict[str, list[str]] = {}
        self._in_answer = False

    def message(self, message: Message) -> Message:
        """Replace the ids of the calls and results of the next message."""
        if message.role == "assistant" and not self._in_answer:
            self._unanswered.clear()
        self._in_answer = message.role == "assistant"
        blocks = tuple([self._block(block) for block in message.blocks])
        same = all(new is old for new, old in zip(blocks, message.blocks, strict=True))
        return message if same else Message(role=message.role, blocks=blocks)

    def _block(self, block: ContentBlock) -> ContentBlock:
        if isinstance(block, ToolUseBlock):
            name = self._call(block.tool_use_id)
        elif isinstance(block, ToolResultBlock):
            name = self._result(block.tool_use_id)
        else:
            return block
        return block if name == block.tool_use_id else msgspec.structs.replace(block, tool_use_id=name)

    def _call(self, given: str) -> str:
        name = self._unused(given)
        self._newest[given] = name
        self._unanswered.setdefault(given, []).append(name)
        return name

    def _result(self, given: str) -> str:
        waiting = self._unanswered.get(given)
        if waiting:
            return waiting.pop(0)
        if given not in self._newest:
            self._newest[given] = self._unused(given)
        return self._newest[given]

    def _unused(self, given: str) -> str:
        name = given
        count = 0
        while name in self._used or len(name) > self._longest or not self._fits(name):
            count += 1
            digest = hashlib.sha256(f"{count}:{given}".encode(errors="surrogatepass")).hexdigest()
            name = f"call_{digest}"[: min(self._longest, 29)]
            if not self._fits(name):  # some vendors reject underscores
                name = digest[: self._longest]
        self._used.add(name)
        return name
