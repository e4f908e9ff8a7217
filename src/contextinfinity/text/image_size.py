"""Read the type and the size of an image from its first bytes.

PNG, JPEG, GIF and WebP have it near the start. The bytes are untrusted: the result is always a width and a height, or
None. Nothing is decoded.
"""

from __future__ import annotations

Size = tuple[int, int]

_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers that start a frame and contain its size; the three excluded ones have other meanings."""
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
"""The markers without a length field."""


_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def media_type_of(data: bytes) -> str | None:
    """Return the media type of an image by its first bytes; None: it is none that models take."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begins, kind in _SIGNATURES if data.startswith(begins)), None)


def size_of(data: bytes) -> Size | None:
    """Return width and height in pixels, or None if they cannot be determined."""
    size = _size(data)
    return size if size and min(size) > 0 else None


def _size(data: bytes) -> Size | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _big_endian(data, 16, 4) if data[12:16] == b"IHDR" else None
    if data.startswith((b"GIF87a", b"GIF89a")):
        return _little_endian(data, 6, 2)
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp(data)
    return None


def _big_endian(data: bytes, at: int, width: int) -> Size | None:
    if len(data) < at + 2 * width:
        return None
    return int.from_bytes(data[at : at + width], "big"), int.from_bytes(data[at + width : at + 2 * width], "big")


def _little_endian(data: bytes, at: int, width: int) -> Size | None:
    if len(data) < at + 2 * width:
        return None
    return int.from_bytes(data[at : at + width], "little"), int.from_bytes(data[at + width : at + 2 * width], "little")


def _jpeg(data: bytes) -> Size | None:
    """Walk through the markers to the first frame; its height comes before its width."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            size = _big_endian(data, at + 5, 2)
            return (size[1], size[0]) if size else None
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _webp(data: bytes) -> Size | None:
    """Parse one of the three headers: lossy, lossless, extended."""
    kind = data[12:16]
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        size = _little_endian(data, 26, 2)
        return (size[0] & 0x3FFF, size[1] & 0x3FFF) if size else None
    if kind == b"VP8L" and data[20:21] == b"\x2f" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        size = _little_endian(data, 24, 3)
        return (size[0] + 1, size[1] + 1) if size else None
    return None
