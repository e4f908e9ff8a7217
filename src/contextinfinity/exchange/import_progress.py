"""Count the imported, skipped and invalid records of each conversation.

The progress and the result of an import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, SessionId
from contextinfinity.domain.session import Session
from contextinfinity.domain.transfer import SessionTransfer

Format: TypeAlias = Literal["auto", "cix", "chatgpt", "claude", "openwebui", "librechat", "llm", "jsonl", "openai"]
"""``jsonl``: one message per line; ``openai``: a list of messages, or lines; ``auto``: detect the format."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of bytes read and the number of messages imported."""


class BadRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record that was not imported: where it begins, and why. The last one may represent ``count`` records.

    ``file`` is the member of the archive or folder that contains it.
    """

    line: int
    reason: str
    count: int = 1
    file: str = ""

    @property
    def place(self) -> str:
        """Its position for error messages; a whole file has no line."""
        return ", ".join(filter(None, (self.file, f"line {self.line}" if self.line or not self.file else "")))


class ImportedSession(Struct, frozen=True, kw_only=True):
    """The result for one conversation of a file: the messages that were added, and those that existed."""

    thread_id: SessionId
    messages: int
    added: int
    skipped: int
    bad: tuple[BadRecord, ...] = ()
    title: str | None = None

    @property
    def bad_count(self) -> int:
        """The number of records that were not imported."""
        return sum(record.count for record in self.bad)


class Imported(Struct, frozen=True, kw_only=True):
    """The result of an import: its conversations in the order in which they first appear."""

    sessions: tuple[ImportedSession, ...]


MAX_LISTED = 10_000
"""The maximum number of invalid records that are listed; further ones are only counted."""


class ConversationTally:
    """The counts of one conversation of a file, and the branch that its messages are imported to."""

    def __init__(self) -> None:
        self.thread_id: SessionId | None = None
        self.branch_id: BranchId | None = None
        self.title: str | None = None
        self.read = 0
        self.added = 0
        self.skipped = 0
        self.bad: list[BadRecord] = []
        self.unlisted = 0
        self.unlisted_from = 0

    def use_conversation(self, session: Session | SessionTransfer) -> BranchId:
        """Set the conversation of the ledger that the messages are added to, and return its active branch."""
        self.thread_id, self.branch_id, self.title = session.id, session.active_branch, session.title
        return session.active_branch

    def next_place(self) -> int:
        """Return the position of the next record. Invalid records have one too, so that corrections keep the order."""
        self.read += 1
        return self.read - 1

    def merge(self, other: ConversationTally) -> None:
        """Add the records of another tally of the same conversation; none of its messages was imported."""
        self.read += other.read
        self.bad += other.bad
        self.unlisted += other.unlisted
        self.unlisted_from = min(filter(None, (self.unlisted_from, other.unlisted_from)), default=0)


class ImportTotals:
    """The counts of a whole file."""

    def __init__(self) -> None:
        self.messages = 0
        self.first_bad: BadRecord | None = None
        self._listed = 0

    def count(self, tally: ConversationTally, added: int, skipped: int) -> None:
        """Count messages that were added, and messages that existed."""
        tally.added += added
        tally.skipped += skipped
        self.messages += added + skipped

    def bad(self, tally: ConversationTally, line: int, reason: str, file: str = "") -> None:
        """Record an invalid record."""
        record = BadRecord(line=line, reason=reason, file=file)
        self.first_bad = self.first_bad or record
        if self._listed < MAX_LISTED:
            self._listed += 1
            tally.bad.append(record)
        else:
            tally.unlisted_from = tally.unlisted_from or line
            tally.unlisted += 1


def result_of(talks: Iterable[ConversationTally]) -> Imported:
    """Return the result of an import; invalid records without a conversation are listed with the first one."""
    known = list(dict.fromkeys(talks))
    found = [tally for tally in known if tally.thread_id is not None]
    for nowhere in (tally for tally in known if tally.thread_id is None):
        if found:
            found[0].merge(nowhere)
    return Imported(sessions=tuple(map(_shown, found)))


def _shown(tally: ConversationTally) -> ImportedSession:
    assert tally.thread_id is not None  # noqa: S101 - only those are shown
    bad = sorted(tally.bad, key=lambda record: record.line)
    if tally.unlisted:
        reason = f"{tally.unlisted} records from here on are not listed one by one"
        bad.append(BadRecord(line=tally.unlisted_from, reason=reason, count=tally.unlisted))
    return ImportedSession(
        thread_id=tally.thread_id,
        messages=tally.added + tally.skipped,
        added=tally.added,
        skipped=tally.skipped,
        bad=tuple(bad),
        title=tally.title,
    )
