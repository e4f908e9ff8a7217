"""Conversations as resources: ``conversation://ID`` is the text of one, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from contextinfinity.client.contract import Client
from contextinfinity.client.references import cursor_of, position_of
from contextinfinity.client.results import ShownTurn
from contextinfinity.domain.message import Json
from contextinfinity.errors import InvalidInput
from contextinfinity.mcp_server.result_size import LARGEST, cut

SCHEME = "conversation://"
MARKDOWN = "text/markdown"
PAGE = 50
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
    threads = await client.threads.list(limit=PAGE + 1, after=None if cursor is None else position_of(cursor))
    page = threads[:PAGE]
    resources = [
        {
            "uri": SCHEME + thread.thread_id,
            "name": thread.about[:200] or thread.thread_id,
            "description": f"{thread.turns} turns, last used at {thread.updated_at.isoformat()}",
            "mimeType": MARKDOWN,
        }
        for thread in page
    ]
    return {"resources": resources} | ({"nextCursor": cursor_of(page[-1].position)} if len(threads) > PAGE else {})


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
