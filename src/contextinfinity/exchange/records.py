"""A file cut into records, one after the other, in bounded memory.

Records stand one a line, or in one JSON list. Nothing is decoded here: a record is the bytes between two line ends, or
between two commas of the list, so that one that is no JSON spoils no other. What is larger than ``LARGEST_RECORD`` is
read past and told as a problem. Files may begin with a byte order mark and may be compressed with gzip.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

from contextinfinity.errors import InvalidInput
from contextinfinity.exchange.values import Format

LARGEST_RECORD = 32 << 20
PIECE = 1 << 18
TOO_LARGE = f"it is larger than {LARGEST_RECORD >> 20} MB"
UNFINISHED = "the file ends before it does; what came after it is lost with it"
AFTER_THE_END = "it stands after the end of the list"
DAMAGED = "the compressed file is damaged from here on"

Layout: TypeAlias = Literal["list", "lines"]

_GZIP, _BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
_STRANGERS = {
    b"\xff\xfe": "is UTF-16; save it as UTF-8",
    b"\xfe\xff": "is UTF-16; save it as UTF-8",
    b"PK\x03\x04": "is a zip archive; unpack it and import what is in it",
    b"SQLite format 3": "is a database",
    b"%PDF": "is a PDF",
}
_SPACE = b" \t\r\n"
_QUOTE = ord('"')
_STRUCTURE = re.compile(rb'["\[\]{},]')
_INSIDE_TEXT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)  # possessive: no way back, whatever stands there


class Record(NamedTuple):
    """The bytes of one record and the line it begins in; or why they could not be had."""

    line: int
    data: bytes
    problem: str = ""


class Source:
    """An open file: its records, how large it is, and how much of it was read."""

    def __init__(self, raw: BinaryIO, stream: BinaryIO, layout: Layout) -> None:
        self._raw = raw
        self.layout = layout
        self.size = os.fstat(raw.fileno()).st_size
        self.records = _until_damage(lines_of(stream) if layout == "lines" else elements_of(stream))

    @property
    def position(self) -> int:
        """How many bytes of the file were read; of a compressed one, compressed bytes."""
        try:
            return self._raw.tell()
        except OSError:  # a pipe does not know
            return 0


@contextmanager
def opened(path: Path, form: Format = "auto") -> Iterator[Source]:
    """Open a file of records; one that is something else is ``InvalidInput``."""
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(path.open("rb", buffering=0))
            stream = _decompressed(io.BufferedReader(raw, PIECE))
            begins = stream.peek(PIECE)
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read ({error.strerror or error}).") from error
        except (EOFError, zlib.error) as error:
            raise InvalidInput(f"{path} cannot be read: it is a damaged gzip file.") from error
        if begins.startswith(_BOM):
            stream.read(len(_BOM))
            begins = begins[len(_BOM) :]
        for sign, words in _STRANGERS.items():
            if begins.startswith(sign):
                raise InvalidInput(f"{path} {words}.")
        yield Source(raw, stream, "lines" if form == "jsonl" else layout_of(begins))


def _decompressed(raw: io.BufferedReader) -> io.BufferedReader:
    if not raw.peek(2).startswith(_GZIP):
        return raw
    return io.BufferedReader(gzip.GzipFile(fileobj=raw, mode="rb"), PIECE)


def layout_of(begins: bytes) -> Layout:
    """Tell from the beginning of a file how its records stand."""
    written = [line.strip(_SPACE) for line in begins.split(b"\n") if line.strip(_SPACE)]
    if not written or not written[0].startswith(b"["):
        return "lines"
    first, others = written[0], written[1:]
    # A list goes on in its next line; a first line that is merely broken is followed by a whole record.
    goes_on = first.endswith((b"[", b",", b"{")) or not others or not others[0].startswith(b"{")
    return "list" if goes_on else "lines"


def _until_damage(records: Iterator[Record]) -> Iterator[Record]:
    """Give records until the compressed file cannot be read on."""
    line = 1
    try:
        for record in records:
            line = record.line
            yield record
    except (EOFError, zlib.error, gzip.BadGzipFile):
        yield Record(line, b"", DAMAGED)


def lines_of(stream: BinaryIO) -> Iterator[Record]:
    """Give a record a line; empty lines are none."""
    number = 0
    while line := stream.readline(LARGEST_RECORD + 1):
        number += 1
        if len(line) > LARGEST_RECORD and not line.endswith(b"\n"):
            while (rest := stream.readline(PIECE)) and not rest.endswith(b"\n"):
                pass
            yield Record(number, b"", TOO_LARGE)
        elif data := line.strip(_SPACE):
            yield Record(number, data)


def elements_of(stream: BinaryIO) -> Iterator[Record]:
    """Give the elements of a JSON list."""
    return _ListReader(stream).elements()


class _ListReader:
    """Reads a list piece by piece; what it holds begins with the element that is being read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held = b""
        self._at = 0  # how far it was looked at
        self._line = 1  # of the first byte that is held
        self._depth = 0
        self._in_text = False
        self._begun_in: int | None = None  # the line an element begins in that is too large to be held

    def elements(self) -> Iterator[Record]:
        """Go through the list; every element ends at a comma or at the end of the list."""
        while (sign := self._next_sign()) is not None:
            if sign in (b"{", b"["):
                self._depth += 1
                if self._depth == 1:
                    self._take(self._at)
            elif sign in (b"}", b"]") and (self._depth > 1 or sign == b"]"):
                self._depth -= 1
            if self._depth == 0 or (self._depth == 1 and sign == b","):
                yield from self._element(self._at - 1)
                self._take(self._at)
            if self._depth == 0:
                break
        yield from self._rest()

    def _next_sign(self) -> bytes | None:
        """Find the next bracket or comma outside texts; None at the end of the file."""
        while True:
            if self._in_text:
                self._at = _INSIDE_TEXT.match(self._held, self._at).end()  # type: ignore[union-attr]  # may be empty
                if self._at < len(self._held) and self._held[self._at] == _QUOTE:
                    self._at, self._in_text = self._at + 1, False
                    continue
            elif found := _STRUCTURE.search(self._held, self._at):
                self._at = found.end()
                if found.group() != b'"':
                    return found.group()
                self._in_text = True
                continue
            else:
                self._at = len(self._held)
            if not self._read_on():
                return None

    def _read_on(self) -> bool:
        if len(self._held) > LARGEST_RECORD:
            self._begun_in = self._begun_in or self._line
            self._take(self._at)
        piece = self._stream.read(max(PIECE, len(self._held)))
        self._held += piece
        return bool(piece)

    def _take(self, until: int) -> None:
        """Let go of what was read."""
        self._line += self._held.count(b"\n", 0, until)
        self._held, self._at = self._held[until:], self._at - until

    def _element(self, until: int) -> Iterator[Record]:
        if self._begun_in is not None:
            yield Record(self._begun_in, b"", TOO_LARGE)
            self._begun_in = None
        elif data := self._held[:until].strip(_SPACE):
            line = self._line + _newlines_before(self._held, data)
            yield Record(line, b"", TOO_LARGE) if len(data) > LARGEST_RECORD else Record(line, data)

    def _rest(self) -> Iterator[Record]:
        """Tell of what stands where nothing should: after the list, or in place of its end."""
        rest = self._held.strip(_SPACE) or (b"" if self._depth else self._stream.read(PIECE).strip(_SPACE))
        if self._depth or self._begun_in is not None:
            yield Record(self._begun_in or self._line + _newlines_before(self._held, rest), b"", UNFINISHED)
        elif rest:
            yield Record(self._line + _newlines_before(self._held, rest), b"", AFTER_THE_END)


def _newlines_before(held: bytes, data: bytes) -> int:
    return held.count(b"\n", 0, max(held.find(data[:1]), 0)) if data else 0
