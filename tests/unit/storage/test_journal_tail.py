"""Following a journal while it is written: at once here, soon elsewhere, whole lines only, to the end."""

from __future__ import annotations

import asyncio
import os
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.events import Durability
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import Json
from contextinfinity.errors import LedgerFull
from contextinfinity.storage.journal import JournalEntry, JournalFolder

NEVER = 3_600_000.0


@pytest.fixture
def streams(tmp_path: Path) -> Path:
    return tmp_path / "streams"


@pytest.fixture
def quiet(streams: Path) -> Iterator[JournalFolder]:
    """Journals that do nothing by the clock: what is seen was not brought by the flusher."""
    folder = JournalFolder(streams, flush_ms=NEVER, flush_bytes=1_000_000_000, fsync_ms=NEVER)
    yield folder
    folder.close()


@pytest.fixture
def elsewhere(streams: Path) -> Iterator[JournalFolder]:
    """Another view of the same folder, which knows the files only."""
    folder = JournalFolder(streams)
    yield folder
    folder.close()


class Following:
    """A consumer that keeps what it gets."""

    def __init__(self, folder: JournalFolder, step: str, after: int = 0) -> None:
        self.got: list[JournalEntry] = []
        self._folder, self._step, self._after = folder, step, after
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async for entry in self._folder.tail(self._step, self._after):
            self.got.append(entry)

    async def until(self, count: int) -> None:
        while len(self.got) < count:
            await asyncio.sleep(0)

    async def payloads(self) -> list[Json]:
        """Everything, once the stream is over."""
        await self.task
        return [entry.payload for entry in self.got]


