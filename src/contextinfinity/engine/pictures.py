"""Pictures are kept in the ledger under their hash; a provider needs their bytes."""

from __future__ import annotations

import base64

from msgspec.structs import replace

from contextinfinity.domain.message import ContentBlock, ImageBlock, Message, ToolResultBlock, blob_of, blobs_of
from contextinfinity.domain.prompt import Prompt
from contextinfinity.storage.contract import Contents


async def with_pictures(contents: Contents, prompt: Prompt) -> Prompt:
    """Put the bytes of pictures in the place of their hashes; one that is gone stays a hash."""
    wanted = {sha256 for message in prompt.messages for sha256 in blobs_of(message.blocks)}
    if not wanted:
        return prompt
    found = {sha256: await contents.blob(sha256) for sha256 in wanted}
    sources = {
        sha256: {"type": "base64", "data": base64.b64encode(blob[0]).decode()}
        for sha256, blob in found.items()
        if blob is not None
    }
    return replace(prompt, messages=tuple(_shown(message, sources) for message in prompt.messages))


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
