"""Decode server-sent events from a byte stream.

Chunks may be split anywhere, even inside a line ending or a character. The result is pairs of event name ("" if it has
none) and data, as soon as they are complete. Comments, ids and retry times are ignored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from contextinfinity.providers.failures import SOMEBODY, garbled

LONGEST_EVENT = 64 * 1024 * 1024
_MARK = b"\xef\xbb\xbf"


class SseDecoder:
    """Decodes bytes into events; ``close`` returns the last event."""

    def __init__(self, longest: int = LONGEST_EVENT, vendor: str = SOMEBODY) -> None:
        self._longest = longest
        self._vendor = vendor
        self._rest: list[bytes] = []  # pieces of an unfinished line, joined only once
        self._rest_size = 0
        self._after_return = False  # a line feed that follows belongs to the previous line ending
        self._begun = False
        self._event = b""
        self._data: list[bytes] = []
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        """Add bytes and return the events they complete; raise ``ProviderError`` for an oversized event."""
        if self._after_return and chunk:
            self._after_return = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return []
        lines = chunk.splitlines()
        self._after_return = chunk.endswith(b"\r")
        tail = b"" if self._after_return or chunk.endswith(b"\n") else lines.pop()
        if lines and self._rest:
            self._rest.append(lines[0])
            lines[0] = b"".join(self._rest)
            self._rest.clear()
            self._rest_size = 0
        found = self._read(lines) if lines else []
        if tail:
            self._rest.append(tail)
            self._rest_size += len(tail)
        if self._rest_size + self._data_size > self._longest:
            raise garbled(self._vendor, f"an event of more than {self._longest} bytes")
        return found

    def close(self) -> list[tuple[str, str]]:
        """Return the unfinished last event, as if its line had ended."""
        left = b"".join(self._rest)
        self._rest.clear()
        return self._read([left, b""] if left else [b""])

    def _read(self, lines: list[bytes]) -> list[tuple[str, str]]:
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_MARK)
        found: list[tuple[str, str]] = []
        for line in lines:
            if not line:
                if self._data:
                    data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                    found.append((self._event.decode("utf-8", "replace"), data.decode("utf-8", "replace")))
                    self._data = []
                    self._data_size = 0
                self._event = b""
                continue
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value[1:] if value[:1] == b" " else value)
                self._data_size += len(line)
            elif name == b"event":
                self._event = value[1:] if value[:1] == b" " else value
        return found


async def events(chunks: AsyncIterator[bytes], vendor: str = SOMEBODY) -> AsyncIterator[tuple[str, str]]:
    """Yield the events of a byte stream as they arrive."""
    decoder = SseDecoder(vendor=vendor)
    async for chunk in chunks:
        for event in decoder.feed(chunk):
            yield event
    for event in decoder.close():
        yield event
