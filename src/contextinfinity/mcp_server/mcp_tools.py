"""The tools and resources of assistants: functions over a client, with the JSON schema of their arguments.

A tool returns plain JSON. What it cannot do it says with an error of ours, which the assistant reads.

The resource ``conversation://ID`` is the text of a conversation, in Markdown. Results are kept small enough for the
context window of the assistant that reads them: a result of more than ``LARGEST`` bytes has its long texts cut, all at
the same length, and lists of more than ``MOST`` entries keep the newest. What was cut says how long it was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from contextinfinity.client.contract import Client, TurnTarget
from contextinfinity.client.cursors import cursor_of, position_of
from contextinfinity.client.results import ShownTurn
from contextinfinity.domain.message import Json
from contextinfinity.errors import InvalidInput

LARGEST = 60_000
"""Bytes of JSON: about 15,000 tokens of English."""
MOST = 50
"""Entries of a list."""
LONGEST_TEXT = 4_000
_SHORTEST_TEXT, _FEWEST = 125, 2


def bounded(result: Json, largest: int = LARGEST) -> Json:
    """Return a result with texts and lists cut as far as needed for it to have at most ``largest`` bytes."""
    length, entries, shown = LONGEST_TEXT, MOST, result
    while len(msgspec.json.encode(shown)) > largest and entries >= _FEWEST:
        shown = _cut(result, length, entries)
        length, entries = (length // 2, entries) if length > _SHORTEST_TEXT else (length, entries // 2)
    return shown


def cut(text: str, length: int = LONGEST_TEXT) -> str:
    """Cut a text, and say how long it was."""
    return text if len(text) <= length else f"{text[:length]} [cut at character {length:,} of {len(text):,}]"


def _cut(value: Json, length: int, entries: int) -> Json:
    if isinstance(value, str):
        return cut(value, length)
    if isinstance(value, dict):
        shown = {cut(name, length): _cut(each, length, entries) for name, each in [*value.items()][:MOST]}
        return shown | ({"…": f"[{len(value) - MOST:,} more entries left out]"} if len(value) > MOST else {})
    if isinstance(value, list):
        left_out = [f"[{len(value) - entries:,} earlier entries left out]"] if len(value) > entries else []
        return [*left_out, *(_cut(each, length, entries) for each in value[-entries:])]
    return value


PAGE = 5_000
"""Characters of each message that one call of ``recall_turn`` shows."""
CALLS = 10_000
"""Bytes of a turn's tool calls that it shows."""
LAST_OFFSET = 2**31

Run: TypeAlias = Callable[[Client, "Arguments"], Awaitable[Json]]


class Arguments:
    """The arguments of a call; ``InvalidInput`` for one that is of the wrong type."""

    def __init__(self, given: dict[str, Json]) -> None:
        self._given = given

    def text(self, name: str) -> str:
        """Return a text that has to be there."""
        value = self.optional_text(name)
        if value is None:
            raise InvalidInput(f"{name} is missing.", hint=f"Send {name} as a string.")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, str):
            raise InvalidInput(f"{name} must be a string.")
        return value

    def number(self, name: str, default: int, *, least: int = 1, most: int = MOST) -> int:
        """Return an integer from ``least`` to ``most``."""
        value = self._given.get(name, default)
        if type(value) is not int or not least <= value <= most:
            raise InvalidInput(f"{name} must be an integer from {least} to {most}.")
        return value


class McpTool(Struct, frozen=True, kw_only=True):
    """A tool as it is listed, and what runs it."""

    name: str
    description: str
    properties: dict[str, Json]
    required: tuple[str, ...] = ()
    changes: bool = False
    run: Run

    def listed(self) -> Json:
        """Write it as a list of tools shows it."""
        return {
            "name": self.name,
            "title": self.name.replace("_", " ").capitalize(),
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": self.properties,
                "required": list(self.required),
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": not self.changes, "openWorldHint": False},
        }


