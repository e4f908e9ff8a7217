"""Search the files of a data_dir for samples of deleted text: the proof of a deletion.

Input: samples of the deleted messages. Output: every kind of file in the data_dir, the backups that were written
elsewhere, and the history folders of workspaces, with the number of files and bytes that were read and the number of
samples that were found in them. Every file of the data_dir is read, of whatever kind, except downloaded models. In an
encrypted data_dir the bytes say nothing; its place is noted.

A sample that a conversation says which was not deleted is no remainder of the deletion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from contextinfinity.domain.session import ScannedPlace
from contextinfinity.storage.encryption.protection import protection_of
from contextinfinity.storage.sqlite.connection import read_blocks, shares_locks
from contextinfinity.storage.workspace_registry import registrations
from contextinfinity.text.plurals import counted

BLOCK = 4 << 20
SAMPLE, SHORTEST = 40, 12
"""The length of a sample, and the shortest text of which one is taken, in characters."""
MOST_SAMPLES = 512
OTHER = "other files"
WORKSPACES = "workspace history"
PLACES = (
    "ledger file",
    "write-ahead log",
    "journals",
    "spool",
    "vectors",
    "typed history",
    "own backups",
    WORKSPACES,
    OTHER,
)
ELSEWHERE = "named backups"
ENCRYPTED = "Encrypted: its bytes cannot be searched; the rows of the ledger were."
FOUND = "Run `cix cleanup` when no other process uses the data_dir."
UNCHANGED = "Written by a person and never changed; delete it yourself."


@dataclass(eq=False)
class FilesScan:
    """The scanned files of one kind, and the samples found in them."""

    place: str
    files: int = 0
    bytes: int = 0
    samples: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def result(self, kept: Collection[str]) -> ScannedPlace:
        """Return the result; ``kept`` are samples that conversations say which were not deleted."""
        found = self.samples.difference(kept)
        notes = [*self.notes, *([UNCHANGED if self.place == ELSEWHERE else FOUND] if found else [])]
        if also := len(self.samples) - len(found):
            notes.append(f"{counted(also, 'sample')} more: a conversation that was kept says the same.")
        scanned = f"{counted(self.files, 'file')}, {self.bytes:,} bytes"
        return ScannedPlace(place=self.place, scanned=scanned, found=len(found), note=" ".join(notes))


class DataFiles(NamedTuple):
    """The paths of the files of a data_dir."""

    data_dir: Path
    ledger: Path
    spools: Path
    backups: Path


def samples_of(texts: Iterable[str]) -> list[str]:
    """Return pieces of texts that can be recognised in a file: of each its beginning, its middle and its end."""
    found: dict[str, None] = {}
    for text in texts:
        for line in (text[:SAMPLE], text[len(text) // 2 :][:SAMPLE], text[-SAMPLE:]):
            piece = max(line.splitlines() or [""], key=len).strip()
            if len(piece) >= SHORTEST:
                found[piece] = None
        if len(found) >= MOST_SAMPLES:
            break
    return list(found)


def scan_files(files: DataFiles, elsewhere: Sequence[Path], samples: Sequence[str]) -> tuple[FilesScan, ...]:
    """Search all files for samples; a file that cannot be read is named."""
    forms = {form: sample for sample in samples for form in _forms(sample)}
    pattern = re.compile(b"|".join(map(re.escape, sorted(forms, key=len, reverse=True)))) if forms else None
    scans = {place: FilesScan(place) for place in (*PLACES, ELSEWHERE)}
    is_encrypted = protection_of(files.data_dir / "chat_history").is_on
    for place, path in _all(files, elsewhere):
        scan = scans[place]
        try:
            read, hits = _search(path, pattern)
        except FileNotFoundError:
            continue
        except OSError as error:
            scan.notes.append(f"{path} cannot be read ({error.strerror}).")
            continue
        scan.files += 1
        scan.bytes += read
        scan.samples.update(forms[hit] for hit in hits)
        if is_encrypted and ENCRYPTED not in scan.notes:
            scan.notes.append(ENCRYPTED)
    return tuple(scans.values())


def _all(files: DataFiles, elsewhere: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    folders = {
        files.data_dir / "streams": "journals",
        files.spools: "spool",
        files.data_dir / "vectors": "vectors",
        files.backups: "own backups",
    }
    known = {
        files.ledger: "ledger file",
        files.ledger.with_name(f"{files.ledger.name}-wal"): "write-ahead log",
        files.data_dir / "chat_history": "typed history",
    }
    roots = {files.data_dir, files.ledger.parent, files.spools}
    seen: set[Path] = set()
    for root in sorted(roots):
        beside = (
            root.glob(f"{files.ledger.name}*") if root == files.ledger.parent != files.data_dir else root.rglob("*")
        )
        for path in sorted(beside):
            if path in seen or path.is_symlink() or not path.is_file() or files.data_dir / "models" in path.parents:
                continue
            if path.name.endswith("-shm"):  # the index of a log: numbers of pages; SQLite's locks are on it
                continue
            seen.add(path)
            yield known.get(path) or next((folders[up] for up in path.parents if up in folders), OTHER), path
    for folder in {one.folder for one in registrations(files.data_dir)}:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield WORKSPACES, path
    for path in elsewhere:
        yield ELSEWHERE, path


def _forms(sample: str) -> set[bytes]:
    """Return a sample as it is, and as it is written inside JSON."""
    return {
        sample.encode(errors="replace"),
        json.dumps(sample)[1:-1].encode(),
        json.dumps(sample, ensure_ascii=False)[1:-1].encode(errors="replace"),
    }


def _search(path: Path, pattern: re.Pattern[bytes] | None) -> tuple[int, set[bytes]]:
    """Return the size of a file and the forms that it contains."""
    size, hits, tail = 0, set[bytes](), b""
    for block in read_blocks(path, BLOCK) if shares_locks(path) else _blocks(path):
        size += len(block)
        if pattern is not None:
            data = tail + block
            hits.update(pattern.findall(data))
            tail = data[-8 * SAMPLE :]
    return size, hits


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block
