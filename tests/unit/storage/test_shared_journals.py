"""Journals are copied to where hosts share them, whatever fails on the way."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from contextinfinity.domain.ids import StepId, new_id
from contextinfinity.storage.journal import END, JournalEntry, JournalFolder
from contextinfinity.storage.journal.journal_reader import ChangeSignal
from contextinfinity.storage.journal.shared import JournalPublisher, WrittenEntries


class InMemory:
    """Where hosts share journals; it fails with the given errors first."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self._kept: dict[StepId, list[JournalEntry]] = {}
        self._changed = threading.Condition()

    def write(self, written: Sequence[WrittenEntries]) -> Collection[StepId]:
        if self._errors:
            raise self._errors.pop(0)
        with self._changed:
            for step_id, entries in written:
                self._kept.setdefault(step_id, []).extend(entries)
            self._changed.notify_all()
        return [step_id for step_id, _ in written]

    def prune(self, keep: timedelta) -> None: ...

    async def entries(self, step_id: StepId, after: int) -> Sequence[JournalEntry]:
        return self._kept.get(step_id, [])[after:]

    def listen(self, step_id: StepId, bell: ChangeSignal) -> None: ...

    def unlisten(self, step_id: StepId, bell: ChangeSignal) -> None: ...

    def text_of(self, step_id: StepId) -> str:
        """Wait until the end of a journal is here, and return its text."""

        def has_ended() -> bool:
            return any(each.event_type == END for each in self._kept.get(step_id, ()))

        with self._changed:
            assert self._changed.wait_for(has_ended, 5)
        return "".join(each.payload["text"] for each in self._kept[step_id] if each.event_type == "text")


@pytest.fixture
def folders() -> Iterator[list[JournalFolder]]:
    opened: list[JournalFolder] = []
    yield opened
    for folder in opened:
        folder.close()


def say(folder: JournalFolder, *words: str) -> StepId:
    step_id = new_id()
    journal = folder.open(step_id, "scripted")
    for word in words:
        journal.append("text", {"text": word}, shown=len(word))
    journal.end({"outcome": "completed"})
    return step_id


@pytest.mark.req("THREAD-4")
def test_an_unexpected_error_delays_copies_and_loses_none(tmp_path: Path, folders: list[JournalFolder]) -> None:
    shared = InMemory(RuntimeError("the pool is broken"), MemoryError())
    folders.append(folder := JournalFolder(tmp_path, flush_ms=1, shared=shared))
    assert shared.text_of(say(folder, "A ", "heron.")) == "A heron."


@pytest.mark.req("THREAD-4")
def test_a_journal_that_cannot_be_read_delays_no_other(tmp_path: Path, folders: list[JournalFolder]) -> None:
    folders.append(folder := JournalFolder(tmp_path / "streams", flush_ms=1))
    step_id, unreadable = say(folder, "A ", "heron."), new_id()
    shared = InMemory()
    publisher = JournalPublisher(shared, 0.001)
    publisher.add(unreadable, tmp_path)  # a folder
    publisher.add(step_id, tmp_path / "streams" / f"{step_id}.jsonl")
    publisher.close()
    assert shared.text_of(step_id) == "A heron."
