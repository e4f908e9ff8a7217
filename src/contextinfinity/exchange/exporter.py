"""Export conversations: as Markdown for people, as messages for other programs, or complete in the format ``cix``.

Output: bytes, turn by turn, so that memory stays bounded. The list of conversations is read first; messages that are
sent during the export may or may not be included.

Markdown has a title, a heading for each turn with its number, and a heading for each branch; messages are unchanged.

As messages, each is one JSON object per line, which ``cix import`` and other programs read: ``{"thread_id", "id",
"role", "content", "created_at", "model"}``; content is a text, or parts in OpenAI's format. An imported message keeps
its original id and time. Images are data URIs.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from contextinfinity.domain.ids import BranchId, Position, SessionId
from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    TextBlock,
    ToolCallItem,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
    UnknownBlock,
    blob_of,
    blocks_of,
)
from contextinfinity.domain.session import Branch, Owner, Session
from contextinfinity.domain.transfer import UNANSWERED, Origin, Side
from contextinfinity.domain.turn import UNFINISHED, Turn
from contextinfinity.storage.contract import Store

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


async def turn_as_lines(store: Store, session: Session, turn: Turn, origins: Sequence[Origin]) -> list[bytes]:
    """Return the messages of a turn, one per line."""
    named: dict[Side, Origin] = {one.side: one for one in reversed(origins) if one.side == "user"}
    named |= {
        one.side: one for one in origins if one.side == "assistant"
    }  # of several replies, the last one is the answer
    lines: list[bytes] = []
    thread_id = session.external_id or session.id
    for number, (side, message) in enumerate(_messages(turn)):
        origin = named.get(side) if number == 0 or message is turn.answer else None
        record: dict[str, Json] = {
            "thread_id": thread_id,
            "id": (origin.external_id if origin else None) or f"{turn.id}-{number}",
            "role": message.role,
            **await _content(store, message),
            "created_at": _iso_time((origin.created_at if origin else None) or turn.created_at),
        }
        if message.role == "assistant" and turn.model:
            record["model"] = turn.model
        if origin is not None and isinstance(origin.details, dict):
            record = {**{key: value for key, value in origin.details.items() if key not in record}, **record}
        lines.append(msgspec.json.encode(record) + b"\n")
    return lines


def _messages(turn: Turn) -> Iterator[tuple[Side, Message]]:
    """Yield (side, message): the question, the tool rounds, the answer."""
    yield "user", turn.user_message
    said: list[TranscriptItem] = []
    for item in (*turn.rounds, None):
        if said and (item is None or isinstance(item, ToolOutputItem)):
            yield "assistant", Message(role="assistant", blocks=blocks_of(said))
            said = []
        if isinstance(item, ToolOutputItem):
            yield "user", Message(role="tool", blocks=blocks_of((item,)))
        elif item is not None:
            said.append(item)
    if turn.answer is not None:
        yield "assistant", turn.answer


async def _content(store: Store, message: Message) -> dict[str, Json]:
    """Return the fields with the content of a message."""
    calls = [_call(block) for block in message.blocks if isinstance(block, ToolUseBlock)]
    result = message.blocks[0] if len(message.blocks) == 1 else None
    if isinstance(result, ToolResultBlock) and message.role == "tool":
        return {"tool_call_id": result.tool_use_id, "content": await _parts(store, result.content)}
    said = tuple(block for block in message.blocks if not isinstance(block, ToolUseBlock))
    content = await _parts(store, said) if said or not calls else None
    return {"content": content, "tool_calls": calls} if calls else {"content": content}


async def _parts(store: Store, blocks: tuple[ContentBlock, ...]) -> Json:
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text
    return [await _part(store, block) for block in blocks]


async def _part(store: Store, block: ContentBlock) -> Json:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ImageBlock):
        sha256 = blob_of(block)
        kept = None if sha256 is None else await store.contents.blob(sha256)
        if kept is not None:
            return {
                "type": "image_url",
                "image_url": {"url": f"data:{kept[1]};base64,{base64.b64encode(kept[0]).decode()}"},
            }
        source = block.source if isinstance(block.source, dict) else {}
        return {"type": "image_url", "image_url": {"url": source.get("url", "")}}
    if isinstance(block, ToolResultBlock):
        return {
            "type": "tool_result",
            "tool_use_id": block.tool_use_id,
            "content": await _parts(store, block.content),
            "is_error": block.is_error,
        }
    if isinstance(block, UnknownBlock):
        is_part = isinstance(block.raw, dict) and isinstance(block.raw.get("type"), str)
        return block.raw if is_part else {"type": "unknown", "provider": block.provider, "raw": block.raw}
    return msgspec.to_builtins(block)


def _call(block: ToolUseBlock) -> Json:
    arguments = block.input if isinstance(block.input, str) else msgspec.json.encode(block.input).decode()
    return {"id": block.tool_use_id, "type": "function", "function": {"name": block.name, "arguments": arguments}}


def _iso_time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


ExportFormat: TypeAlias = Literal["cix", "markdown", "jsonl"]
MEDIA_TYPES: dict[ExportFormat, str] = {
    "cix": "application/x-ndjson",
    "markdown": "text/markdown; charset=utf-8",
    "jsonl": "application/x-ndjson",
}
SUFFIXES: dict[ExportFormat, str] = {"cix": ".cix.jsonl", "markdown": ".md", "jsonl": ".jsonl"}
PAGE = 200
_UNSAFE = re.compile(r"[^\w.-]+")


async def sessions_of(store: Store, owner: Owner, *, since: datetime | None = None) -> list[SessionId]:
    """Return the ids of all conversations of an owner, most recently used first; ``since``: used since then."""
    found: list[SessionId] = []
    after: Position | None = None
    while page := await store.sessions.list(owner, limit=1000, after=after):
        found += [session.id for session in page if since is None or session.updated_at >= since]
        after = page[-1].position
        if since is not None and page[-1].updated_at < since:
            break
    return found


async def export_sessions(
    store: Store, session_ids: Collection[SessionId], form: ExportFormat, *, owner: Owner | None = None
) -> AsyncIterator[bytes]:
    """Write conversations one after the other; with ``owner`` also the memories of that user (format ``cix``)."""
    if form == "cix":
        from contextinfinity.exchange.cix_format import write_cix

        async for piece in write_cix(store, session_ids, owner=owner):
            yield piece
        return
    for number, session_id in enumerate(session_ids):
        session = await store.sessions.get(session_id)
        if session is None:  # deleted since the list was read
            continue
        if form == "markdown" and number:
            yield b"\n---\n\n"
        async for piece in export_session(store, session, form):
            yield piece


async def export_session(store: Store, session: Session, form: Literal["markdown", "jsonl"]) -> AsyncIterator[bytes]:
    """Write one conversation: all branches as Markdown, or the active branch as messages."""
    if form == "jsonl":
        async for turns in _turns(store, session.active_branch, 1):
            yield b"".join([line async for line in _lines(store, session, turns)])
        return
    yield conversation_head(session).encode()
    branches = await store.branches.list(session.id)
    shown: set[str] = set()
    for branch in sorted(branches, key=lambda each: each.id != session.active_branch):
        is_active = branch.id == session.active_branch
        head = branch_head(branch)
        async for turns in _turns(store, branch.id, 1):
            new = [turn for turn in turns if turn.id not in shown]
            shown.update(turn.id for turn in new)
            if new and not is_active and head:
                yield head.encode()
                head = ""
            yield "".join(map(turn_as_markdown, new)).encode()


async def _lines(store: Store, session: Session, turns: Sequence[Turn]) -> AsyncIterator[bytes]:
    origins = await store.imports.origins([turn.id for turn in turns])
    for turn in turns:
        for line in await turn_as_lines(store, session, turn, origins.get(turn.id, ())):
            yield line


async def _turns(store: Store, branch_id: BranchId, first: int) -> AsyncIterator[tuple[Turn, ...]]:
    """Yield the turns of a branch and its ancestors, oldest first; they are read a page at a time."""
    branch = await store.branches.get(branch_id)
    last = 0 if branch is None else branch.last_turn_seq
    for begin in range(first, last + 1, PAGE):
        turns = await store.turns.history(branch_id, limit=PAGE, before=begin + PAGE)
        if page := tuple(turn for turn in turns if turn.turn_seq >= begin):
            yield page


def file_name(title: str, day: datetime, form: ExportFormat, taken: set[str]) -> str:
    """Return an unused file name for a conversation: its day and title."""
    words = _UNSAFE.sub("-", title[:60]).strip("-.") or "conversation"
    return _free_name(f"{day:%Y-%m-%d}-{words}", form, taken)


def user_file_name(owner: Owner, form: ExportFormat, taken: set[str]) -> str:
    """Return an unused file name for all conversations of a user."""
    words = _UNSAFE.sub("-", "-".join(filter(None, (owner.org_id, owner.user_id)))[:100]).strip("-.") or "user"
    return _free_name(words, form, taken)


def _free_name(stem: str, form: ExportFormat, taken: set[str]) -> str:
    name = next(name for name in _numbered(stem, SUFFIXES[form]) if name.lower() not in taken)
    taken.add(name.lower())
    return name


def _numbered(stem: str, suffix: str) -> Iterator[str]:
    yield f"{stem}{suffix}"
    number = 2
    while True:
        yield f"{stem}-{number}{suffix}"
        number += 1
