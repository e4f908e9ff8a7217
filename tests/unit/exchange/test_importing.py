"""Files of messages into a ledger."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.message import ImageBlock, blob_of
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import Phase
from contextinfinity.errors import InvalidInput
from contextinfinity.exchange import importer
from contextinfinity.exchange.import_progress import MAX_LISTED, Format, Imported, ImportedSession
from contextinfinity.exchange.importer import BATCH, import_file
from contextinfinity.storage.contract import Store
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import commit_turn, turn_in

ME = Owner()


@pytest.fixture
def store() -> Store:
    return SqliteStore(None)


def talk(size: int, *, ids: bool = True, **fields: Any) -> list[dict[str, Any]]:
    """Make a conversation of that many messages."""
    made: list[dict[str, Any]] = []
    for n in range(size):
        record = {"role": "assistant" if n % 2 else "user", "content": f"message {n}", **fields}
        made.append({**record, "id": f"m{n}"} if ids else record)
    return made


def lines(path: Path, records: Iterable[Any]) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), "utf-8")
    return path


async def load(store: Store, path: Path, thread_id: str | None = None, form: Format = "auto") -> Imported:
    return await import_file(store, path, owner=ME, form=form, thread_id=thread_id)


async def load_one(store: Store, path: Path, thread_id: str | None = None) -> ImportedSession:
    (one,) = (await load(store, path, thread_id)).sessions
    return one


async def texts(store: Store, thread_id: str) -> list[str]:
    session = await store.sessions.get(thread_id)
    assert session is not None
    turns = await store.turns.history(session.active_branch, limit=100_000)
    return [side.rendered_text for turn in turns for side in (turn.user_message, turn.answer) if side is not None]


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("form", ["lines", "list", "gzip"])
async def test_a_file_comes_in_once_however_often_it_is_imported(
    store: Store, tmp_path: Path, ids: bool, form: str
) -> None:
    records = talk(2 * BATCH + 3, ids=ids)
    path = lines(tmp_path / "talk.jsonl", records)
    if form == "list":
        path.write_text(json.dumps(records, indent=1), "utf-8")
    if form == "gzip":
        path.write_bytes(gzip.compress(path.read_bytes()))
    first = await load_one(store, path)
    assert (first.messages, first.added, first.skipped, first.bad) == (2003, 2003, 0, ())
    assert await texts(store, first.thread_id) == [record["content"] for record in records]
    again = await load_one(store, path)
    assert (again.thread_id, again.messages, again.added, again.skipped) == (first.thread_id, 2003, 0, 2003)
    assert len(await texts(store, first.thread_id)) == 2003
    session = await store.sessions.get(first.thread_id)
    assert session is not None
    assert session.title == "talk"


async def test_the_name_of_a_file_may_be_anything(store: Store, tmp_path: Path) -> None:
    for name in ("\udcff", ".jsonl", "x" * 200):
        (done,) = (await load(store, lines(tmp_path / name, talk(1, ids=False, n=len(name))))).sessions
        assert done.messages == 1


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("before", [1, 2, 3, BATCH + 1])
async def test_a_file_that_grew_adds_what_is_new(store: Store, tmp_path: Path, ids: bool, before: int) -> None:
    records = talk(BATCH + 4, ids=ids)
    path = lines(tmp_path / "file", records[:before])
    first = await load_one(store, path)
    grown = await load_one(store, lines(path, records))
    assert (grown.thread_id, grown.added, grown.skipped) == (first.thread_id, len(records) - before, before)
    assert await texts(store, first.thread_id) == [record["content"] for record in records]
    session = await store.sessions.get(first.thread_id)
    assert session is not None
    newest = (await store.turns.history(session.active_branch, limit=1))[0]
    assert newest.turn_seq == len(records) // 2


async def test_conversations_that_begin_alike_are_kept_apart(store: Store, tmp_path: Path) -> None:
    system = {"role": "system", "content": "You are a helpful assistant."}
    one = lines(tmp_path / "a", [system, {"role": "user", "content": "one"}])
    other = lines(tmp_path / "b", [system, {"role": "user", "content": "two"}])
    third = lines(tmp_path / "c", [system, {"role": "user", "content": "three"}])
    threads = [(await load_one(store, path)).thread_id for path in (one, other, third)]
    assert len(set(threads)) == 3
    assert [(await load_one(store, path)).thread_id for path in (one, other, third)] == threads
    assert await texts(store, threads[1]) == [system["content"], "two"]


@pytest.mark.parametrize("ids", [True, False])
async def test_a_record_that_was_mended_comes_in_and_nothing_comes_in_twice(
    store: Store, tmp_path: Path, ids: bool
) -> None:
    records: list[Any] = talk(10, ids=ids)
    path = lines(tmp_path / "file", [*records[:4], "{broken", *records[5:]])
    first = await load_one(store, path)
    assert (first.added, [bad.line for bad in first.bad]) == (9, [5])
    mended = await load_one(store, lines(path, records))
    assert (mended.thread_id, mended.added, mended.skipped, mended.bad_count) == (first.thread_id, 1, 9, 0)
    assert sorted(await texts(store, first.thread_id)) == sorted(record["content"] for record in records)


@pytest.mark.parametrize("first", [0, 1])
async def test_a_conversation_is_known_again_when_its_first_records_were_mended(
    store: Store, tmp_path: Path, first: int
) -> None:
    records = talk(8, ids=False)
    path = lines(tmp_path / "file", [*["{broken"] * (first + 1), *records[first + 1 :]])
    before = await load_one(store, path)
    mended = await load_one(store, lines(path, records))
    assert (mended.thread_id, mended.added, mended.skipped) == (before.thread_id, first + 1, 7 - first)


async def test_a_record_mended_among_named_conversations_moves_none_of_them(store: Store, tmp_path: Path) -> None:
    a, b = talk(6, ids=False, thread_id="a"), talk(6, ids=False, thread_id="b")
    records = [*a[:4], b[0], *a[4:], *b[1:]]
    broken: list[Any] = [*records[:2], "{broken", a[3], {**b[0], "role": "robot"}, *a[4:], *b[1:]]
    path = lines(tmp_path / "file", broken)
    assert [(one.added, one.bad_count) for one in (await load(store, path)).sessions] == [(5, 1), (5, 1)]
    mended = await load(store, lines(path, records))
    assert [(one.added, one.skipped, one.bad_count) for one in mended.sessions] == [(1, 5, 0), (1, 5, 0)]


async def test_a_conversation_called_by_two_names_loses_no_message(store: Store, tmp_path: Path) -> None:
    session = await store.sessions.create(NewSession(external_id="work"))
    same = {"role": "user", "content": "ok"}
    path = lines(tmp_path / "file", [{**same, "thread_id": "work"}, same, {**same, "thread_id": session.id}])
    done = await load_one(store, path, session.id)
    assert (done.thread_id, done.messages, done.added) == (session.id, 3, 3)
    assert (await load_one(store, path, session.id)).skipped == 3


async def test_records_go_to_the_conversations_they_name(store: Store, tmp_path: Path) -> None:
    own = await store.sessions.create(NewSession())
    mixed = [
        record
        for trio in zip(talk(4, thread_id="a"), talk(4, session_id=own.id), talk(4), strict=True)
        for record in trio
    ]
    path = lines(tmp_path / "file", mixed)
    done = await load(store, path, "home")
    found = [await store.sessions.find(ME, name) for name in ("a", "home")]
    assert all(found)
    assert [one.thread_id for one in done.sessions] == [found[0] and found[0].id, own.id, found[1] and found[1].id]
    for one in done.sessions:
        assert await texts(store, one.thread_id) == [f"message {n}" for n in range(4)]
    assert [one.skipped for one in (await load(store, path, "home")).sessions] == [4, 4, 4]


async def test_another_owners_conversation_is_never_touched(store: Store, tmp_path: Path) -> None:
    theirs = await store.sessions.create(NewSession(owner=Owner(user_id="other")))
    done = await load_one(store, lines(tmp_path / "file", talk(2, thread_id=theirs.id)))
    assert done.thread_id != theirs.id
    assert await texts(store, theirs.id) == []


async def test_bad_records_are_told_with_their_lines_and_the_rest_goes_in(store: Store, tmp_path: Path) -> None:
    records = ["nonsense", *talk(2), "[]", {"role": "robot", "content": "x"}, '{"role": "user", "content": "\\ud800"}']
    done = await load_one(store, lines(tmp_path / "file", [*records, *talk(3)[2:]]))
    assert (done.added, done.bad_count, [bad.line for bad in done.bad]) == (3, 4, [1, 4, 5, 6])
    assert await texts(store, done.thread_id) == ["message 0", "message 1", "message 2"]


async def test_bad_records_of_conversations_are_counted_there_and_the_list_of_them_is_bounded(
    store: Store, tmp_path: Path
) -> None:
    a, b = talk(2, thread_id="a"), talk(2, thread_id="b")
    records = ["{first", *a, "{after a", *b, *(["{after b"] * MAX_LISTED), {"role": "x", "thread_id": "a"}]
    one, other = (await load(store, lines(tmp_path / "file", records))).sessions
    assert (one.bad_count, [bad.line for bad in one.bad]) == (3, [1, 4, len(records)])
    assert (other.bad_count, len(other.bad), other.bad[-1].count) == (MAX_LISTED, MAX_LISTED - 1, 2)
    assert other.bad[-1].line == len(records) - 2


async def test_bad_records_may_come_first_however_many_they_are(store: Store, tmp_path: Path) -> None:
    size = MAX_LISTED + 3
    done = await load_one(store, lines(tmp_path / "file", [*["{broken"] * size, *talk(2)]))
    assert (done.added, done.bad_count, len(done.bad)) == (2, size, MAX_LISTED + 1)


async def test_an_id_that_was_used_for_other_words_is_told(store: Store, tmp_path: Path) -> None:
    path = lines(tmp_path / "file", talk(2))
    await load(store, path)
    done = await load_one(store, lines(path, [talk(1)[0], {"role": "assistant", "content": "edited", "id": "m1"}]))
    assert (done.added, done.skipped, done.bad_count, done.bad[0].line) == (0, 1, 1, 2)
    assert "'m1' is used" in done.bad[0].reason
    assert await texts(store, done.thread_id) == ["message 0", "message 1"]


async def test_pictures_are_kept_with_their_message(store: Store, tmp_path: Path) -> None:
    uri = "data:image/png;base64," + base64.b64encode(b"pixels").decode()
    part = {"type": "image_url", "image_url": {"url": uri}}
    done = await load_one(store, lines(tmp_path / "file", [{"role": "user", "content": [part]}]))
    session = await store.sessions.get(done.thread_id)
    assert session is not None
    (turn,) = await store.turns.history(session.active_branch)
    (image,) = turn.user_message.blocks
    assert isinstance(image, ImageBlock)
    assert await store.contents.blob(blob_of(image) or "") == (b"pixels", "image/png")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("Dear diary,\n", "line 1: it is not JSON"),
        ('{"a": 1}', "it has no role"),
    ],
)
async def test_a_file_that_is_something_else_is_refused_whole(
    store: Store, tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=words):
        await load(store, path)
    assert await store.sessions.list(ME) == ()


@pytest.mark.parametrize("content", ["", "[]", "\n \n"])
async def test_a_file_of_nothing_adds_nothing(store: Store, tmp_path: Path, content: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    assert await load(store, path) == Imported(sessions=())


async def test_an_import_waits_for_a_turn_that_is_being_answered(store: Store, tmp_path: Path) -> None:
    session = await store.sessions.create(NewSession(external_id="a"))
    turn = await turn_in(store, session.active_branch, Phase.RESPONSE_FINALIZED)
    loading = asyncio.ensure_future(load(store, lines(tmp_path / "file", talk(2, thread_id="a"))))
    for _ in range(100):
        await asyncio.to_thread(lambda: None)
    assert not loading.done()
    await commit_turn(store, turn)
    assert (await loading).sessions[0].added == 2


async def test_progress_is_told_as_it_goes(store: Store, tmp_path: Path) -> None:
    path = lines(tmp_path / "file", talk(3 * BATCH))
    told: list[tuple[int, int]] = []
    await import_file(store, path, owner=ME, progress=lambda read, messages: told.append((read, messages)))
    assert [messages for _, messages in told] == [BATCH, 2 * BATCH, 3 * BATCH]
    assert told[-1][0] == path.stat().st_size
    assert importer.LONGEST_BATCH > BATCH
