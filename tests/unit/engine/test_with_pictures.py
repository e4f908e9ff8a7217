"""Pictures are named by their hash in a conversation; a provider gets their bytes."""

from __future__ import annotations

import base64
import hashlib

import pytest

from contextinfinity.domain.message import ImageBlock, Message, TextBlock, ToolResultBlock, blob_source, say
from contextinfinity.engine.image_content import with_pictures
from contextinfinity.storage.sqlite.store import SqliteStore

PNG, JPEG = b"\x89PNG\r\n\x1a\n a picture", b"\xff\xd8\xff another"


def picture(data: bytes, media_type: str = "image/png") -> ImageBlock:
    """A picture as a conversation names it."""
    return ImageBlock(media_type=media_type, source=blob_source(hashlib.sha256(data).hexdigest()))


def bytes_of(data: bytes, media_type: str = "image/png") -> ImageBlock:
    """The same as a provider gets it."""
    source = {"type": "base64", "data": base64.b64encode(data).decode()}
    return ImageBlock(media_type=media_type, source=source)


@pytest.mark.req("PROVIDER-3")
async def test_pictures_are_shown_wherever_they_stand(ledger: SqliteStore) -> None:
    await ledger.contents.keep_blob(PNG, "image/png")
    await ledger.contents.keep_blob(JPEG, "image/jpeg")
    elsewhere = ImageBlock(media_type="image/png", source={"type": "url", "url": "https://example.org/a.png"})

    def conversation(png: ImageBlock, jpeg: ImageBlock) -> tuple[Message, ...]:
        inner = ToolResultBlock(tool_use_id="c2", content=(TextBlock(text="inside"), png), is_error=True)
        return (
            say("user", "Hello."),
            Message(role="user", blocks=(TextBlock(text="What is this?"), png, jpeg, elsewhere, png)),
            Message(role="tool", blocks=(ToolResultBlock(tool_use_id="c1", content=(inner, jpeg)),)),
        )

    named = conversation(picture(PNG), picture(JPEG, "image/jpeg"))
    assert await with_pictures(ledger.contents, named) == conversation(bytes_of(PNG), bytes_of(JPEG, "image/jpeg"))


async def test_a_picture_that_is_gone_stays_a_hash(ledger: SqliteStore) -> None:
    await ledger.contents.keep_blob(PNG, "image/png")
    named = (Message(role="user", blocks=(picture(JPEG), picture(PNG))),)
    shown = await with_pictures(ledger.contents, named)
    assert shown == (Message(role="user", blocks=(picture(JPEG), bytes_of(PNG))),)


async def test_messages_without_pictures_are_left_alone(ledger: SqliteStore) -> None:
    plain = (say("user", "Hello."),)
    assert await with_pictures(ledger.contents, plain) is plain
    mixed = (say("user", "Hello."), Message(role="user", blocks=(picture(PNG),)))
    assert (await with_pictures(ledger.contents, mixed))[0] is mixed[0]
