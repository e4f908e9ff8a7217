"""What became of every record, counted by conversation."""

from __future__ import annotations

from collections.abc import Iterable

from contextinfinity.domain.ids import BranchId, SessionId
from contextinfinity.exchange.import_progress import BadRecord, Imported, ImportedSession

MAX_LISTED = 10_000
"""The maximum number of invalid records listed one by one; further ones are counted."""


class ImportTally:
    """A conversation of a file: where it goes, how far it was read, and what became of its records."""

    def __init__(self) -> None:
        self.thread_id: SessionId | None = None
        self.branch_id: BranchId | None = None
        self.read = 0
        self.added = 0
        self.skipped = 0
        self.bad: list[BadRecord] = []
        self.unlisted = 0
        self.untold_from = 0

    def next_place(self) -> int:
        """Count a record; bad ones count too, so that they fit in after a correction."""
        self.read += 1
        return self.read - 1

    def take_over(self, other: ImportTally) -> None:
        """Take the records of one that came to nothing or is the same; no message of it was put in."""
        self.read += other.read
        self.bad += other.bad
        self.unlisted += other.unlisted
        self.untold_from = min(filter(None, (self.untold_from, other.untold_from)), default=0)


class Tally:
    """Counts over a whole file."""

    def __init__(self) -> None:
        self.messages = 0
        self.first_bad: BadRecord | None = None
        self._listed = 0

    def count(self, talk: ImportTally, added: int, skipped: int) -> None:
        """Some messages were added, others were there."""
        talk.added += added
        talk.skipped += skipped
        self.messages += added + skipped

    def bad(self, talk: ImportTally, line: int, reason: str, file: str = "") -> None:
        """A record was left out."""
        record = BadRecord(line=line, reason=reason, file=file)
        self.first_bad = self.first_bad or record
        if self._listed < MAX_LISTED:
            self._listed += 1
            talk.bad.append(record)
        else:
            talk.untold_from = talk.untold_from or line
            talk.unlisted += 1


def result_of(talks: Iterable[ImportTally]) -> Imported:
    """Return what became of a file; invalid records without a conversation are reported with the first one."""
    known = list(dict.fromkeys(talks))
    found = [talk for talk in known if talk.thread_id is not None]
    for nowhere in (talk for talk in known if talk.thread_id is None):
        if found:
            found[0].take_over(nowhere)
    return Imported(sessions=tuple(map(_shown, found)))


def _shown(talk: ImportTally) -> ImportedSession:
    assert talk.thread_id is not None  # noqa: S101 - only those are shown
    bad = sorted(talk.bad, key=lambda record: record.line)
    if talk.unlisted:
        reason = f"{talk.unlisted} records from here on are not listed one by one"
        bad.append(BadRecord(line=talk.untold_from, reason=reason, count=talk.unlisted))
    return ImportedSession(
        thread_id=talk.thread_id,
        messages=talk.added + talk.skipped,
        added=talk.added,
        skipped=talk.skipped,
        bad=tuple(bad),
    )
