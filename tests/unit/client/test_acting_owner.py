"""A client that acts for one owner finds none of another's turns, whatever door uses it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from contextinfinity.client.local import LocalClient
from contextinfinity.domain.session import Owner
from contextinfinity.errors import NotFound
from tests.recovery.outages import engine_on


async def watch(client: LocalClient, turn_id: str) -> object:
    return [event async for event in client.conversations.watch(turn_id)]


USES: tuple[Callable[[LocalClient, str], Awaitable[object]], ...] = (
    watch,
    lambda client, turn_id: client.conversations.cancel(turn_id),
    lambda client, turn_id: client.conversations.turn(turn_id),
    lambda client, turn_id: client.conversations.context(turn_id),
    lambda client, turn_id: client.conversations.explain(turn_id),
)


@pytest.mark.req("API-14")
async def test_a_turn_is_found_for_its_owner_only(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        client, ann = LocalClient(engine), Owner(user_id="ann")
        hers = (await engine.ask("hers", "Hello", user_id="ann")).turn_id
        for use in USES:
            await use(client.acting_for(ann), hers)
            for stranger in (Owner(user_id="bob"), Owner(user_id="ann", org_id="acme")):
                with pytest.raises(NotFound):
                    await use(client.acting_for(stranger), hers)
