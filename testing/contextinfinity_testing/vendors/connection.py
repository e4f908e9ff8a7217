"""A minimal HTTP/1.1 server connection on a pair of streams, with ways to misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from http import HTTPStatus

import msgspec

from contextinfinity_testing.vendors.answers import Delivery
from contextinfinity_testing.vendors.wire import Frame, Request

Headers = tuple[tuple[str, str], ...]


class Cut(ConnectionError):
    """The script ends the connection here."""


class Connection:
    """One client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> Request | None:
        """Return the next request; None when the client has disconnected."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name
        }
        raw = await self._body(headers)
        return Request(method=method, path=path, headers=headers, raw=raw, body=_json(raw))

    async def whole(self, status: int, headers: Headers, body: bytes, how: Delivery | None = None) -> None:
        """Answer in one piece."""
        how = how or Delivery()
        if how.gate is not None:
            await how.gate.wait()
        self._head(status, (*headers, ("content-length", str(len(body)))))
        shown = body if how.cut_after_bytes is None else body[: how.cut_after_bytes]
        for piece in _pieces(shown, how):
            await self._send(piece)
        if len(shown) < len(body) or how.cut_after_pieces is not None:
            self.cut()

    async def stream(self, headers: Headers, frames: Iterable[Frame], how: Delivery) -> None:
        """Answer with a stream of events."""
        self._head(200, (*headers, ("transfer-encoding", "chunked")))
        sent = pieces = 0
        for frame in frames:
            if frame.piece and how.gate is not None and pieces == how.hold_after:
                await how.gate.wait()
            if frame.piece and pieces == how.cut_after_pieces:
                break
            room = None if how.cut_after_bytes is None else how.cut_after_bytes - sent
            for piece in _pieces(frame.data[:room], how):
                await self._send(b"%x\r\n%b\r\n" % (len(piece), piece))
            sent += len(frame.data)
            pieces += frame.piece
            if how.cut_after_bytes is not None and sent >= how.cut_after_bytes:
                break
        else:
            await self._send(b"0\r\n\r\n")
            return
        if not how.tidy:
            self.cut()
        await self._send(b"0\r\n\r\n")

    def cut(self) -> None:
        """Close the connection: written data still arrives, and nothing after it."""
        raise Cut

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length", "0")))
        body = b""
        while size := int((await self._reader.readuntil(b"\r\n")).strip(), 16):
            body += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readuntil(b"\r\n")
        return body

    def _head(self, status: int, headers: Headers) -> None:
        try:
            reason = HTTPStatus(status).phrase
        except ValueError:
            reason = "Unknown"
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())

    async def _send(self, data: bytes) -> None:
        """Write, and let the client read before the next write."""
        self._writer.write(data)
        await self._writer.drain()
        await asyncio.sleep(0)


def _pieces(data: bytes, how: Delivery) -> Iterator[bytes]:
    """Split bytes as the script says; without a script they are sent unchanged."""
    if how.slow:
        yield from (data[i : i + 1] for i in range(len(data)))
        return
    start = 0
    if how.split:
        for i in range(1, len(data)):
            if data[i] & 0xC0 == 0x80:  # in the middle of a character
                yield data[start:i]
                start = i
    if data[start:]:
        yield data[start:]


def _json(raw: bytes) -> object:
    try:
        return msgspec.json.decode(raw) if raw else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