def plain(value: object) -> Json:
    """Turn one of our values into JSON."""
    return msgspec.json.decode(msgspec.json.encode(value))


async def _search(client: Client, given: Arguments) -> Json:
    where: TurnTarget = {"thread_id": given.optional_text("thread_id"), "limit": given.number("limit", 10)}
    return plain(await client.past.search(given.text("query"), **where))


async def _recall_turn(client: Client, given: Arguments) -> Json:
    """Return a page of both messages; ``next_offset`` is where the next one begins, if there is more."""
    turn = plain(await client.conversations.turn(given.text("turn_id")))
    offset = given.number("offset", 0, least=0, most=LAST_OFFSET)
    end = offset + PAGE
    more = {"next_offset": end} if max(len(turn["user"]), len(turn["assistant"])) > end else {}
    pages = {name: turn[name][offset:end] for name in ("user", "assistant")}
    del turn["text"]
    return {**turn, **pages, "calls": bounded(turn["calls"], CALLS), **more}


async def _list_conversations(client: Client, given: Arguments) -> Json:
    threads = await client.threads.list(limit=given.number("limit", 20))
    shown = []
    for thread in threads:
        texts = {name: cut(text, 200) for name, text in (("opening", thread.opening), ("said", thread.said))}
        shown.append({**plain(thread), **texts, "title": cut(thread.about, 200)})
    return {"conversations": shown}


async def _read_conversation(client: Client, given: Arguments) -> Json:
    shown = plain(await client.conversations.show(given.text("thread_id"), limit=given.number("limit", 20)))
    for turn in shown["turns"]:
        turn["user"], turn["assistant"] = cut(turn["user"]), cut(turn["assistant"])
        del turn["text"]
    return shown


async def _pin(client: Client, given: Arguments) -> Json:
    return plain(await client.pins.add(given.text("thread_id"), given.text("fact")))


async def _remember(client: Client, given: Arguments) -> Json:
    thread_id = given.optional_text("thread_id")
    tags = () if thread_id is None else (f"thread:{thread_id}",)
    return plain(await client.memories.add(given.text("content"), tags=tags))


async def _list_memories(client: Client, given: Arguments) -> Json:
    found = await client.memories.list(q=given.optional_text("query"), limit=given.number("limit", 20))
    return {"memories": plain(found)}


async def _forget(client: Client, given: Arguments) -> Json:
    memory_id = given.text("memory_id")
    await client.memories.forget(memory_id)
    return {"id": memory_id, "forgotten": True}


async def _context_of_turn(client: Client, given: Arguments) -> Json:
    explained = await client.conversations.explain(given.text("turn_id"))
    kept = ("thread_id", "branch_id", "turn_id", "step_index", "provider", "model", "usage", "system", "messages")
    values: dict[str, Json] = plain(explained)
    shown = {name: values[name] for name in kept}
    return {**shown, "plan": values["plan"], "matches": values["matches"], "removed": values["removed"]}


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


def _limit(default: int) -> Json:
    return {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST,
        "default": default,
        "description": "The maximum number of results.",
    }


_OFFSET: Json = {
    "type": "integer",
    "minimum": 0,
    "default": 0,
    "description": "The first character to read: the next_offset of the page before.",
}
_THREAD = _text("The id of a conversation.")
_TURN = _text("The id of a turn, as search and recall return it.")

