"""Files in messages, such as PDFs, in the JSON of any vendor.

A file is stored as the block that the client sent (``UnknownBlock``). ``document_of`` reads the vendors' forms, so that
a file can be counted, and be written in the form of another vendor.
"""

from __future__ import annotations

import binascii
import re
import zlib

from msgspec import Struct

from contextinfinity.domain.message import Json

PDF = "application/pdf"
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml")
BYTES_PER_PAGE = 50_000
"""Used where the pages of a file cannot be counted."""
UNKNOWN_PAGES = 10
"""Assumed for a file whose bytes are elsewhere."""
MOST_INFLATED = 4_000_000
"""The maximum number of bytes that are decompressed to count pages."""

_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_OBJECT_STREAM = re.compile(rb"/ObjStm[^>]*>>\s*stream\r?\n")


class Document(Struct, frozen=True, kw_only=True):
    """A file: its bytes in base64, or its URL; neither if it is stored at a vendor."""

    media_type: str
    data: str = ""
    url: str = ""
    name: str = ""

    @property
    def text(self) -> str | None:
        """The text of a file that holds plain text, else None."""
        if not self.data or not self.media_type.startswith(TEXT_TYPES):
            return None
        try:
            return binascii.a2b_base64(self.data).decode()
        except ValueError:
            return None

    def pages(self) -> int:
        """Count the pages; without bytes or page objects, estimate them."""
        try:
            content = binascii.a2b_base64(self.data)
        except ValueError:
            content = b""
        if not content:
            return UNKNOWN_PAGES
        found = _pages_of_pdf(content) if self.media_type == PDF else 0
        return found or -(-len(content) // BYTES_PER_PAGE)


def document_of(raw: Json) -> Document | None:
    """Read a file from a part of a message: OpenAI's ``file`` and ``input_file``, Anthropic's ``document``."""
    part = raw if isinstance(raw, dict) else {}
    match part.get("type"):
        case "file":
            return _openai_file(_object(part.get("file")))
        case "input_file":
            return _openai_file(part)
        case "document":
            source = _object(part.get("source"))
            media_type, data = _text(source.get("media_type")) or PDF, _text(source.get("data"))
            return Document(
                media_type=media_type, data=data, url=_text(source.get("url")), name=_text(part.get("title"))
            )
    return None


def _openai_file(file: dict[str, Json]) -> Document:
    """Read a file whose bytes are a data URL, or base64 alone as older clients send them."""
    name, data, media_type = _text(file.get("filename")), _text(file.get("file_data")), PDF
    if data.startswith("data:"):
        head, _, data = data.partition(",")
        media_type = head.removeprefix("data:").partition(";")[0] or PDF
    return Document(media_type=media_type, data=data, url=_text(file.get("file_url")), name=name)


def _pages_of_pdf(content: bytes) -> int:
    """Count page objects; newer PDFs keep them in compressed streams."""
    found = len(_PAGE.findall(content))
    left = MOST_INFLATED
    for stream in _OBJECT_STREAM.finditer(content):
        if left <= 0:
            break
        try:
            inflated = zlib.decompressobj().decompress(memoryview(content)[stream.end() :], left)
        except zlib.error:
            continue
        found += len(_PAGE.findall(inflated))
        left -= len(inflated)
    return found


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
