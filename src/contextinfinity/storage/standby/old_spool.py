"""Reads a spool of the first release: binary frames, each a length, a CRC-32 and one tagged record as JSON."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import msgspec

_FRAME = struct.Struct("<II")


def lines(data: bytes) -> Iterator[bytes]:
    """Return its records as lines of the present form, up to the first that is torn; a damaged one as an empty line."""
    place = 0
    while place + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, place)
        record = data[place + _FRAME.size : place + _FRAME.size + length]
        place += _FRAME.size + length
        if not 0 < length == len(record):
            return
        yield _line(msgspec.json.decode(record)) if crc32(record) == checksum else b""


def _line(form: dict[str, Any]) -> bytes:
    body = form["is"]
    kind = body.pop("type")
    if kind in ("session", "text"):
        body = body["new" if kind == "session" else "body"]
    elif kind != "exchange":
        turn_id = body.pop("turn_id", None) or body["new"]["id"]
        body = {"turn_id": turn_id, **body} if kind != "step" else {"turn_id": turn_id, "steps": [body["step"]]}
        kind = "turn"
    return msgspec.json.encode({"event_type": kind, "payload": {**form, "is": body}})
