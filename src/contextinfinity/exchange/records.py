"""Split a file into records in bounded memory.

Records are one per line, or elements of one JSON list. Nothing is decoded here: a record is the bytes between two line
ends, or between two commas of the list, so that an invalid one does not affect the others. A record over
``LARGEST_RECORD`` is skipped and reported. Files may begin with a byte order mark and may be compressed with gzip.

A list element that lacks a quote or a brace seems not to end. It is recognised as broken where a string continues past
the end of its line, or where an object begins in place of a key; the reader then searches for the next element.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, TypeAlias

from contextinfinity.errors import InvalidInput
from contextinfinity.exchange.archive import BOMB_HINT, MOST_EXPANSION, SMALL_ENOUGH
from contextinfinity.exchange.import_progress import Format

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STDIN = Path("-")
LARGEST_RECORD = 32 << 20
PIECE = 1 << 18
TOO_LARGE = f"it is larger than {LARGEST_RECORD >> 20} MB"
UNFINISHED = "the file is truncated here; the rest is missing"
AFTER_THE_END = "it follows the end of the list"
DAMAGED = "the compressed file is damaged from here on"

Layout: TypeAlias = Literal["list", "lines", "object"]

_GZIP, _BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
_OTHER_FORMATS = {
    b"\xff\xfe": "is UTF-16; save it as UTF-8",
    b"\xfe\xff": "is UTF-16; save it as UTF-8",
    b"PK\x03\x04": "is a zip archive inside another file; unpack it and import the files",
    b"SQLite format 3": "is a database inside another file",
    b"%PDF": "is a PDF",
}
_SPACE = b" \t\r\n"
_QUOTE = ord('"')
_STRUCTURE = re.compile(rb'["\[\]{},]')
_INSIDE_TEXT = re.compile(rb'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+', re.DOTALL)  # possessive: no backtracking
_FLAT = re.compile(rb'[ \t\r\n]*+\{(?:[^"\[\]{}]++|"(?:[^"\\\n]++|\\.)*+")*+\}', re.DOTALL)
"""An object without nested objects, as most records are: matched at once."""

_NEXT_LINE = re.compile(rb"\n([ \t]*+)(?=\{)")
_LINE_END = ord("\n")


class Record(NamedTuple):
    """The bytes of a record and its first line; or, in ``problem``, why it cannot be read."""

    line: int
    data: bytes
    problem: str = ""


class RecordFile:
    """An open file: its records, and how many bytes were read."""

    def __init__(self, raw: BinaryIO, stream: BinaryIO, layout: Layout, unpacked: _Unpacked | None) -> None:
        self._raw = raw
        self._sources = (stream, unpacked)  # a released buffer closes its source
        self.layout = layout
        self.is_packed = unpacked is not None
        self.records = _with_damage(_READERS[layout](stream), unpacked)

    @property
    def position(self) -> int:
        """The number of bytes read; compressed bytes if the file is compressed."""
        try:
            return self._raw.tell()
        except OSError:  # a pipe does not know
            return 0


@contextmanager
def open_records(path: Path, form: Format = "auto") -> Iterator[RecordFile]:
    """Open a file of records; raise ``InvalidInput`` for another type of file."""
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(_open_raw(path))
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read ({error.strerror or error}).") from error
        yield read_record_file(raw, path, form)


def read_record_file(raw: BinaryIO, path: Path | str, form: Format = "auto") -> RecordFile:
    """Read an open file of records; ``path`` is its name in errors. The caller closes it."""
    try:
        packed = io.BufferedReader(raw, PIECE)  # type: ignore[type-var]
        unpacked = _Unpacked(packed, path) if packed.peek(2).startswith(_GZIP) else None
        stream: Any = packed if unpacked is None else io.BufferedReader(unpacked, PIECE)
        begins = stream.peek(PIECE)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror or error}).") from error
    if unpacked is not None and unpacked.is_damaged and not begins:
        raise InvalidInput(f"{path} cannot be read: it is a damaged gzip file.")
    if begins.startswith(_BOM):
        stream.read(len(_BOM))
        begins = begins[len(_BOM) :]
    for sign, words in _OTHER_FORMATS.items():
        if begins.startswith(sign):
            raise InvalidInput(f"{path} {words}.")
    return RecordFile(raw, stream, "lines" if form == "jsonl" else layout_of(begins), unpacked)


def _open_raw(path: Path) -> io.FileIO:
    """Open a file, or standard input without closing it later."""
    return io.FileIO(0, closefd=False) if path == STDIN else io.FileIO(path)


class _Unpacked(io.RawIOBase):
    """The content of a gzip file, up to the first damage."""

    def __init__(self, packed: BinaryIO, path: Path | str) -> None:
        self._packed = packed
        self._path = path
        self._file = gzip.GzipFile(fileobj=packed, mode="rb")
        self._size = 0
        self.is_damaged = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read the next bytes; a damaged file ends at the damage."""
        space = memoryview(buffer)
        try:
            piece = self._file.read1(len(space))
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.is_damaged = True
            return 0
        space[: len(piece)] = piece
        self._size += len(piece)
        if self._size > SMALL_ENOUGH and self._size > MOST_EXPANSION * self._read():
            raise InvalidInput(
                f"{self._path} unpacks to more than {MOST_EXPANSION} times its size.",
                hint=BOMB_HINT,
            )
        return len(piece)

    def _read(self) -> int:
        try:
            return max(self._packed.tell(), 1)
        except OSError:  # a pipe does not know
            return self._size


