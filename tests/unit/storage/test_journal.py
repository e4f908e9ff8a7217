"""Journals: what is in the file, when it gets there, and what happens when the disk says no."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from contextinfinity.domain.events import Durability
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import Json
from contextinfinity.errors import (
    InvalidInput,
    LedgerBusy,
    LedgerClosed,
    LedgerFailed,
    LedgerFull,
    LedgerReadOnly,
    Refused,
)
from contextinfinity.storage.folders import is_locked
from contextinfinity.storage.journal import END, Journal, JournalEntry, JournalFolder, event_id, parse_event_id

NEVER = 3_600_000.0


@pytest.fixture
def streams(tmp_path: Path) -> Path:
    return tmp_path / "data" / "streams"


@pytest.fixture
def quiet(streams: Path) -> Iterator[JournalFolder]:
    """Journals that do nothing by the clock."""
    folder = JournalFolder(streams, flush_ms=NEVER, fsync_ms=NEVER)
    yield folder
    folder.close()


def until(state: Callable[[], bool], pause: float = 0.001) -> None:
    """Wait for a state; the test's time limit is the only other way out."""
    while not state():
        time.sleep(pause)


def payloads(entries: Iterator[JournalEntry]) -> list[Json]:
    return [entry.payload for entry in entries]


def file_of(journal: Journal) -> str:
    return journal.path.read_text(encoding="utf-8")