@pytest.mark.req("STREAM-2")
async def test_durability_is_reported_while_no_entry_follows(quiet: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    journal.append("text", "half an answer", shown=14)
    async with aclosing(quiet.follow(step)) as followed:
        assert isinstance(await anext(followed), JournalEntry)
        assert await anext(followed) == Durability(displayed=14, durable=0)
        following = asyncio.create_task(_next(followed))
        for _ in range(10):
            await asyncio.sleep(0)  # it waits for an entry now, and none comes
        await asyncio.to_thread(journal.sync)  # as the flusher's thread does
        assert await asyncio.wait_for(following, 10) == Durability(displayed=14, durable=14)


async def _next(followed: AsyncIterator[JournalEntry | Durability]) -> JournalEntry | Durability:
    return await anext(followed)


@pytest.mark.req("STREAM-1")
async def test_an_entry_is_seen_at_once_in_this_process(quiet: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    following = Following(quiet, step)
    for number in range(1, 6):
        journal.append("delta", number)
        await following.until(number)
        assert following.got[-1].payload == number
    journal.finish("over")
    assert await following.payloads() == [1, 2, 3, 4, 5, "over"]
    assert [entry.seq for entry in following.got] == [1, 2, 3, 4, 5, 6]


@pytest.mark.req("STREAM-1")
async def test_following_begins_after_any_entry(quiet: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    for number in range(1, 4):
        journal.append("delta", number)
    followings = [Following(quiet, step, after) for after in range(6)]
    await followings[0].until(3)
    journal.append("delta", 4)
    journal.finish(5)
    assert [await following.payloads() for following in followings] == [
        [1, 2, 3, 4, 5], [2, 3, 4, 5], [3, 4, 5], [4, 5], [5], []
    ]  # fmt: skip
    assert await Following(quiet, step, 2).payloads() == [3, 4, 5], "one that has ended is given to its end"


async def test_a_step_without_a_journal_gives_nothing(quiet: JournalFolder) -> None:
    assert await Following(quiet, new_id()).payloads() == []


@pytest.mark.req("STREAM-1")
async def test_appends_of_another_thread_are_seen(quiet: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    following = Following(quiet, step)

    def write() -> None:
        for number in range(5000):
            journal.append("delta", number)
        journal.end("over")

    writing = threading.Thread(target=write)
    writing.start()
    assert await following.payloads() == [*range(5000), "over"]
    writing.join()


async def test_many_appends_wake_a_consumer_once(quiet: JournalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    wakes: list[Any] = []
    real = loop.call_soon_threadsafe
    step = new_id()
    journal = quiet.open(step, "openai")
    following = Following(quiet, step)
    journal.append("delta", 0)
    await following.until(1)
    for _ in range(5):
        await asyncio.sleep(0)  # until it waits for the next entry

    def counted(*args: Any, **kwargs: Any) -> Any:
        wakes.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    writing = threading.Thread(target=lambda: [journal.append("delta", number) for number in range(1, 1000)])
    writing.start()
    writing.join()  # the loop is blocked, so nothing is consumed meanwhile
    assert len(wakes) == 1
    await following.until(1000)
    monkeypatch.undo()
    journal.finish(None)
    await following.task


@pytest.mark.req("STREAM-1")
async def test_consumers_of_different_speed_each_get_everything(quiet: JournalFolder, elsewhere: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    fast, remote = Following(quiet, step), Following(elsewhere, step)
    slow = quiet.tail(step)
    taken: list[Json] = []
    for number in range(300):
        journal.append("delta", f"{number} " * 50)
        await fast.until(number + 1)
        if number % 10 == 0:
            taken.append((await anext(slow)).payload)
    assert len(taken) == 30
    journal.finish("over")
    taken += [entry.payload async for entry in slow]
    assert taken == await fast.payloads() == await remote.payloads()
    assert len(taken) == 301


async def test_memory_stays_flat_however_far_a_consumer_is_behind(quiet: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    journal.append("delta", "first")
    tail = quiet.tail(step)
    await anext(tail)
    for _ in range(200):
        journal.append("delta", "x" * 100_000)
        journal.flush()
    tracemalloc.start()
    seen = 0
    try:
        async for entry in tail:
            seen += len(entry.payload)
            if entry.seq == 201:
                break
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen == 20_000_000
    assert peak < 2_000_000
    await tail.aclose()


async def test_a_long_journal_leaves_room_for_other_tasks(quiet: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    for number in range(5000):
        journal.append("delta", number)
    journal.finish(None)
    following = Following(quiet, step)
    seen = set()
    while not following.task.done():
        seen.add(len(following.got))
        await asyncio.sleep(0)
    assert len(seen) > 5


@pytest.mark.req("STREAM-1")
async def test_a_reader_elsewhere_never_sees_half_a_line(
    quiet: JournalFolder, elsewhere: JournalFolder, streams: Path
) -> None:
    step = new_id()
    quiet.open(step, "openai").close()
    following = Following(elsewhere, step)
    line = '{"ts":"2026-01-01T00:00:00Z","provider":"p","event_type":"delta","seq":1,"payload":"é漢😀"}\n'.encode()
    descriptor = os.open(streams / f"{step}.jsonl", os.O_WRONLY | os.O_APPEND)
    watched = elsewhere.tail(step)
    for byte in line:
        assert following.got == []
        os.write(descriptor, bytes([byte]))
        assert [entry.payload for entry in elsewhere.read(step)] == (["é漢😀"] if byte == line[-1] else [])
        await asyncio.sleep(0)
    os.close(descriptor)
    assert (await anext(watched)).payload == "é漢😀"
    await watched.aclose()
    await following.until(1)
    again = quiet.open(step, "p")
    again.finish("over")
    assert await following.payloads() == ["é漢😀", "over"]


@pytest.mark.req("STREAM-1")
@pytest.mark.parametrize("torn", [b'{"ts":"2026-01-01T0', b"\0" * 100, b'{"half":1}\n', b"\xff\xfe\n\n", b"\n"])
async def test_a_follower_outlives_a_torn_end_that_is_cut_and_written_anew(
    quiet: JournalFolder, elsewhere: JournalFolder, torn: bytes
) -> None:
    step = new_id()
    first = quiet.open(step, "openai")
    first.append("delta", "before")
    first.close()
    with first.path.open("ab") as file:
        file.write(torn)
    there, here = Following(elsewhere, step), Following(quiet, step)
    await there.until(1)
    await here.until(1)
    again = quiet.open(step, "openai")
    again.append("delta", "after")
    again.finish("over")
    assert await there.payloads() == await here.payloads() == ["before", "after", "over"]


async def test_a_journal_that_is_opened_here_while_its_follower_is_busy_is_heard(quiet: JournalFolder) -> None:
    step = new_id()
    first = quiet.open(step, "openai")
    first.append("delta", "before")
    first.close()
    tail = quiet.tail(step)
    assert (await anext(tail)).payload == "before"
    again = quiet.open(step, "openai")  # the follower has not come back for more yet
    waiting = asyncio.ensure_future(anext(tail))
    await asyncio.sleep(0)
    again.append("delta", "after")
    assert (await waiting).payload == "after"
    await tail.aclose()


async def test_a_journal_given_up_here_is_followed_where_it_goes_on(
    quiet: JournalFolder, elsewhere: JournalFolder
) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    following = Following(quiet, step)
    journal.append("delta", "here")
    await following.until(1)
    journal.close()
    for _ in range(5):
        await asyncio.sleep(0)  # until the follower has looked once more and found nothing
    other = elsewhere.open(step, "openai")
    other.append("delta", "there")
    other.finish("over")
    assert await following.payloads() == ["here", "there", "over"]


async def test_following_stops_when_the_journal_is_removed(quiet: JournalFolder, elsewhere: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    journal.append("delta", "x")
    journal.close()
    following = Following(elsewhere, step)
    await following.until(1)
    elsewhere.remove(step)
    assert await following.payloads() == ["x"]


async def test_following_stops_when_the_folder_is_closed(streams: Path) -> None:
    folder = JournalFolder(streams, flush_ms=NEVER, fsync_ms=NEVER)
    open_step, left_step = new_id(), new_id()
    journal = folder.open(open_step, "openai")
    folder.open(left_step, "openai").close()
    followings = [Following(folder, open_step), Following(folder, left_step)]
    journal.append("delta", "a")
    await followings[0].until(1)
    journal.append("delta", "b")
    folder.close()
    assert [await following.payloads() for following in followings] == [["a", "b"], []]


def link_to_full(path: Path) -> None:
    path.parent.mkdir()
    path.symlink_to("/dev/full")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.xdist_group("dev-full")  # a journal is locked, and there is one /dev/full
@pytest.mark.parametrize("late", [False, True])
async def test_what_stops_a_journal_is_told_to_its_followers(quiet: JournalFolder, streams: Path, late: bool) -> None:
    step = new_id()
    link_to_full(streams / f"{step}.jsonl")
    journal = quiet.open(step, "openai")
    following = None if late else Following(quiet, step)
    await asyncio.sleep(0)
    journal.append("delta", "x")
    if late:
        with pytest.raises(LedgerFull):
            journal.flush()
    following = following or Following(quiet, step)
    with pytest.raises(LedgerFull, match="disk is full"):
        await following.task
    with pytest.raises(LedgerFull):
        journal.finish(None)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files cannot be counted here")
async def test_a_follower_that_leaves_lets_go_of_the_file(quiet: JournalFolder) -> None:
    step = new_id()
    journal = quiet.open(step, "openai")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the count is all that matters
    followings = [Following(quiet, step) for _ in range(5)]
    journal.append("delta", "x")
    for following in followings:
        await following.until(1)
        following.task.cancel()
    await asyncio.gather(*(following.task for following in followings), return_exceptions=True)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    journal.append("delta", "y")
    journal.finish(None)
    assert [len(following.got) for following in followings] == [1] * 5
