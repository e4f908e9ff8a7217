"""Conversations of other programs as trees of messages, and the turns they become.

Input: an ``ExportedConversation``, whose messages name their parents. Output: ``ImportedTurn`` values, parents first.
A user message and the replies below it, up to the next user message, are one turn: texts, tool calls and tool results
become its rounds and its answer. Where the tree divides, each path is a separate turn; the branch that was shown
last (``current``) is first, so that it becomes the main branch.

Models require a call before each tool result and a result for each call; missing ones are filled in with constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias
from uuid import UUID, uuid5

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    Json,
    Message,
    ReasoningItem,
    TextBlock,
    ToolCallItem,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
    blocks_of,
)
from contextinfinity.domain.transfer import ImportedMessage, ImportedTurn
from contextinfinity.domain.turn import PARAGRAPH
from contextinfinity.storage.ledger.imports import check_imported

NO_RESULT = "[the export has no result of this call]"
UNKNOWN_TOOL = "tool"

Blobs: TypeAlias = dict[str, tuple[bytes | Callable[[], bytes], str]]
"""Images by hash: their bytes, or a function that reads them again, and their media type."""


class ToolOutput(Struct, frozen=True, kw_only=True):
    """A tool result of an export; ``call_id`` may be missing."""

    name: str = UNKNOWN_TOOL
    call_id: str | None = None
    blocks: tuple[ContentBlock, ...] = ()
    is_error: bool = False


ReplyItem: TypeAlias = AssistantItem | ToolCallItem | ToolOutput | ReasoningItem


class ExportedMessage(Struct, frozen=True, kw_only=True):
    """A message of a tree: a user message, or a part of the reply to it. An empty one only links other messages."""

    id: str
    parent: str | None
    said: Message | None = None
    reply: tuple[ReplyItem, ...] = ()
    created_at: datetime | None = None
    model: str = ""
    details: Json = None


class ExportedConversation(Struct, frozen=True, kw_only=True):
    """A conversation of an export. ``bad`` lists (position, reason) of invalid messages."""

    id: str
    messages: Sequence[ExportedMessage]
    title: str | None = None
    system: str | None = None
    created_at: datetime | None = None
    current: str | None = None
    blobs: Blobs = {}
    metadata: dict[str, Json] = {}
    bad: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """The number of messages with content."""
        return sum(1 for each in self.messages if _has_content(each))


def reply_of(message: Message) -> tuple[ReplyItem, ...]:
    """Return the content of an assistant or tool message as reply items."""
    made: list[ReplyItem] = []
    for block in message.blocks:
        if isinstance(block, ToolUseBlock):
            made.append(ToolCallItem(call_id=block.tool_use_id, name=block.name, arguments=block.input))
        elif isinstance(block, ToolResultBlock):
            made.append(ToolOutput(call_id=block.tool_use_id, blocks=block.content, is_error=block.is_error))
        elif message.role == "tool":
            made.append(ToolOutput(blocks=(block,)))
        else:
            made.append(AssistantItem(blocks=(block,)))
    return tuple(made)


class _Chain(NamedTuple):
    """A linked list of the messages of a turn, because a turn may have thousands of steps."""

    message: ExportedMessage
    place: int
    before: _Chain | None


def check_exported(message: ExportedMessage) -> None:
    """Raise ``InvalidInput`` for a message that cannot be stored."""
    if _has_content(message):
        empty = Message(role="assistant", blocks=(TextBlock(text=""),))
        check_imported((_original_message(_Chain(message, 0, None), empty),))


def turns_of(conversation: ExportedConversation, session_id: str) -> Iterator[ImportedTurn]:
    """Yield the turns of a conversation, parents first, the current branch before all others."""
    by_id = {each.id: (place, each) for place, each in enumerate(conversation.messages)}
    parents = _effective_parents(by_id)
    roots, children = _children(parents, _path(conversation.current, parents))
    waiting: list[tuple[str, _Chain | None, str | None]] = [(root, None, None) for root in reversed(roots)]
    while waiting:
        name, chain, parent = waiting.pop()
        place, message = by_id[name]
        chain = _Chain(message, place, None if message.said is not None else chain)
        replies = [child for child in children[name] if by_id[child][1].said is None]
        questions = [child for child in children[name] if by_id[child][1].said is not None]
        if questions or not replies:
            turn = _turn(chain, parent, session_id)
            yield turn
            waiting.extend((child, None, turn.id) for child in reversed(questions))
        waiting.extend((child, chain, parent) for child in reversed(replies))


def turn_id_of(session_id: str, message_id: str) -> str:
    """Return the id of the turn that ends with a message: the same for every import of it."""
    return str(uuid5(UUID(session_id), message_id))


def _has_content(message: ExportedMessage) -> bool:
    return message.said is not None or bool(message.reply)


def _effective_parents(by_id: Mapping[str, tuple[int, ExportedMessage]]) -> dict[str, str | None]:
    """Map each message with content to its nearest ancestor with content; None for a root or within a cycle."""
    nearest: dict[str | None, str | None] = {None: None}
    for name, (_, message) in by_id.items():
        if _has_content(message):
            nearest[name] = name
    for name in by_id:
        visited: list[str] = []
        at: str | None = name
        while at not in nearest:
            nearest[at] = None  # until resolved; stays if the parents form a cycle
            if at is not None and at in by_id:
                visited.append(at)
                at = by_id[at][1].parent
        nearest.update(dict.fromkeys(visited, nearest[at]))
    return {
        name: None if (parent := nearest.get(each.parent)) == name else parent
        for name, (_, each) in by_id.items()
        if _has_content(each)
    }


def _path(current: str | None, parents: Mapping[str, str | None]) -> set[str]:
    """Return the ids from the current message up to its root."""
    path: set[str] = set()
    while current is not None and current in parents and current not in path:
        path.add(current)
        current = parents[current]
    return path


def _children(parents: Mapping[str, str | None], path: set[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the roots and the children of each message, those of the current path first; cycles are broken."""
    children: dict[str, list[str]] = {name: [] for name in parents}
    cut: set[str] = set()
    reached: set[str] = set()
    for name in parents:
        visited: set[str] = set()
        at: str | None = name
        while at is not None and at not in reached:
            reached.add(at)
            visited.add(at)
            at = parents[at]
        if at is not None and at in visited:
            cut.add(at)  # it is its own ancestor
    roots: list[str] = []
    for name, parent in parents.items():
        if parent is None or name in cut:
            roots.append(name)
        else:
            children[parent].append(name)
    for names in (roots, *children.values()):
        names.sort(key=lambda name: name not in path)
    return roots, children


