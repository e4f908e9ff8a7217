"""Resolve references to items: read the items from the turns that contain them."""

from __future__ import annotations

from contextinfinity.client.drop_in import echo_of
from contextinfinity.client.local import LocalClient
from contextinfinity.dialects.openai_responses import writing
from contextinfinity.dialects.openai_responses.items import Item, ToolNames, place_of
from contextinfinity.dialects.openai_responses.reading import LAYOUT
from contextinfinity.domain.message import Json
from contextinfinity.domain.turn import UNFINISHED, Turn
from contextinfinity.errors import NotFound
from contextinfinity.server.v1.response_mapping import partly

ITEMS = "items"
"""The metadata field of a turn recorded from items: how its message is divided into items."""


async def with_items(client: LocalClient, given: Json) -> Json:
    """Replace references in the input of a request by the items; raise ``NotFound`` for items of other owners.

    Reasoning without content is a reference, too. Items with ids of other servers are not changed.
    """
    if not isinstance(given, list):
        return given
    known: dict[str, dict[str, Item]] = {}
    return [await _resolved(client, item, known) if _refers(item) else item for item in given]


def _refers(item: Json) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        return False
    is_bare = item.get("type") == "reasoning" and item.get("encrypted_content") is None
    return (is_bare or item.get("type") == "item_reference") and place_of(item["id"]) is not None


async def _resolved(client: LocalClient, item: Item, known: dict[str, dict[str, Item]]) -> Item:
    place = place_of(item["id"])
    assert place is not None  # noqa: S101 - see ``_refers``
    try:
        if place[0] not in known:
            items = await items_of(client, await client.responses.turn(place[0]), encrypted=True)
            known[place[0]] = {each["id"]: each for each in items}
        return known[place[0]][item["id"]]
    except (NotFound, KeyError):
        if item["type"] == "reasoning":
            return item
        raise NotFound(f"input: Item with id {item['id'][:80]!r} not found.", hint="Send the item itself.") from None


async def items_of(client: LocalClient, turn: Turn, *, encrypted: bool = False) -> list[Item]:
    """Return all items of a turn: its input and its output."""
    echo = echo_of(turn) or {}
    noted = turn.metadata.get(ITEMS) if isinstance(turn.metadata, dict) else None
    asked = writing.input_items(turn.id, turn.user_message, echo.get(LAYOUT, noted))
    if turn.answer is None or turn.phase in UNFINISHED:
        return asked
    shown = writing.ResponseView(echo=echo, tools=ToolNames(echo.get("tools", ())), encrypted=encrypted)
    answered = await client.drop_in.answered(turn.id, reasoning=bool(turn.provider))
    return asked + writing.output_items(partly(answered, turn.model), shown)
