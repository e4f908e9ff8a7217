"""Fields of foreign JSON, and images in it.

An export may hold anything in any place: ``text``, ``mapping`` and ``items`` return the value where it has that type
and an empty one elsewhere, so that a reader states only what it looks for.
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from contextinfinity.domain.message import ContentBlock, ImageBlock, Json, UnknownBlock, blob_source
from contextinfinity.exchange.conversation_tree import Blobs

LARGEST_IMAGE = 32 << 20
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Assets(Protocol):
    """Files that an export brings beside its conversations."""

    def find(self, name: str) -> bytes | None:
        """Return the file whose name begins with that id; None: there is none, or it is too large."""
        ...


def text(record: Mapping[str, Json], *names: str) -> str:
    """Return the first of these fields that is a non-empty text."""
    return next((value for name in names if isinstance(value := record.get(name), str) and value), "")


def mapping(record: Mapping[str, Json], name: str) -> dict[str, Any]:
    """Return a field that is an object."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def items(record: Mapping[str, Json], name: str) -> list[Any]:
    """Return a field that is a list."""
    value = record.get(name)
    return value if isinstance(value, list) else []


def without(record: Mapping[str, Json], *names: str) -> Json:
    """Return the fields of a record that are not named and hold something; None: there are none."""
    return {
        name: value for name, value in record.items() if name not in names and value not in (None, "", [], {})
    } or None


def image(data: bytes, blobs: Blobs, again: Callable[[], bytes] | None = None) -> ImageBlock | None:
    """Keep the bytes of an image and return its block; None: they are no image that models take.

    ``again`` reads them a second time, so that they need not be held until then.
    """
    media_type = next((kind for begins, kind in _SIGNATURES if data.startswith(begins)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        media_type = "image/webp"
    if not media_type or len(data) > LARGEST_IMAGE:
        return None
    sha256 = hashlib.sha256(data).hexdigest()
    blobs[sha256] = (again or data, media_type)
    return ImageBlock(media_type=media_type, source=blob_source(sha256))


def image_at(url: str, raw: Json, provider: str, blobs: Blobs) -> ContentBlock:
    """Return the image of a data URI or of an address; anything else is kept as it is."""
    if url.startswith(("https://", "http://")):
        return ImageBlock(media_type="", source={"type": "url", "url": url})
    head, comma, body = url.partition(",")
    if comma and head.startswith("data:image/") and head.endswith(";base64"):
        try:
            made = image(binascii.a2b_base64(body, strict_mode=True), blobs)
        except ValueError:
            made = None
        if made is not None:
            return made
    return UnknownBlock(provider=provider, raw=raw)