def layout_of(begins: bytes) -> Layout:
    """Detect the layout of the records from the beginning of a file."""
    written = [line.strip(_SPACE) for line in begins.split(b"\n") if line.strip(_SPACE)]
    if written and written[0].startswith(b"{") and written[0].endswith((b"{", b",", b"[", b":")):
        return "object"  # it continues on the next line, which a record of JSON Lines never does
    if not written or not written[0].startswith(b"["):
        return "lines"
    first, others = written[0], written[1:]
    # A list continues on the next line; if only the first line is broken, a complete record follows.
    goes_on = first.endswith((b"[", b",", b"{")) or not others or not others[0].startswith(b"{")
    return "list" if goes_on else "lines"


def _with_damage(records: Iterator[Record], unpacked: _Unpacked | None) -> Iterator[Record]:
    """Yield the records; if the compressed file is damaged, end with a record that reports it."""
    line = 1
    for record in records:
        line = record.line
        yield record
    if unpacked is not None and unpacked.is_damaged:
        yield Record(line, b"", DAMAGED)


def lines_of(stream: BinaryIO) -> Iterator[Record]:
    """Yield a record for each line that is not empty."""
    number = 0
    while line := stream.readline(LARGEST_RECORD + 1):
        number += 1
        if len(line) > LARGEST_RECORD and not line.endswith(b"\n"):
            while (rest := stream.readline(PIECE)) and not rest.endswith(b"\n"):
                pass
            yield Record(number, b"", TOO_LARGE)
        elif data := line.strip(_SPACE):
            yield Record(number, data)


def object_of(stream: BinaryIO) -> Iterator[Record]:
    """Yield a file that is a single object as one record."""
    data = stream.read(LARGEST_RECORD + 1).strip(_SPACE)
    yield Record(1, b"", TOO_LARGE) if len(data) > LARGEST_RECORD else Record(1, data)


def elements_of(stream: BinaryIO) -> Iterator[Record]:
    """Yield the elements of a JSON list."""
    return _ListReader(stream).elements()


