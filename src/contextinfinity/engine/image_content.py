"""Images are stored in the ledger under their hash and sent to providers as bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from hashlib import sha256 as hash_of
from typing import TypeAlias

from msgspec.structs import replace

from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Message,
    ToolResultBlock,
    blob_of,
    blob_source,
    blobs_of,
)
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.ledger.contents import Contents

_MAY_HOLD_IMAGES = frozenset((ImageBlock, ToolResultBlock))

Blobs: TypeAlias = dict[str, tuple[bytes, str]]
"""The bytes and media types of images, by hash."""


def named_by_hash(messages: Sequence[Message]) -> tuple[tuple[Message, ...], Blobs]:
    """Replace inline images by their hashes; return the messages and the bytes, which the caller must store.

    Raise ``InvalidInput`` for an image that is empty or not valid base64.
    """
    blobs: Blobs = {}
    if _MAY_HOLD_IMAGES.isdisjoint({type(block) for message in messages for block in message.blocks}):
        return tuple(messages), blobs  # fast path: thousands may be resent at once
    return tuple(replace(message, blocks=_named(message.blocks, blobs)) for message in messages), blobs


async def keep_pictures(contents: Contents, messages: Iterable[Message], blobs: Blobs) -> None:
    """Store the bytes of the images that the messages refer to."""
    for sha256 in {sha256 for message in messages for sha256 in blobs_of(message.blocks)} & blobs.keys():
        await contents.keep_blob(*blobs[sha256])


async def with_kept_pictures(contents: Contents, message: Message) -> Message:
    """Store the inline images of a message and replace them by their hashes."""
    (named,), blobs = named_by_hash((message,))
    await keep_pictures(contents, (named,), blobs)
    return named


async def with_pictures(contents: Contents, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Replace the hashes of images by their bytes; an image that was deleted stays a hash."""
    wanted = {sha256 for message in messages for sha256 in blobs_of(message.blocks)}
    if not wanted:
        return tuple(messages)
    found = {sha256: await contents.blob(sha256) for sha256 in wanted}
    sources = {
        sha256: {"type": "base64", "data": base64.b64encode(blob[0]).decode()}
        for sha256, blob in found.items()
        if blob is not None
    }
    return tuple(_shown(message, sources) for message in messages)


def _named(blocks: tuple[ContentBlock, ...], blobs: Blobs) -> tuple[ContentBlock, ...]:
    return tuple(_named_block(block, blobs) for block in blocks)


def _named_block(block: ContentBlock, blobs: Blobs) -> ContentBlock:
    if isinstance(block, ToolResultBlock):
        return replace(block, content=_named(block.content, blobs))
    if not (isinstance(block, ImageBlock) and isinstance(block.source, dict) and block.source.get("type") == "base64"):
        return block
    try:
        body = base64.b64decode(str(block.source.get("data")), validate=True)
    except binascii.Error:
        raise InvalidInput("A picture is not valid base64.") from None
    if not body:
        raise InvalidInput("A picture is empty.")
    sha256 = hash_of(body).hexdigest()
    blobs[sha256] = (body, block.media_type)
    return replace(block, source=blob_source(sha256))


def _shown(message: Message, sources: dict[str, dict[str, str]]) -> Message:
    return replace(message, blocks=_blocks(message.blocks, sources)) if blobs_of(message.blocks) else message


def _blocks(blocks: tuple[ContentBlock, ...], sources: dict[str, dict[str, str]]) -> tuple[ContentBlock, ...]:
    return tuple(_block(block, sources) for block in blocks)


def _block(block: ContentBlock, sources: dict[str, dict[str, str]]) -> ContentBlock:
    if isinstance(block, ToolResultBlock):
        return replace(block, content=_blocks(block.content, sources))
    if isinstance(block, ImageBlock) and (source := sources.get(blob_of(block) or "")) is not None:
        return replace(block, source=source)
    return block
