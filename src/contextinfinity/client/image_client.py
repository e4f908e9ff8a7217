"""Images that were sent with a message, as bytes."""

from __future__ import annotations

from contextinfinity.client.resource import ClientResource
from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import blobs_of
from contextinfinity.errors import NotFound


class ImageClient(ClientResource):
    """Reads the images of turns that the acting owner may see."""

    async def get(self, turn_id: TurnId, number: int) -> tuple[bytes, str]:
        """Return the bytes and the media type of image ``number`` (from 1) of a turn; ``NotFound`` without one."""
        names = blobs_of((await self._turn(turn_id)).user_message.blocks)
        found = await self._store.contents.blob(names[number - 1]) if 0 < number <= len(names) else None
        if found is None:
            raise NotFound(f"Turn {turn_id} has no image {number}.", hint=f"It has {len(names)}.")
        return found
