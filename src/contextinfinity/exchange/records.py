"""A file cut into records, one after the other, in bounded memory.

Records are one per line, or in one JSON list. Nothing is decoded here: a record is the bytes between two line ends, or
between two commas of the list, so that an invalid one does not affect the others. A record over ``LARGEST_RECORD`` is
skipped and reported as a problem. Files may begin with a byte order mark and may be compressed with gzip.

An element of a list that lost a quote or a brace seems to go on for ever. It is known to be broken where a text goes
past the end of its line, or an object begins where a name should; the next one is then looked for.
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
_STRANGERS = {
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
"""An object without others in it, as most records are: found at one go."""

_NEXT_LINE = re.compile(rb"\n([ \t]*+)(?=\{)")
_LINE_END = ord("\n")


class Record(NamedTuple):
    """The bytes of one record and the line it begins in; or why they could not be had."""

    line: int
    data: bytes
    problem: str = ""


class RecordFile:
    """An open file: its records, and how much of it was read."""

    def __init__(self, raw: BinaryIO, stream: BinaryIO, layout: Layout, unpacked: _Unpacked | None) -> None:
        self._raw = raw
        self._held = (stream, unpacked)  # a released buffer closes its source
        self.layout = layout
        self.is_packed = unpacked is not None
        self.records = _with_damage(_READERS[layout](stream), unpacked)

    @property
    def position(self) -> int:
        """How many bytes of the file were read; of a compressed one, compressed bytes."""
        try:
            return self._raw.tell()
        except OSError:  # a pipe does not know
            return 0


@contextmanager
def opened(path: Path, form: Format = "auto") -> Iterator[RecordFile]:
    """Open a file of records; one that is something else is ``InvalidInput``."""
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(_raw(path))
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read ({error.strerror or error}).") from error
        yield record_file(raw, path, form)


def record_file(raw: BinaryIO, path: Path | str, form: Format = "auto") -> RecordFile:
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
    for sign, words in _STRANGERS.items():
        if begins.startswith(sign):
            raise InvalidInput(f"{path} {words}.")
    return RecordFile(raw, stream, "lines" if form == "jsonl" else layout_of(begins), unpacked)


def _raw(path: Path) -> io.FileIO:
    """Open a file, or what is piped in, which is not ours to close."""
    return io.FileIO(0, closefd=False) if path == STDIN else io.FileIO(path)


class _Unpacked(io.RawIOBase):
    """What a gzip file holds, as far as it can be read."""

    def __init__(self, packed: BinaryIO, path: Path | str) -> None:
        self._packed = packed
        self._path = path
        self._file = gzip.GzipFile(fileobj=packed, mode="rb")
        self._size = 0
        self.is_damaged = False

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read on; at a damage it ends."""
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
        return "object"  # it continues in its next line; a record of JSON Lines is one line
    if not written or not written[0].startswith(b"["):
        return "lines"
    first, others = written[0], written[1:]
    # A list goes on in its next line; a first line that is merely broken is followed by a whole record.
    goes_on = first.endswith((b"[", b",", b"{")) or not others or not others[0].startswith(b"{")
    return "list" if goes_on else "lines"


def _with_damage(records: Iterator[Record], unpacked: _Unpacked | None) -> Iterator[Record]:
    """Return records and, where the compressed file could not be read on, say so."""
    line = 1
    for record in records:
        line = record.line
        yield record
    if unpacked is not None and unpacked.is_damaged:
        yield Record(line, b"", DAMAGED)


def lines_of(stream: BinaryIO) -> Iterator[Record]:
    """Return a record a line; empty lines are none."""
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
    """Yield the one object that a file is."""
    data = stream.read(LARGEST_RECORD + 1).strip(_SPACE)
    yield Record(1, b"", TOO_LARGE) if len(data) > LARGEST_RECORD else Record(1, data)


def elements_of(stream: BinaryIO) -> Iterator[Record]:
    """Return the elements of a JSON list."""
    return _ListReader(stream).elements()