class _ListReader:
    """Reads a list in pieces, and keeps only the current element in memory."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._buffer = b""
        self._element_start = 0  # in the buffer
        self._scanned_to = 0
        self._line = 1  # the line number of the element's first byte
        self._depth = 0
        self._in_text = False
        self._is_broken = False
        self._comma_at = -1  # the last comma between fields of the element
        self._oversized_line: int | None = None  # the first line of an element that exceeds the limit

    def elements(self) -> Iterator[Record]:
        """Yield the elements; one ends at a comma, at the end of the list, or where it is recognised as broken."""
        while (sign := self._next_delimiter()) is not None:
            if sign == b"{" and self._object_in_place_of_key():
                yield from self._finish_element(self._comma_at, self._scanned_to - 1)
            elif sign == b"\n":
                yield from self._finish_element(self._scanned_to, self._scanned_to)
                continue
            if sign in (b"{", b"["):
                self._depth += 1
                if self._depth == 1:
                    self._release(self._scanned_to)
            elif sign in (b"}", b"]") and (self._depth > 1 or sign == b"]"):
                self._depth -= 1
            elif sign == b"," and self._depth == 2:
                self._comma_at = self._scanned_to - 1
            if self._depth == 0 or (self._depth == 1 and sign == b","):
                yield from self._finish_element(self._scanned_to - 1, self._scanned_to)
            if self._depth == 0:
                break
        yield from self._check_end()

    def _object_in_place_of_key(self) -> bool:
        """Return whether an object begins right after a comma within an object, where only a key is allowed."""
        if self._depth != 2 or self._comma_at < self._element_start or self._oversized_line is not None:
            return False
        between = self._buffer[self._comma_at + 1 : self._scanned_to - 1]
        return not between.strip(_SPACE) and self._buffer[self._element_start : self._comma_at].lstrip(
            _SPACE
        ).startswith(b"{")

    def _next_delimiter(self) -> bytes | None:
        """Return the next bracket or comma outside strings, or the line end before the element after a broken one.

        Return None at the end of the file.
        """
        if (
            self._scanned_to == self._element_start
            and self._depth == 1
            and (flat := _FLAT.match(self._buffer, self._scanned_to))
        ):
            self._scanned_to = flat.end()
        while True:
            if self._in_text:
                self._scanned_to = _INSIDE_TEXT.match(self._buffer, self._scanned_to).end()  # type: ignore[union-attr]  # may be empty
                if self._scanned_to < len(self._buffer) and self._buffer[self._scanned_to] in (_QUOTE, _LINE_END):
                    self._in_text, self._is_broken = False, self._buffer[self._scanned_to] == _LINE_END
                    self._scanned_to += not self._is_broken
                    continue
            elif self._is_broken:
                if self._find_next_element():
                    self._is_broken, self._depth = False, 1
                    return b"\n"
            elif found := _STRUCTURE.search(self._buffer, self._scanned_to):
                self._scanned_to = found.end()
                if found.group() != b'"':
                    return found.group()
                self._in_text = True
                continue
            else:
                self._scanned_to = len(self._buffer)
            if not self._read_more():
                return None

    def _find_next_element(self) -> bool:
        """Search for a line that begins with an object and is not indented deeper than the broken one."""
        lead = self._buffer[self._element_start : self._buffer.find(b"{", self._element_start)]
        deepest = (
            len(lead) - lead.rindex(b"\n") - 1 if b"\n" in lead and self._oversized_line is None else len(self._buffer)
        )
        for found in _NEXT_LINE.finditer(self._buffer, self._scanned_to):
            if len(found[1]) <= deepest:
                self._scanned_to = found.end()
                return True
        self._scanned_to = max(self._scanned_to, self._buffer.rfind(b"\n"))
        return False

    def _read_more(self) -> bool:
        if len(self._buffer) - self._element_start > LARGEST_RECORD:
            self._oversized_line = self._oversized_line or self._line
            self._release(self._scanned_to)
        held = self._buffer[self._element_start :]
        piece = self._stream.read(max(PIECE, len(held)))
        self._scanned_to, self._comma_at, self._element_start = (
            self._scanned_to - self._element_start,
            self._comma_at - self._element_start,
            0,
        )
        self._buffer = held + piece
        return bool(piece)

    def _release(self, until: int) -> None:
        """Release the data that was read."""
        self._line += self._buffer.count(b"\n", self._element_start, until)
        self._element_start = until

    def _finish_element(self, until: int, following: int) -> Iterator[Record]:
        """Yield the element, and continue after it."""
        data = self._buffer[self._element_start : until].strip(_SPACE)
        if self._oversized_line is not None:
            yield Record(self._oversized_line, b"", TOO_LARGE)
            self._oversized_line = None
        elif data:
            line = self._line + self._newlines_before(data)
            yield Record(line, b"", TOO_LARGE) if len(data) > LARGEST_RECORD else Record(line, data)
        self._release(following)
        self._depth = min(self._depth, 1)

    def _check_end(self) -> Iterator[Record]:
        """Report data after the list, or a list without an end."""
        rest = self._buffer[self._element_start :].strip(_SPACE)
        rest = rest or (b"" if self._depth else self._stream.read(PIECE).strip(_SPACE))
        if self._depth or self._oversized_line is not None:
            yield Record(self._oversized_line or self._line + self._newlines_before(rest), b"", UNFINISHED)
        elif rest:
            yield Record(self._line + self._newlines_before(rest), b"", AFTER_THE_END)

    def _newlines_before(self, data: bytes) -> int:
        return (
            self._buffer.count(
                b"\n", self._element_start, max(self._buffer.find(data[:1], self._element_start), self._element_start)
            )
            if data
            else 0
        )


_READERS: dict[Layout, Callable[[BinaryIO], Iterator[Record]]] = {
    "lines": lines_of,
    "list": elements_of,
    "object": object_of,
}
