"""Entries are shown when the shared ledger has them, and reach it whatever fails on the way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import pytest

from contextinfinity.domain.events import Durability
from contextinfinity.domain.ids import StepId, new_id
from contextinfinity.errors import TurnLost
from contextinfinity.storage.journal import END, Journal, JournalEntry, JournalFolder
from contextinfinity.storage.journal.journal_reader import ChangeSignal
from contextinfinity.storage.journal.shared import StoredSteps, WrittenEntries

WORKER = "worker"


class InMemory:
    """Where hosts share journals; it fails with the given errors first."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self._kept: dict[StepId, list[JournalEntry]] = {}
        self._held: list[tuple[Sequence[WrittenEntries], Future[StoredSteps]]] = []
        self._changed = threading.Condition()
        self.is_held = self.is_silent = False
        self.dead: set[str] = set()
        self.unknown: set[StepId] = set()

    def write(self, written: Sequence[WrittenEntries]) -> Future[StoredSteps]:
        if self._errors:
            raise self._errors.pop(0)
        done: Future[StoredSteps] = Future()
        with self._changed:
            self._held.append((written, done))
            if not self.is_held:
                self._store()
            self._changed.notify_all()
        return done

    def blocked_seconds(self) -> float:
        return 60.0 if self.is_silent else 0.0

    def prune(self, keep: timedelta) -> None: ...

    async def entries(self, step_id: StepId, after: int) -> Sequence[JournalEntry]:
        return [entry for entry in self._kept.get(step_id, []) if entry.seq > after]

    def listen(self, step_id: StepId, bell: ChangeSignal) -> None: ...

    def unlisten(self, step_id: StepId, bell: ChangeSignal) -> None: ...

    def wait_for_write(self) -> None:
        """Wait until a write is held."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._held, 100)

    def answer(self) -> None:
        """Do what was held, and hold nothing more."""
        with self._changed:
            self.is_held = self.is_silent = False
            self._store()

    def _store(self) -> None:
        for written, done in self._held:
            lost = [each.step_id for each in written if each.writer in self.dead]
            stored = [each for each in written if each.step_id not in {*lost, *self.unknown}]
            for step_id, _, entries in stored:
                self._kept.setdefault(step_id, []).extend(entries)
            done.set_result(StoredSteps([each.step_id for each in stored], lost))
        self._held.clear()

    def text_of(self, step_id: StepId) -> str:
        """Wait until the end of a journal is here, and return its text."""

        def has_ended() -> bool:
            return any(each.event_type == END for each in self._kept.get(step_id, ()))

        with self._changed:
            assert self._changed.wait_for(has_ended, 100)
        return "".join(each.payload["text"] for each in self._kept[step_id] if each.event_type == "text")


@pytest.fixture
def folders() -> Iterator[list[JournalFolder]]:
    opened: list[JournalFolder] = []
    yield opened
    for folder in opened:
        folder.close()


def begin(folder: JournalFolder, *words: str) -> tuple[StepId, Journal]:
    step_id = new_id()
    journal = folder.open(step_id, "scripted", WORKER)
    for word in words:
        journal.append("text", {"text": word}, shown=len(word))
    return step_id, journal


def say(folder: JournalFolder, *words: str) -> StepId:
    step_id, journal = begin(folder, *words)
    journal.end({"outcome": "completed"})
    return step_id


def shown(folder: JournalFolder, step_id: StepId) -> str:
    """Return what any reader of this host sees now."""
    return "".join(entry.payload["text"] for entry in folder.read(step_id) if entry.event_type == "text")


async def until_shown(folder: JournalFolder, step_id: StepId, text: str) -> None:
    """Follow a journal until it says something."""
    seen = ""
    async with asyncio.timeout(100):
        async for entry in folder.tail(step_id):
            seen += entry.payload["text"] if entry.event_type == "text" else ""
            if seen == text:
                return
    raise AssertionError(f"it ended with {seen!r}")


@pytest.mark.req("THREAD-4", "TURN-9")
async def test_nothing_is_shown_before_the_shared_ledger_has_it(tmp_path: Path, folders: list[JournalFolder]) -> None:
    shared = InMemory()
    shared.is_held = True
    folders.append(folder := JournalFolder(tmp_path, shared=shared))
    step_id, journal = begin(folder, "A ", "heron.")
    shared.wait_for_write()
    assert shown(folder, step_id) == ""
    assert journal.durability().displayed == 0
    assert journal.displayed == 8
    following = asyncio.create_task(until_shown(folder, step_id, "A heron."))
    shared.answer()
    await following
    journal.append("text", {"text": " It fishes."}, shown=11)
    await until_shown(folder, step_id, "A heron. It fishes.")


@pytest.mark.req("THREAD-4")
async def test_the_transaction_that_stores_an_answer_shows_it_too(tmp_path: Path, folders: list[JournalFolder]) -> None:
    shared = InMemory()
    shared.is_held = True
    folders.append(folder := JournalFolder(tmp_path, shared=shared))
    step_id, journal = begin(folder, "A heron.")
    journal.finish({"outcome": "completed"})
    assert shown(folder, step_id) == ""
    journal.show()
    await until_shown(folder, step_id, "A heron.")
    shared.answer()
    assert shared.text_of(step_id) == "A heron."


@pytest.mark.req("CHATMEM-6")
async def test_answers_go_on_while_the_shared_ledger_is_silent(tmp_path: Path, folders: list[JournalFolder]) -> None:
    shared = InMemory()
    shared.is_held = shared.is_silent = True
    folders.append(folder := JournalFolder(tmp_path, flush_ms=1, shared=shared))
    step_id, journal = begin(folder, "A ")
    await until_shown(folder, step_id, "A ")
    journal.append("text", {"text": "heron."}, shown=6)
    assert shown(folder, step_id) == "A heron.", "at once"
    shared.answer()
    journal.end({"outcome": "completed"})
    assert shared.text_of(step_id) == "A heron."


@pytest.mark.req("CHATMEM-6")
async def test_a_turn_that_the_ledger_does_not_know_yet_is_shown_and_stored_later(
    tmp_path: Path, folders: list[JournalFolder]
) -> None:
    shared = InMemory()
    folders.append(folder := JournalFolder(tmp_path, flush_ms=1, shared=shared))
    step_id = new_id()
    shared.unknown.add(step_id)
    journal = folder.open(step_id, "scripted", WORKER)
    journal.append("text", {"text": "A "}, shown=2)
    await until_shown(folder, step_id, "A ")
    journal.append("text", {"text": "heron."}, shown=6)
    journal.end({"outcome": "completed"})
    assert shown(folder, step_id) == "A heron."
    shared.unknown.clear()
    assert shared.text_of(step_id) == "A heron."


@pytest.mark.req("TURN-9")
async def test_a_worker_that_was_declared_dead_shows_nothing_more(tmp_path: Path, folders: list[JournalFolder]) -> None:
    shared = InMemory()
    folders.append(folder := JournalFolder(tmp_path, flush_ms=1, shared=shared))
    step_id, journal = begin(folder, "A ")
    await until_shown(folder, step_id, "A ")
    shared.dead.add(WORKER)
    journal.append("text", {"text": "heron."}, shown=6)
    with pytest.raises(TurnLost):
        journal.sync()
    with pytest.raises(TurnLost):
        journal.append("text", {"text": " It fishes."}, shown=11)
    with pytest.raises(TurnLost):
        journal.finish({"outcome": "completed"})
    journal.close()
    assert [entry.payload for entry in await shared.entries(step_id, 0)] == [{"text": "A "}]
    assert folder.steps() == [], "the ledger has all that was shown"


@pytest.mark.req("TURN-9")
async def test_the_file_stays_if_more_was_shown_than_the_ledger_has(
    tmp_path: Path, folders: list[JournalFolder]
) -> None:
    shared = InMemory()
    shared.is_held = shared.is_silent = True
    folders.append(folder := JournalFolder(tmp_path, shared=shared))
    step_id, journal = begin(folder, "A heron.")
    await until_shown(folder, step_id, "A heron.")
    shared.dead.add(WORKER)
    shared.answer()
    journal.append("text", {"text": " It fishes."}, shown=11)
    journal.close()
    assert shown(folder, step_id).startswith("A heron.")


@pytest.mark.req("TURN-9")
async def test_a_reader_goes_on_with_what_the_worker_that_took_over_writes(
    tmp_path: Path, folders: list[JournalFolder]
) -> None:
    shared = InMemory()
    one, two = (JournalFolder(tmp_path / name, flush_ms=1, shared=shared) for name in ("one", "two"))
    folders += [one, two]
    step_id, journal = begin(one, "A heron.")

    async def is_over() -> bool:
        return False

    async with asyncio.timeout(100), aclosing(one.follow(step_id, is_over=is_over)) as followed:
        read = [entry.event_type async for entry in _until_text(followed)]
        shared.dead.add(WORKER)
        journal.append("text", {"text": " It fishes."}, shown=11)
        with pytest.raises(TurnLost):
            journal.sync()
        await two.adopt(step_id)
        two.open(step_id, "scripted", "another").finish({"outcome": "interrupted"})
        read += [entry.event_type async for entry in followed if isinstance(entry, JournalEntry)]
    assert read == ["text", END]


async def _until_text(followed: AsyncGenerator[JournalEntry | Durability, None]) -> AsyncIterator[JournalEntry]:
    """Yield entries up to the first text, and leave the rest."""
    while True:
        entry = await anext(followed)
        if isinstance(entry, JournalEntry):
            yield entry
            return


@pytest.mark.req("TURN-9")
async def test_a_worker_that_takes_over_reads_what_only_the_ledger_has(
    tmp_path: Path, folders: list[JournalFolder]
) -> None:
    shared = InMemory()
    one, two = (JournalFolder(tmp_path / name, shared=shared) for name in ("one", "two"))
    folders += [one, two]
    step_id = say(one, "A ", "heron.")
    end = (tmp_path / "one" / f"{step_id}.jsonl").read_bytes()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / f"{step_id}.jsonl").write_bytes(end[: end.index(b"\n") + 8])  # the first entry, and a torn one
    await two.adopt(step_id)
    assert (tmp_path / "two" / f"{step_id}.jsonl").read_bytes() == end


@pytest.mark.req("THREAD-4")
def test_an_unexpected_error_delays_copies_and_loses_none(tmp_path: Path, folders: list[JournalFolder]) -> None:
    shared = InMemory(RuntimeError("the pool is broken"), MemoryError())
    folders.append(folder := JournalFolder(tmp_path, flush_ms=1, shared=shared))
    assert shared.text_of(say(folder, "A ", "heron.")) == "A heron."