TOOLS = {
    tool.name: tool
    for tool in (
        McpTool(
            name="search",
            description="Search all earlier conversations, by keywords and by meaning.",
            properties={"query": _text("Words or a question."), "thread_id": _THREAD, "limit": _limit(10)},
            required=("query",),
            run=_search,
        ),
        McpTool(
            name="recall_turn",
            description="Read one turn verbatim: the user's message and the answer. Long ones come in pages.",
            properties={"turn_id": _TURN, "offset": _OFFSET},
            required=("turn_id",),
            run=_recall_turn,
        ),
        McpTool(
            name="list_conversations",
            description="List conversations, the most recently used first.",
            properties={"limit": _limit(20)},
            run=_list_conversations,
        ),
        McpTool(
            name="read_conversation",
            description="Read the newest turns of a conversation, the oldest of them first.",
            properties={"thread_id": _THREAD, "limit": _limit(20)},
            required=("thread_id",),
            run=_read_conversation,
        ),
        McpTool(
            name="pin",
            description="Pin a fact to a conversation: every later prompt of it contains the fact verbatim.",
            properties={"thread_id": _THREAD, "fact": _text("One sentence.")},
            required=("thread_id", "fact"),
            changes=True,
            run=_pin,
        ),
        McpTool(
            name="remember",
            description="Remember a fact about the user across conversations, or in one conversation only.",
            properties={"content": _text("One fact in one sentence."), "thread_id": _THREAD},
            required=("content",),
            changes=True,
            run=_remember,
        ),
        McpTool(
            name="list_memories",
            description="List the memories about the user; with a query, the relevant ones.",
            properties={"query": _text("Words or a question."), "limit": _limit(20)},
            run=_list_memories,
        ),
        McpTool(
            name="forget",
            description="Delete a memory permanently.",
            properties={"memory_id": _text("The id of a memory.")},
            required=("memory_id",),
            changes=True,
            run=_forget,
        ),
        McpTool(
            name="context_of_turn",
            description="Show what the model saw when it answered a turn, and why. Long texts are cut.",
            properties={"turn_id": _TURN},
            required=("turn_id",),
            run=_context_of_turn,
        ),
    )
}


SCHEME = "conversation://"
MARKDOWN = "text/markdown"
LISTED_AT_ONCE = 50
MOST_TURNS = 200
TEMPLATES: list[Json] = [
    {
        "uriTemplate": SCHEME + "{thread_id}",
        "name": "conversation",
        "description": "The newest turns of a conversation, in Markdown.",
        "mimeType": MARKDOWN,
    }
]


async def listed(client: Client, cursor: str | None) -> Json:
    """List conversations as resources, a page at a time."""
    threads = await client.threads.list(limit=LISTED_AT_ONCE + 1, after=None if cursor is None else position_of(cursor))
    page = threads[:LISTED_AT_ONCE]
    resources = [
        {
            "uri": SCHEME + thread.thread_id,
            "name": thread.about[:200] or thread.thread_id,
            "description": f"{thread.turns} turns, last used at {thread.updated_at.isoformat()}",
            "mimeType": MARKDOWN,
        }
        for thread in page
    ]
    return {"resources": resources} | (
        {"nextCursor": cursor_of(page[-1].position)} if len(threads) > LISTED_AT_ONCE else {}
    )


async def read(client: Client, uri: str) -> Json:
    """Read a conversation; ``NotFound`` if there is none, ``InvalidInput`` for an address of another kind."""
    if not uri.startswith(SCHEME):
        raise InvalidInput(f"{uri[:80]!r} is not the URI of a conversation.", hint=f"It begins with {SCHEME}.")
    shown = await client.conversations.show(uri.removeprefix(SCHEME), limit=MOST_TURNS)
    return {"contents": [{"uri": uri, "mimeType": MARKDOWN, "text": _written(shown.turns)}]}


def _written(turns: Sequence[ShownTurn]) -> str:
    """Write the newest turns that fit ``LARGEST`` bytes, oldest first."""
    written = list[str]()
    size = 0
    for turn in reversed(turns):
        who = f"**user** ({turn.created_at.isoformat()}, turn {turn.turn_id})"
        text = f"{who}:\n{cut(turn.user)}\n\n**assistant**:\n{cut(turn.text)}"
        size += len(text.encode())
        if size > LARGEST:
            written.append("Earlier turns are left out; the tools search and read_conversation find them.")
            break
        written.append(text)
    return "\n\n".join(reversed(written))