class _ListReader:
    """Reads a list piece by piece, and holds what the element that is being read needs."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held = b""
        self._from = 0  # where the element begins
        self._at = 0  # how far it was looked at
        self._line = 1  # of the element's first byte
        self._depth = 0
        self._in_text = False
        self._is_broken = False
        self._comma_at = -1  # of the newest one between the fields of an element
        self._begun_in: int | None = None  # the line an element begins in that is too large to be held

    def elements(self) -> Iterator[Record]:
        """Go through the list; every element ends at a comma, at the end of the list, or where it proves broken."""
        while (sign := self._next_sign()) is not None:
            if sign == b"{" and self._begins_for_a_name():
                yield from self._ended(self._comma_at, self._at - 1)
            elif sign == b"\n":
                yield from self._ended(self._at, self._at)
                continue
            if sign in (b"{", b"["):
                self._depth += 1
                if self._depth == 1:
                    self._take(self._at)
            elif sign in (b"}", b"]") and (self._depth > 1 or sign == b"]"):
                self._depth -= 1
            elif sign == b"," and self._depth == 2:
                self._comma_at = self._at - 1
            if self._depth == 0 or (self._depth == 1 and sign == b","):
                yield from self._ended(self._at - 1, self._at)
            if self._depth == 0:
                break
        yield from self._rest()

    def _begins_for_a_name(self) -> bool:
        """Return whether an object begins right after a comma in an object, where only a name is allowed."""
        if self._depth != 2 or self._comma_at < self._from or self._begun_in is not None:
            return False
        between = self._held[self._comma_at + 1 : self._at - 1]
        return not between.strip(_SPACE) and self._held[self._from : self._comma_at].lstrip(_SPACE).startswith(b"{")

    def _next_sign(self) -> bytes | None:
        """Find the next bracket or comma outside texts, or the line end before what follows a broken element.

        None: the file ends.
        """
        if self._at == self._from and self._depth == 1 and (flat := _FLAT.match(self._held, self._at)):
            self._at = flat.end()
        while True:
            if self._in_text:
                self._at = _INSIDE_TEXT.match(self._held, self._at).end()  # type: ignore[union-attr]  # may be empty
                if self._at < len(self._held) and self._held[self._at] in (_QUOTE, _LINE_END):
                    self._in_text, self._is_broken = False, self._held[self._at] == _LINE_END
                    self._at += not self._is_broken
                    continue
            elif self._is_broken:
                if self._found_next():
                    self._is_broken, self._depth = False, 1
                    return b"\n"
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

    def _found_next(self) -> bool:
        """Look for a line that begins with an object, no deeper in than the one that is broken."""
        lead = self._held[self._from : self._held.find(b"{", self._from)]
        deepest = len(lead) - lead.rindex(b"\n") - 1 if b"\n" in lead and self._begun_in is None else len(self._held)
        for found in _NEXT_LINE.finditer(self._held, self._at):
            if len(found[1]) <= deepest:
                self._at = found.end()
                return True
        self._at = max(self._at, self._held.rfind(b"\n"))
        return False

    def _read_on(self) -> bool:
        if len(self._held) - self._from > LARGEST_RECORD:
            self._begun_in = self._begun_in or self._line
            self._take(self._at)
        held = self._held[self._from :]
        piece = self._stream.read(max(PIECE, len(held)))
        self._at, self._comma_at, self._from = self._at - self._from, self._comma_at - self._from, 0
        self._held = held + piece
        return bool(piece)

    def _take(self, until: int) -> None:
        """Release the data that was read."""
        self._line += self._held.count(b"\n", self._from, until)
        self._from = until

    def _ended(self, until: int, following: int) -> Iterator[Record]:
        """Return the element, and go on after it."""
        data = self._held[self._from : until].strip(_SPACE)
        if self._begun_in is not None:
            yield Record(self._begun_in, b"", TOO_LARGE)
            self._begun_in = None
        elif data:
            line = self._line + self._newlines_before(data)
            yield Record(line, b"", TOO_LARGE) if len(data) > LARGEST_RECORD else Record(line, data)
        self._take(following)
        self._depth = min(self._depth, 1)

    def _rest(self) -> Iterator[Record]:
        """Report data where none is expected: after the list, or in place of its end."""
        rest = self._held[self._from :].strip(_SPACE)
        rest = rest or (b"" if self._depth else self._stream.read(PIECE).strip(_SPACE))
        if self._depth or self._begun_in is not None:
            yield Record(self._begun_in or self._line + self._newlines_before(rest), b"", UNFINISHED)
        elif rest:
            yield Record(self._line + self._newlines_before(rest), b"", AFTER_THE_END)

    def _newlines_before(self, data: bytes) -> int:
        return (
            self._held.count(b"\n", self._from, max(self._held.find(data[:1], self._from), self._from)) if data else 0
        )


_READERS: dict[Layout, Callable[[BinaryIO], Iterator[Record]]] = {
    "lines": lines_of,
    "list": elements_of,
    "object": object_of,
}
