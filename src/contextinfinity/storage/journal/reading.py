"""Reading a journal, finished or not, from the front.

``Lines`` hands out the entries of a file as far as they are whole and in order, block by block, so a long
journal never has to fit into memory. It remembers only where the next line begins and never part of a line:
when a torn end is cut off and written anew behind its back, it simply reads what stands there now.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from contextinfinity.storage.journal.entries import END, Entry, from_line

BLOCK = 65_536


class Lines:
    """The entries of one file, in order. ``offset`` and ``seq`` tell how far they have been read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.offset = 0
        self.seq = 0
        self.ended = False

    def next_block(self) -> list[Entry]:
        """Read the entries that follow; empty when there is none (yet)."""
        entries: list[Entry] = []
        if self.ended:
            return entries
        for line in self._whole_lines():
            entry = from_line(line)
            if entry is None or entry.seq != self.seq + 1:  # torn: its writer will cut it off and go on from here
                break
            entries.append(entry)
            self.seq += 1
            self.offset += len(line) + 1
            if entry.event_type == END:
                self.ended = True
                break
        return entries

    @property
    def removed(self) -> bool:
        """Whether the file has been deleted, so that nothing will follow."""
        return os.fstat(self._descriptor).st_nlink == 0

    def _whole_lines(self) -> list[bytes]:
        """Read a block, or as much as one long line needs; what follows the last newline is left."""
        rest = os.fstat(self._descriptor).st_size - self.offset
        wanted = BLOCK
        while rest > 0:
            data = os.pread(self._descriptor, min(wanted, rest), self.offset)
            end = data.rfind(b"\n")
            if end >= 0:
                return data[:end].split(b"\n")
            if wanted >= rest:
                break
            wanted *= 4
        return []


class JournalReader(Lines):
    """``Lines`` of a file opened for reading alone, to be used in a ``with`` block."""

    def __init__(self, path: Path) -> None:
        super().__init__(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


class Bell:
    """Wakes one consumer on its event loop, from any thread, once for however many rings.

    The consumer hushes the bell before it looks, so that what comes while it looks rings again.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._rung = False

    def ring(self) -> None:
        """Wake the consumer, unless it is on its way already."""
        if not self._rung:
            self._rung = True
            with suppress(RuntimeError):  # the loop is closed: nobody is there to be woken
                self._loop.call_soon_threadsafe(self._event.set)

    def hush(self) -> None:
        """Forget earlier rings."""
        self._rung = False
        self._event.clear()

    async def wait(self) -> None:
        """Wait for a ring since the last hush."""
        await self._event.wait()


def last_entry(path: Path) -> Entry | None:
    """Read only the end of a file and give its last entry; None when that is torn or there is none."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        wanted = BLOCK
        while True:
            start = max(size - wanted, 0)
            data = os.pread(descriptor, size - start, start)
            if not data.endswith(b"\n"):
                return None
            _, newline, line = data[:-1].rpartition(b"\n")
            if newline or start == 0:
                return from_line(line)
            wanted *= 4
    finally:
        os.close(descriptor)