class Fsync:
    """The real fsync, counted, held and made to fail at will."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = os.fsync
        self.files: list[str] = []
        self.folders: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: int | None = None
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            self.files.append(str(status.st_ino))
            self.gate.wait()
            if self.error is not None:
                raise OSError(self.error, os.strerror(self.error))
        else:
            self.folders.append(status.st_ino)
        self._real(descriptor)


@pytest.fixture
def fsync(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fsync]:
    replaced = Fsync(monkeypatch)
    yield replaced
    replaced.gate.set()  # so that a test that failed leaves no thread waiting


# --- The file --------------------------------------------------------------------------------------


@pytest.mark.req("STREAM-1")
def test_a_step_has_a_file_of_entries_with_exactly_five_fields(quiet: JournalFolder, streams: Path) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    assert journal.append("response.output_text.delta", {"delta": "Grüße"}) == 1
    assert journal.append("ping", None) == 2
    assert journal.end({"outcome": "completed"}) == 3
    lines = [json.loads(line) for line in (streams / f"{step}.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [list(line) for line in lines] == [["ts", "provider", "event_type", "seq", "payload"]] * 3
    assert [(line["provider"], line["event_type"], line["seq"], line["payload"]) for line in lines] == [
        ("openai", "response.output_text.delta", 1, {"delta": "Grüße"}),
        ("openai", "ping", 2, None),
        ("openai", "end", 3, {"outcome": "completed"}),
    ]
    assert all(line["ts"].endswith("Z") for line in lines)
    assert all(before <= datetime.fromisoformat(line["ts"]) <= datetime.now(UTC) for line in lines)


@pytest.mark.req("STREAM-1")
def test_only_its_user_can_read_a_journal(quiet: JournalFolder, streams: Path) -> None:
    journal = quiet.open(new_id(), "openai")
    assert stat.S_IMODE(streams.stat().st_mode) == 0o700
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600


@pytest.mark.req("STREAM-1")
def test_reading_gives_what_follows_a_number(quiet: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    for number in range(5):
        journal.append("delta", number)
    assert payloads(quiet.read(step)) == [0, 1, 2, 3, 4], "what waits in memory is read too"
    assert [entry.seq for entry in quiet.read(step, after=3)] == [4, 5]
    assert payloads(quiet.read(step, after=99)) == []
    assert payloads(quiet.read(new_id())) == [], "a step without a journal"
    assert quiet.steps() == [step]


@pytest.mark.req("STREAM-1")
def test_entries_of_any_size_and_script_are_read_whole(quiet: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "anthropic")
    said = ["é", "漢字😀\u2028\n" * 60_000, "", "\0", "x" * 65_536, "y"]
    for text in said:
        journal.append("delta", text)
    assert payloads(quiet.read(step)) == said


@pytest.mark.req("STREAM-1")
def test_a_journal_without_an_end_goes_on_where_it_was_left(quiet: JournalFolder) -> None:
    step = new_id()
    first = quiet.open(step, "openai")
    first.append("delta", "a")
    first.close()
    with first.path.open("ab") as file:
        file.write(b'{"ts":"2026-01-01T00:00:00Z","provider":"op')
    again = quiet.open(step, "openai")
    assert again.append("delta", "b") == 2
    again.end(None)
    assert [(entry.seq, entry.payload) for entry in quiet.read(step)] == [(1, "a"), (2, "b"), (3, None)]
    assert len(file_of(again).splitlines()) == 3


@pytest.mark.req("STREAM-1")
@pytest.mark.parametrize("number", [0, 1, 2, 4])
def test_a_line_out_of_sequence_is_torn_too(quiet: JournalFolder, number: int) -> None:
    step = new_id()
    first = quiet.open(step, "openai")
    first.append("delta", "a")
    first.append("delta", "b")
    first.close()
    with first.path.open("a") as file:
        entry = {"ts": "2026-01-01T00:00:00Z", "provider": "p", "event_type": "delta", "seq": number, "payload": "?"}
        file.write(json.dumps(entry) + "\n")
    assert payloads(quiet.read(step)) == ["a", "b"]
    assert quiet.open(step, "openai").append("delta", "c") == 3
    assert payloads(quiet.read(step)) == ["a", "b", "c"]


@pytest.mark.req("STREAM-1")
def test_nothing_follows_an_end(quiet: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    journal.end(None)
    with pytest.raises(LedgerClosed, match="closed"):
        journal.append("delta", "late")
    with pytest.raises(LedgerClosed):
        journal.end(None)
    with pytest.raises(Refused, match="has ended"):
        quiet.open(step, "openai")
    assert len(list(quiet.read(step))) == 1


@pytest.mark.req("STREAM-1")
def test_a_journal_has_one_writer(quiet: JournalFolder, streams: Path) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    with pytest.raises(LedgerBusy, match=step):
        quiet.open(step, "openai")
    with pytest.raises(LedgerBusy):
        JournalFolder(streams).open(step, "openai")
    journal.close()
    quiet.open(step, "openai").close()


@pytest.mark.parametrize("step", ["", "../../etc/passwd", "a/b", "0190E0C0-0000-7000-8000-000000000000", "end"])
def test_what_is_no_id_names_no_file(quiet: JournalFolder, step: str) -> None:
    with pytest.raises(InvalidInput, match="not the id of a step"):
        quiet.open(step, "openai")
    with pytest.raises(InvalidInput, match="not the id of a step"):
        quiet.read(step)


@pytest.mark.req("STREAM-1")
@pytest.mark.parametrize(
    ("event_type", "payload", "words"),
    [
        ("delta", "half \ud83d", "lone surrogate at 5"),
        ("delta", {"\udfff": 1}, "lone surrogate"),
        ("\ud800", "fine", "lone surrogate"),
        ("delta", object(), "must be JSON"),
        ("delta", {("a", "b"): 1}, "must be JSON"),
        (END, "only the journal ends itself", "cannot be of type 'end'"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_leaves_no_trace(
    quiet: JournalFolder, event_type: str, payload: Json, words: str
) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    journal.append("delta", "before", shown=6)
    with pytest.raises(InvalidInput, match=words):
        journal.append(event_type, payload, shown=100)
    assert journal.append("delta", "after", shown=5) == 2
    assert journal.displayed == 11
    assert payloads(quiet.read(step)) == ["before", "after"]


def test_threads_may_append_together(quiet: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    given: dict[int, str] = {}

    def write(name: str) -> None:
        for number in range(500):
            text = f"{name}{number}"
            given[journal.append("delta", text, shown=1)] = text

    writers = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [(entry.seq, entry.payload) for entry in quiet.read(step)] == sorted(given.items())
    assert len(given) == journal.displayed == 2000


# --- When it gets there ----------------------------------------------------------------------------


@pytest.mark.req("STREAM-2")
def test_it_is_written_once_enough_bytes_wait(streams: Path, fsync: Fsync) -> None:
    folder = JournalFolder(streams, flush_ms=NEVER, flush_bytes=1000, fsync_ms=NEVER)
    journal = folder.open(new_id(), "openai")
    journal.append("delta", "x" * 500, shown=500)
    assert file_of(journal) == ""
    journal.append("delta", "x" * 500, shown=500)
    assert len(file_of(journal).splitlines()) == 2
    assert fsync.files == [], "appending never waits for the disk"
    assert journal.durability() == Durability(displayed=1000, durable=0)
    folder.close()


@pytest.mark.req("STREAM-2")
def test_it_is_written_once_it_has_waited_long_enough(streams: Path, fsync: Fsync) -> None:
    folder = JournalFolder(streams, flush_ms=1, fsync_ms=NEVER)
    journal = folder.open(new_id(), "openai")
    for count in (1, 2, 3):
        journal.append("delta", "x", shown=1)
        until(lambda count=count: len(file_of(journal).splitlines()) == count)  # type: ignore[misc]
    assert (journal.displayed, journal.durable, fsync.files) == (3, 0, [])
    folder.close()


@pytest.mark.req("STREAM-2")
def test_it_is_forced_onto_the_disk_once_it_has_waited_long_enough(streams: Path, fsync: Fsync) -> None:
    folder = JournalFolder(streams, flush_ms=NEVER, fsync_ms=1)
    journal = folder.open(new_id(), "openai")
    for shown in (3, 6, 9):
        journal.append("delta", "abc", shown=3)
        until(lambda shown=shown: journal.durable == shown)  # type: ignore[misc]
    assert len(file_of(journal).splitlines()) == 3
    assert len(fsync.files) == 3
    folder.close()


@pytest.mark.req("STREAM-2")
def test_only_what_was_on_its_way_before_an_fsync_counts_as_durable(quiet: JournalFolder, fsync: Fsync) -> None:
    journal = quiet.open(new_id(), "openai")
    journal.append("delta", "early", shown=5)
    fsync.gate.clear()
    syncing = threading.Thread(target=journal.sync)
    syncing.start()
    until(lambda: len(fsync.files) == 1)
    journal.append("delta", "late", shown=4)
    journal.flush()
    assert journal.durability() == Durability(displayed=9, durable=0), "nothing counts before the disk has answered"
    fsync.gate.set()
    syncing.join()
    assert journal.durability() == Durability(displayed=9, durable=5)
    journal.sync()
    assert journal.durable == 9
    journal.sync()
    assert len(fsync.files) == 2, "nothing new, nothing to wait for"


@pytest.mark.req("STREAM-2")
@pytest.mark.parametrize("how", ["end", "close", "the folder's close"])
def test_everything_is_durable_at_the_end(quiet: JournalFolder, fsync: Fsync, how: str) -> None:
    journal = quiet.open(new_id(), "openai")
    journal.append("delta", "text", shown=4)
    if how == "end":
        journal.end(None)
    else:
        (journal if how == "close" else quiet).close()
    assert journal.durability() == Durability(displayed=4, durable=4)
    assert fsync.files == [str(journal.path.stat().st_ino)]
    journal.close()


@pytest.mark.req("STREAM-2")
def test_the_name_of_a_journal_is_as_durable_as_its_text(quiet: JournalFolder, streams: Path, fsync: Fsync) -> None:
    journal = quiet.open(new_id(), "openai")
    above = [streams.parent.parent.stat().st_ino, streams.parent.stat().st_ino]
    assert fsync.folders == above, "the folder and the one above it were made just now"
    journal.append("delta", "text", shown=4)
    journal.sync()
    assert fsync.folders[2:] == [streams.stat().st_ino]
    journal.append("delta", "more", shown=4)
    journal.sync()
    assert len(fsync.folders) == 3, "once is enough"


@pytest.mark.req("STREAM-2")
def test_what_comes_while_a_journal_closes_is_refused_and_not_lost(quiet: JournalFolder, fsync: Fsync) -> None:
    journal = quiet.open(new_id(), "openai")
    journal.append("delta", "in time", shown=7)
    fsync.gate.clear()
    closing = threading.Thread(target=journal.close)
    closing.start()
    until(lambda: len(fsync.files) == 1)
    with pytest.raises(LedgerClosed):
        journal.append("delta", "too late", shown=8)
    fsync.gate.set()
    closing.join()
    assert journal.durability() == Durability(displayed=7, durable=7)


@pytest.mark.req("STREAM-2")
def test_a_finished_journal_is_written_at_once_and_synced_without_waiting_for_it(
    quiet: JournalFolder, fsync: Fsync
) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    journal.append("delta", "text", shown=4)
    fsync.gate.clear()
    assert journal.finish({"outcome": "completed"}) == 2
    assert [line["event_type"] for line in map(json.loads, journal.path.read_bytes().splitlines())] == ["delta", "end"]
    until(lambda: len(fsync.files) == 1)
    assert journal.durable == 0
    fsync.gate.set()
    until(lambda: not is_locked(journal.path))
    assert journal.durable == 4


@pytest.mark.req("STREAM-2")
def test_one_sync_of_the_folder_serves_all_journals_that_were_opened_before_it(
    quiet: JournalFolder, streams: Path, fsync: Fsync
) -> None:
    journals = [quiet.open(new_id(), "openai") for _ in range(5)]
    made = len(fsync.folders)
    for journal in journals:
        journal.append("delta", "text", shown=4)
        journal.sync()
    assert (len(fsync.files), len(fsync.folders)) == (5, made + 1)
    later = quiet.open(new_id(), "openai")
    later.sync()
    assert len(fsync.folders) == made + 2


@pytest.mark.req("STREAM-2")
def test_a_wall_clock_that_jumps_changes_nothing(streams: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = JournalFolder(streams, flush_ms=1, fsync_ms=2)
    step = new_id()
    journal = folder.open(step, "openai")
    for year in (2026, 1999, 2100):
        moment = int(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1e9)
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment)
        journal.append("delta", year, shown=4)
        until(lambda: journal.durable == journal.displayed)
    assert [entry.ts.year for entry in folder.read(step)] == [2026, 1999, 2100]
    folder.close()


@pytest.mark.req("STREAM-2")
def test_of_two_hundred_journals_none_is_starved(streams: Path, fsync: Fsync) -> None:
    folder = JournalFolder(streams, flush_ms=5, flush_bytes=1_000_000, fsync_ms=20)
    journals = [folder.open(new_id(), "openai") for _ in range(200)]
    busy, done = folder.open(new_id(), "openai"), threading.Event()

    def hammer() -> None:
        while not done.wait(0.0001):
            busy.append("delta", "x" * 100, shown=100)

    hammering = threading.Thread(target=hammer)
    hammering.start()
    for round_number in range(1, 4):
        for journal in journals:
            journal.append("delta", round_number, shown=1)
        until(lambda number=round_number: all(journal.durable == number for journal in journals))  # type: ignore[misc]
        assert all(file_of(journal).count("\n") == round_number for journal in journals)
    done.set()
    hammering.join()
    until(lambda: busy.durable == busy.displayed)
    folder.close()
    assert len(set(fsync.files)) == 201


def test_the_thread_starts_with_the_first_journal_and_stops_with_the_folder(streams: Path) -> None:
    def running() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "journal-flusher"]

    folder = JournalFolder(streams)
    assert folder.steps() == []
    assert running() == []
    folder.open(new_id(), "openai")
    folder.open(new_id(), "openai")
    assert running() == ["journal-flusher"]
    folder.close()
    assert running() == []
    folder.close()
    with pytest.raises(LedgerClosed):
        folder.open(new_id(), "openai")


# --- When the disk says no -------------------------------------------------------------------------


def full_journal(folder: JournalFolder, streams: Path) -> Journal:
    """A journal on a device that has no room for a single byte."""
    step = new_id()
    streams.mkdir(parents=True, exist_ok=True)
    (streams / f"{step}.jsonl").symlink_to("/dev/full")
    return folder.open(step, "openai")


needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
one_at_a_time = pytest.mark.xdist_group("dev-full")  # a journal is locked, and there is one /dev/full


@needs_dev_full
@one_at_a_time
@pytest.mark.req("STREAM-2")
def test_a_full_disk_is_said_in_words_and_nothing_is_shown(quiet: JournalFolder, streams: Path) -> None:
    journal = full_journal(quiet, streams)
    journal.append("delta", "waits", shown=5)
    with pytest.raises(LedgerFull, match=rf"journal .*{journal.path.name}.*disk is full"):
        journal.append("delta", "x" * 10_000, shown=10_000)
    assert journal.durability() == Durability(displayed=5, durable=0)
    for attempt in (lambda: journal.append("delta", "y"), journal.flush, journal.sync, lambda: journal.end(None)):
        with pytest.raises(LedgerFull, match="disk is full"):
            attempt()
    journal.close()


@needs_dev_full
@one_at_a_time
@pytest.mark.req("STREAM-2")
async def test_a_failure_in_the_background_is_told_to_its_journal_and_stops_no_other(streams: Path) -> None:
    folder = JournalFolder(streams, flush_ms=1, fsync_ms=5)
    failing, healthy = full_journal(folder, streams), folder.open(new_id(), "openai")
    failing.append("delta", "x", shown=1)
    until(lambda: failing.failure is not None)
    healthy.append("delta", "x", shown=1)
    until(lambda: healthy.durable == 1)
    with pytest.raises(LedgerFull):
        failing.append("delta", "y")
    with pytest.raises(LedgerFull):
        failing.finish(None)
    folder.close()
    assert failing.durable == 0


@pytest.mark.req("STREAM-2")
def test_after_a_failed_fsync_no_later_success_is_believed(quiet: JournalFolder, fsync: Fsync) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    journal.append("delta", "safe", shown=4)
    journal.sync()
    journal.append("delta", "lost?", shown=5)
    fsync.error = errno.EIO
    with pytest.raises(LedgerFailed, match=rf"{step}\.jsonl could not be read or written"):
        journal.sync()
    fsync.error = None
    with pytest.raises(LedgerFailed):
        journal.sync()
    assert journal.durability() == Durability(displayed=9, durable=4)
    assert payloads(quiet.read(step))[0] == "safe"
    with pytest.raises(LedgerFailed):
        journal.end(None)


def test_closing_the_folder_closes_all_and_then_tells_of_a_failure(streams: Path, fsync: Fsync) -> None:
    folder = JournalFolder(streams, flush_ms=NEVER, fsync_ms=NEVER)
    journals = [folder.open(new_id(), "openai") for _ in range(3)]
    for journal in journals:
        journal.append("delta", "x")
    fsync.error = errno.EIO
    with pytest.raises(LedgerFailed):
        folder.close()
    fsync.error = None
    others = JournalFolder(streams)
    assert [others.open(journal.path.stem, "openai").append("delta", "y") for journal in journals] == [2, 2, 2]
    others.close()


@pytest.mark.parametrize("cause", ["a file in the way", "a folder in the way"])
def test_a_place_that_cannot_be_written_is_said_in_words(quiet: JournalFolder, streams: Path, cause: str) -> None:
    step = new_id()
    if cause == "a file in the way":
        streams.parent.mkdir()
        streams.write_text("not a folder")
    else:
        (streams / f"{step}.jsonl").mkdir(parents=True)
    with pytest.raises(LedgerReadOnly, match=rf"{step}\.jsonl cannot be written"):
        quiet.open(step, "openai")


# --- Pruning and names -----------------------------------------------------------------------------


@pytest.mark.req("SAFE-7")
def test_only_journals_that_ended_long_ago_are_pruned(quiet: JournalFolder) -> None:
    ended, unfinished, open_one, torn = sorted(new_id() for _ in range(4))
    journal = quiet.open(ended, "openai")
    journal.append("delta", "x")
    journal.end("long words " * 20_000)
    cut_off = quiet.open(unfinished, "openai")
    cut_off.append("delta", "x")
    cut_off.close()
    quiet.open(open_one, "openai").append("delta", "x")
    quiet.open(torn, "openai").end(None)
    with (journal.path.parent / f"{torn}.jsonl").open("ab") as file:
        file.write(b'{"ts":')
    later = datetime.now(UTC) + timedelta(minutes=59)
    assert quiet.prune(timedelta(hours=1), now=later) == 0
    assert quiet.prune(timedelta(hours=1)) == 0
    assert quiet.prune(timedelta(hours=1), now=later + timedelta(minutes=2)) == 1
    assert quiet.steps() == [unfinished, open_one, torn]
    assert quiet.prune(timedelta(0), now=later) == 0


@pytest.mark.req("SAFE-7")
def test_a_journal_can_be_removed_by_name(quiet: JournalFolder) -> None:
    step = new_id()
    quiet.open(step, "openai").end(None)
    assert quiet.remove(step)
    assert not quiet.remove(step)
    assert quiet.steps() == []


def test_an_event_id_names_a_place_and_is_read_back() -> None:
    assert event_id(2, 17) == "2-17"
    assert parse_event_id("2-17") == (2, 17)


NO_EVENT_IDS = ["", "2", "2-", "-2", "2-17-3", " 2-17", "2-17\n", "02-1", "٢-١", "a-b", "1-" + "9" * 19]


@pytest.mark.parametrize("text", NO_EVENT_IDS)
def test_what_is_no_event_id_names_no_place(text: str) -> None:
    assert parse_event_id(text) is None
