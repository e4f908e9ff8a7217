"""What became of every record, counted by conversation."""

from __future__ import annotations

from contextinfinity.domain.ids import SessionId
from contextinfinity.exchange.values import BadRecord, Imported, ImportedSession

MOST_TOLD = 100
"""How many bad records are told in full; beyond them they are counted."""


class _Count:
    def __init__(self) -> None:
        self.thread_id: SessionId | None = None
        self.added = 0
        self.skipped = 0
        self.bad = 0
        self.told: list[BadRecord] = []


class Tally:
    """Counts. A bad record that names no conversation counts to the one it stands in, in the order of the file."""

    def __init__(self) -> None:
        self._counts: dict[str | None, _Count] = {}
        self._last: str | None = None
        self._told = 0
        self.messages = 0

    def saw(self, key: str | None) -> None:
        """A message of that conversation was read."""
        self._last = key

    def found(self, key: str | None, thread_id: SessionId) -> None:
        """Note which conversation that is."""
        self._of(key).thread_id = thread_id

    def count(self, key: str | None, added: int, skipped: int) -> None:
        """Some messages were added, others were there."""
        counted = self._of(key)
        counted.added += added
        counted.skipped += skipped
        self.messages += added + skipped

    def bad(self, key: str | None, line: int, reason: str) -> None:
        """A record was left out."""
        counted = self._of(self._last if key is None else key)
        counted.bad += 1
        if self._told < MOST_TOLD:
            self._told += 1
            counted.told.append(BadRecord(line=line, reason=reason))

    def result(self) -> Imported:
        """Give all counts; those of names under which nothing came in go to the first conversation."""
        found = [counted for counted in self._counts.values() if counted.thread_id is not None]
        for nowhere in (counted for counted in self._counts.values() if counted.thread_id is None):
            if found:
                found[0].bad += nowhere.bad
                found[0].told += nowhere.told
        return Imported(sessions=tuple(map(_shown, found)))

    def _of(self, key: str | None) -> _Count:
        return self._counts.setdefault(key, _Count())


def _shown(counted: _Count) -> ImportedSession:
    assert counted.thread_id is not None  # noqa: S101 - only those are shown
    return ImportedSession(
        thread_id=counted.thread_id,
        messages=counted.added + counted.skipped,
        added=counted.added,
        skipped=counted.skipped,
        bad=tuple(sorted(counted.told, key=lambda bad: bad.line)),
        bad_count=counted.bad,
    )
