"""Make tool call ids that a vendor accepts.

Calls may come from another vendor, or from a server that gives every call the same id. The result has unique ids that
match the vendor's rules, the same for a call and its result. The ids of a message depend only on it and the messages
before it, so a longer conversation starts with the same bytes.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from contextinfinity.domain.message import ContentBlock, Message, ToolResultBlock, ToolUseBlock


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
