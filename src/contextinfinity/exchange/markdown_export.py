"""Write a conversation as Markdown: a title, a heading for each turn with its number, and a heading for each branch.

Messages are written unchanged.
"""

from __future__ import annotations

import json
from datetime import datetime

from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolCallItem,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    blob_of,
    blocks_of,
)
from contextinfinity.domain.session import Branch, Session
from contextinfinity.domain.transfer import UNANSWERED
from contextinfinity.domain.turn import UNFINISHED, Turn

_ROLES = {"user": "You", "assistant": "Assistant", "system": "System", "tool": "Tool"}


def conversation_head(session: Session) -> str:
    """Return the title and the metadata of a conversation."""
    facts = [f"Conversation {session.external_id or session.id}", f"begun {_moment(session.created_at)}"]
    head = f"# {_one_line(session.title or 'Conversation')}\n\n{' · '.join(facts)}\n\n"
    return head + (f"**System**\n\n{session.system}\n\n" if session.system else "")


def branch_head(branch: Branch) -> str:
    """Return the heading of the turns that belong to one branch only."""
    name = _one_line(branch.label or branch.id)
    where = f"leaves the conversation after turn {branch.fork_seq}" if branch.fork_seq else "begins on its own"
    return f"## Branch {name}, which {where}\n\n"


def turn_as_markdown(turn: Turn) -> str:
    """Return a turn: the message, tool calls with results, the answer."""
    facts = [f"### {turn.turn_seq}", _moment(turn.created_at), turn.model]
    parts = [" · ".join(filter(None, facts)), _message(turn.user_message)]
    parts += [part for item in turn.rounds if (part := _round(item))]
    if turn.answer is not None:
        parts.append(_message(turn.answer))
    if (error := UNANSWERED if turn.phase in UNFINISHED else turn.error) is not None:
        parts.append(f"*{_one_line(error.message)}*")
    return "\n\n".join(parts) + "\n\n"


def _message(message: Message) -> str:
    return f"**{_ROLES[message.role]}**\n\n{_blocks(message.blocks)}"


def _round(item: object) -> str:
    if isinstance(item, AssistantItem):
        return f"**Assistant**\n\n{_blocks(item.blocks)}"
    if isinstance(item, ToolCallItem):
        return f"**Tool call** `{item.name}`\n\n{_fenced(json.dumps(item.arguments, ensure_ascii=False))}"
    if isinstance(item, ToolOutputItem):
        (result,) = blocks_of((item,))
        assert isinstance(result, ToolResultBlock)  # noqa: S101 - what an output becomes
        return f"**Tool result**\n\n{_fenced(_blocks(result.content))}"
    return ""


def _blocks(blocks: tuple[ContentBlock, ...]) -> str:
    written: list[str] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            written.append(block.text)
        elif isinstance(block, ImageBlock):
            address = block.source.get("url") if isinstance(block.source, dict) else None
            written.append(f"\n![image]({address or blob_of(block) or ''})\n")
        elif isinstance(block, ToolUseBlock):
            written.append(
                f"\n\n**Tool call** `{block.name}`\n\n{_fenced(json.dumps(block.input, ensure_ascii=False))}"
            )
        elif isinstance(block, ToolResultBlock):
            written.append(f"\n\n**Tool result**\n\n{_fenced(_blocks(block.content))}")
    return "".join(written)


def _fenced(text: str) -> str:
    """Fence a text with a fence that is longer than any inside it."""
    longest = max((len(run) for run in text.split("\n") if set(run) == {"`"}), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