def _turn(chain: _Chain, parent: str | None, session_id: str) -> ImportedTurn:
    links: list[_Chain] = []
    link: _Chain | None = chain
    while link is not None:
        links.append(link)
        link = link.before
    links.reverse()
    first = links[0].message
    replies = links if first.said is None else links[1:]
    rounds, answer = _split_off_answer(_pair_calls_with_results([each.message.reply for each in replies]))
    question = first.said
    if question is None:  # the conversation begins with a reply
        question = answer or Message(role="assistant", blocks=(TextBlock(text=""),))
        answer = None
    times = [each.message.created_at for each in links if each.message.created_at is not None]
    models = [each.message.model for each in links if each.message.model]
    return ImportedTurn(
        id=turn_id_of(session_id, chain.message.id),
        parent=parent,
        message=question,
        answer=answer,
        rounds=rounds,
        created_at=min(times, default=None),
        model=models[-1] if models else "",
        messages=tuple(_original_message(each, question) for each in links),
    )


def _original_message(link: _Chain, question: Message) -> ImportedMessage:
    """Return a message as its origin is stored; a reply has only the content that it adds to the turn."""
    each = link.message
    items = _pair_calls_with_results([each.reply])
    said = each.said or Message(role="assistant", blocks=blocks_of(items) or question.blocks)
    return ImportedMessage(
        message=said,
        place=link.place,
        external_id=each.id,
        created_at=each.created_at,
        model=each.model,
        details=each.details,
    )


def _pair_calls_with_results(replies: Sequence[Sequence[ReplyItem]]) -> list[TranscriptItem]:
    """Return all items in order, with a call before each tool result and a result for each call."""
    made: list[TranscriptItem] = []
    pending: dict[str, ToolCallItem] = {}
    number = 0
    for reply in replies:
        for item in reply:
            if isinstance(item, ToolOutput):
                call_id = _matching_call(item, pending)
                if call_id is None:
                    number += 1
                    call = ToolCallItem(call_id=item.call_id or f"import_{number}", name=item.name, arguments={})
                    made.append(call)
                    call_id = call.call_id
                pending.pop(call_id, None)
                made.append(_output(call_id, item))
                continue
            if pending and made and isinstance(made[-1], ToolOutputItem):  # the next step begins
                made.extend(ToolOutputItem(call_id=left, output=NO_RESULT, is_error=True) for left in pending)
                pending.clear()
            if isinstance(item, ToolCallItem):
                number += 1
                if item.call_id in pending or not item.call_id:
                    item = replace(item, call_id=f"import_{number}")
                pending[item.call_id] = item
            made.append(item)
    return made


def _matching_call(output: ToolOutput, pending: Mapping[str, ToolCallItem]) -> str | None:
    """Return the pending call of a result: by id, else by name, else the oldest."""
    if output.call_id is not None:
        return output.call_id if output.call_id in pending else None
    named = (call_id for call_id, call in pending.items() if call.name == output.name)
    return next(named, next(iter(pending), None))


def _output(call_id: str, output: ToolOutput) -> ToolOutputItem:
    return ToolOutputItem(call_id=call_id, output=msgspec.to_builtins(output.blocks), is_error=output.is_error)


def _split_off_answer(items: Sequence[TranscriptItem]) -> tuple[tuple[TranscriptItem, ...], Message | None]:
    """Split a reply into the rounds up to the last tool result, and the answer after it."""
    last = max((at for at, item in enumerate(items) if isinstance(item, ToolOutputItem)), default=-1)
    blocks: list[ContentBlock] = []
    for item in items[last + 1 :]:
        if isinstance(item, AssistantItem) and blocks and isinstance(blocks[-1], TextBlock):
            blocks.append(TextBlock(text=PARAGRAPH))
        blocks.extend(blocks_of((item,)))
    rounds = _with_missing_results(items[: last + 1])
    return rounds, Message(role="assistant", blocks=tuple(blocks)) if blocks else None


def _with_missing_results(items: Sequence[TranscriptItem]) -> tuple[TranscriptItem, ...]:
    """Append a constant result for each call that has none."""
    waiting = dict.fromkeys(item.call_id for item in items if isinstance(item, ToolCallItem))
    for item in items:
        if isinstance(item, ToolOutputItem):
            waiting.pop(item.call_id, None)
    return (*items, *(ToolOutputItem(call_id=left, output=NO_RESULT, is_error=True) for left in waiting))
