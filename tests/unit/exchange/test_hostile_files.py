"""Files made to hurt an import: each ends with a report of the place, and costs a bounded amount of memory."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import resource
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.session import Owner
from contextinfinity.errors import InvalidInput
from contextinfinity.exchange.export_files import open_export
from contextinfinity.exchange.import_progress import Imported
from contextinfinity.exchange.importer import import_file
from contextinfinity.storage.contract import Store
from contextinfinity.storage.sqlite.store import SqliteStore
from tests.house.repository import ROOT
from tests.recovery.deleting import told

pytestmark = pytest.mark.req("CLI-3")
SAMPLES = ROOT / "tests" / "samples" / "exports"
BLANK = b"[" + b" " * (60 << 20) + b"]"
MOST_MEMORY = 300 << 20

RESPONSES = (
    "CREATE TABLE responses (id, model, prompt, system, response, conversation_id, datetime_utc);"
    "INSERT INTO responses VALUES ('r', 'm', 'hello', NULL, 'hi', 'c', '2025-01-02T03:04:05');"
)
CONVERSATIONS = "CREATE TABLE conversations (id, name);"
TURNS = (
    "CREATE TABLE turns (id, thread_id, tip_message_hash, model, datetime_utc);"
    "CREATE TABLE messages (hash, parent_hash, role);"
    "CREATE TABLE parts (message_hash, position, type, text, payload);"
)
ENDLESS = (
    "WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n AS id, 'x' AS name, n AS datetime_utc"
)
COLUMNS = "'m' AS model, 'p' AS prompt, '' AS system, 'r' AS response, 'c' AS conversation_id"


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = SqliteStore(None)
    yield store
    await store.close()


def chat(name: str = "made", *, question: Any = "how deep?", **fields: Any) -> dict[str, Any]:
    """Make a ChatGPT conversation of a question and an answer."""
    said = {"q": ("user", None, question), "a": ("assistant", "q", "as deep as that")}
    mapping = {
        node: {"parent": parent, "message": {"author": {"role": role}, "content": {"parts": [part]}}}
        for node, (role, parent, part) in said.items()
    }
    return {"id": name, "title": "Made", "mapping": mapping, "current_node": "a", **fields}


GOOD = json.dumps([chat()]).encode()


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Make an archive."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path.read_bytes()


async def load(store: Store, path: Path) -> Imported:
    return await import_file(store, path, owner=Owner())


async def refused(store: Store, path: Path, words: str) -> None:
    """Expect a refusal, and nothing in the ledger."""
    with pytest.raises(InvalidInput, match=words):
        await load(store, path)
    assert not await store.sessions.list(Owner()), path.name


def reasons(imported: Imported) -> list[tuple[str, int, str]]:
    return [(bad.file, bad.line, bad.reason) for one in imported.sessions for bad in one.bad]


def memory_of(path: Path) -> tuple[int, str]:
    """Import a file in another process; return how much memory it took more than before, and its error."""

    def measured() -> tuple[int, str]:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            asyncio.run(load(SqliteStore(None), path))
            problem = ""
        except InvalidInput as error:
            problem = error.message
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10, problem

    taken, problem = told(measured)
    return taken, problem


async def test_a_member_that_no_exporter_writes_is_refused_and_named(store: Store, tmp_path: Path) -> None:
    inner = zipped(tmp_path / "inner", {"conversations.json": GOOD})
    for members, words in (
        ({"conversations.json": inner}, "conversations.json: conversations.json is a zip archive inside another"),
        ({"inner.zip": inner}, "contains no conversations"),
        ({"conversations.json": gzip.compress(GOOD)}, "is a gzip file in an archive"),
        ({"conversations.json": GOOD.decode().encode("utf-16")}, "is UTF-16"),
    ):
        zipped(tmp_path / "x.zip", members)
        await refused(store, tmp_path / "x.zip", words)
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        zipped(tmp_path / "x.zip", {"conversations.json": GOOD}, method)
        await refused(store, tmp_path / "x.zip", "packed with a method")
    link = zipfile.ZipInfo("conversations.json")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    (tmp_path / "target").write_bytes(GOOD)
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, str(tmp_path / "target"))
    await refused(store, tmp_path / "link.zip", "conversations.json, line 1: it is not JSON")


async def test_one_bad_member_does_not_cost_the_others(store: Store, tmp_path: Path) -> None:
    second = json.dumps([chat("second")]).encode()
    members = {"conversations-1.json": GOOD, "conversations-2.json": second, "conversations-3.json": second}
    data = bytearray(zipped(tmp_path / "x.zip", members))
    data[data.index(b"conversations-2.json")] ^= 1  # the name before the data, not the one in the directory
    (tmp_path / "x.zip").write_bytes(data)
    imported = await load(store, tmp_path / "x.zip")
    ((file, line, reason),) = reasons(imported)
    assert (file, line, sum(one.added for one in imported.sessions)) == ("conversations-2.json", 0, 4)
    assert "damaged from here on" in reason
    (folder := tmp_path / "unpacked").mkdir()
    (folder / "conversations-1.json").write_bytes(json.dumps([chat("third")]).encode())
    (folder / "conversations-2.json").write_bytes(second.decode().encode("utf-16"))
    os.mkfifo(folder / "conversations-3.json")
    imported = await load(store, folder)
    assert [(file, line) for file, line, _ in reasons(imported)] == [("conversations-2.json", 0)]
    assert sum(one.added for one in imported.sessions) == 2


async def test_a_damaged_image_costs_that_image_alone(store: Store, tmp_path: Path) -> None:
    pointer = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-Abc"}
    export = json.dumps([chat(question=pointer)]).encode()
    data = bytearray(zipped(tmp_path / "x.zip", {"file-Abc-photo.png": os.urandom(64), "conversations.json": export}))
    begin = data.index(b"photo.png") + len(b"photo.png")
    data[begin : begin + 64] = b"\xff" * 64
    (tmp_path / "x.zip").write_bytes(data)
    imported = await load(store, tmp_path / "x.zip")
    assert (sum(one.added for one in imported.sessions), reasons(imported)) == (2, [])


def test_what_an_archive_claims_of_itself_takes_no_memory(tmp_path: Path) -> None:
    def entry(name: bytes, *, signature: bytes, packed: int = 0, size: int = 0, crc: int = 0) -> bytes:
        fields = (8, 0, 0, crc, packed, size, len(name), 0)
        if signature == b"PK\x03\x04":
            return struct.pack("<4sHHHHHLLLHH", signature, 20, 0, *fields) + name
        return struct.pack("<4sHHHHHHLLLHHHHHLL", signature, 788, 20, 0, *fields, 0, 0, 0, 0, 0) + name

    def archive(path: Path, local: bytes, directory: bytes, count: int) -> Path:
        size = len(directory)
        large = struct.pack("<4sQHHLLQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, len(local))
        locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(local) + size, 1)
        end = struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
        path.write_bytes(local + directory + large + locator + end)
        return path

    crowd = archive(tmp_path / "crowd.zip", b"PK\x03\x04", entry(b"a", signature=b"PK\x01\x02") * 1_500_000, 1_500_000)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data, name = packer.compress(BLANK) + packer.flush(), b"conversations.json"
    sizes = {"packed": len(data), "size": len(BLANK), "crc": zlib.crc32(BLANK)}
    local = entry(name, signature=b"PK\x03\x04", **sizes) + data
    directory = entry(name, signature=b"PK\x01\x02", **sizes) * 1000
    overlapping = archive(tmp_path / "overlapping.zip", local, directory, 1000)
    for path, words in ((crowd, "a part of it has"), (overlapping, "would unpack to 62,914,562,000 bytes")):
        taken, problem = memory_of(path)
        assert words in problem
        assert taken < 50 << 20, path.name


def test_archives_with_random_damage_are_read_or_refused(tmp_path: Path) -> None:
    rng = random.Random(20)
    for name in ("chatgpt.zip", "claude.zip"):
        whole = (SAMPLES / name).read_bytes()
        for _ in range(150):
            data = bytearray(whole)
            for _ in range(rng.choice((1, 1, 2, 8))):
                data[rng.choice((rng.randrange(len(data)), rng.randrange(100), -rng.randrange(1, 200)))] = (
                    rng.randrange(256)
                )
            (tmp_path / "x.zip").write_bytes(data[: rng.choice((len(data), len(data), rng.randrange(len(data))))])
            try:
                with open_export(tmp_path / "x.zip") as export:
                    list(export.records)
            except InvalidInput:
                continue


async def test_a_truncated_gzip_file_gives_what_is_whole_and_says_where_it_ends(store: Store, tmp_path: Path) -> None:
    chats = b"".join(b'{"role":"user","content":"%d %b"}\n' % (n, os.urandom(30).hex().encode()) for n in range(999))
    data = gzip.compress(chats)
    (tmp_path / "x.jsonl.gz").write_bytes(data[: len(data) // 2])
    imported = await load(store, tmp_path / "x.jsonl.gz")
    added = sum(one.added for one in imported.sessions)
    assert 300 < added < 700
    assert [line for _, line, reason in reasons(imported) if "damaged from here on" in reason] == [added + 1]


@pytest.mark.parametrize("depth", [10, 150, 960, 10_000])
async def test_deep_nesting_costs_the_message_that_has_it(store: Store, tmp_path: Path, depth: int) -> None:
    part = '{"x": ' + "[" * depth + "]" * depth + "}"
    deep = json.dumps([chat("deep", question="DEEP"), chat()]).replace('"DEEP"', part)
    (tmp_path / "deep.json").write_text(deep)
    imported = await load(store, tmp_path / "deep.json")
    added = sum(one.added for one in imported.sessions)
    expected = {10: (4, 0), 150: (3, 1), 960: (3, 1), 10_000: (2, 1)}[depth]
    assert (added, len(reasons(imported))) == expected
    assert all("nested" in reason for _, _, reason in reasons(imported))


async def test_ids_that_come_twice_are_reported(store: Store, tmp_path: Path) -> None:
    words = ("one", "two", "three")
    for number, made in enumerate(
        (
            {"messages": [{"id": "m", "role": "user", "content": word} for word in words]},
            {"uuid": "c", "chat_messages": [{"uuid": "m", "sender": "human", "text": word} for word in words]},
            {"conversationId": "l", "messages": [{"messageId": "m", "text": word} for word in words]},
        )
    ):
        (tmp_path / f"{number}.json").write_text(json.dumps(made))
        (one,) = (await load(store, tmp_path / f"{number}.json")).sessions
        assert (one.added, one.skipped, [bad.reason for bad in one.bad]) == (
            1,
            0,
            ["message m: another message of the conversation has its id"] * 2,
        )


@pytest.mark.parametrize(
    ("data", "added", "place"),
    [
        (b"\xef\xbb\xbf" + GOOD, 2, None),
        (GOOD.decode().encode("utf-16-le"), None, "line 1: it is not JSON"),
        (GOOD.decode().encode("utf-32"), None, "UTF-16"),
        (b"\0" * 5000, None, "line 1: it is not JSON"),
        (b'{"role":"user","content":"a"}\n\0\0\n{"role":"assistant","content":"b"}', 2, "line 2: it is not JSON"),
        (b'{"role":"user","content":"a"}\n{"role":"user","content":"caf\xe9"}', 1, "line 2: it is not JSON"),
        (b'{"role":"user","content":"a"}\n{"role":"user","content":"\\ud800"}', 1, "line 2: it is not JSON"),
        (GOOD.replace(b"Made", b"M\\udc00"), 2, None),
    ],
)
async def test_wrong_encodings_are_reported_with_their_line(
    store: Store, tmp_path: Path, data: bytes, added: int | None, place: str | None
) -> None:
    (path := tmp_path / "x.json").write_bytes(data)
    if added is None:
        return await refused(store, path, place or "")
    imported = await load(store, path)
    assert sum(one.added for one in imported.sessions) == added
    assert [f"line {line}: {reason}"[: len(place or "")] for _, line, reason in reasons(imported)] == (
        [place] if place else []
    )
    return None


async def test_any_value_in_the_place_of_a_time_or_a_name_comes_in(store: Store, tmp_path: Path) -> None:
    times = ("31556952000000000", "-1e300", "1" + "0" * 400, '"1717225201.5"', '"nan"', '"1e999"', "[]", "true")
    texts = ('"1000000000-01-01T00:00:00Z"', '"9999-12-31T23:59:59-12:00"', '"0001-01-01T00:00:00+14:00"', '"²²²²²²²²"')
    for number, value in enumerate((*times, *texts)):
        made = chat(f"t{number}", create_time="TIME", title="TIME", current_node="TIME", conversation_id=None)
        made["mapping"]["q"]["message"]["create_time"] = "TIME"
        (tmp_path / "x.json").write_text(json.dumps([made]).replace('"TIME"', value))
        imported = await load(store, tmp_path / "x.json")
        assert (sum(one.added for one in imported.sessions), reasons(imported)) == (2, []), value


def database(path: Path, script: str) -> Path:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(script)
    return path


async def test_views_triggers_and_computed_columns_of_a_database_do_not_run(store: Store, tmp_path: Path) -> None:
    computed = RESPONSES.split(";")[0].replace("prompt", "prompt AS (hex(zeroblob(30000000)))")
    path = tmp_path / "logs.db"
    for script in (
        f"{RESPONSES} CREATE VIEW conversations AS {ENDLESS} FROM t",
        f"{CONVERSATIONS} CREATE VIEW responses AS {ENDLESS}, {COLUMNS} FROM t",
        f"{TURNS} CREATE VIEW threads AS {ENDLESS} FROM t",
        f"{CONVERSATIONS} {computed}; INSERT INTO responses (id) VALUES ('x')",
        f"{RESPONSES} CREATE VIRTUAL TABLE conversations USING fts5(id, name)",
        RESPONSES,
    ):
        await refused(store, database(path, script), "not one of `llm`")
    trigger = "CREATE TRIGGER t AFTER INSERT ON conversations BEGIN DELETE FROM responses; END"
    before = database(path, f"{RESPONSES} {CONVERSATIONS} {trigger}").read_bytes()
    assert [one.added for one in (await load(store, path)).sessions] == [2]
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("logs.db-*"))  # noqa: ASYNC240


async def test_what_cannot_be_read_of_a_database_is_reported(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    row = "INSERT INTO responses VALUES ('s', 'm', CAST(x'ff80' AS TEXT), NULL, 'hi', 'd', '2025')"
    imported = await load(store, database(path, f"{RESPONSES} {CONVERSATIONS} {row}"))
    assert [one.added for one in imported.sessions] == [2]
    ((_, line, reason),) = reasons(imported)
    assert (line, "conversation d cannot be read" in reason) == (1, True)
    many = (f"INSERT INTO responses VALUES ('{n}', 'm', '{'x' * 900}', NULL, 'hi', 'c{n}', '2025');" for n in range(99))
    database(path, f"{RESPONSES} {CONVERSATIONS} {''.join(many)}")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = os.urandom(len(data) - len(data) // 2)
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match="cannot be read"):
        await load(store, path)


def test_a_line_of_100_mb_and_a_gzip_bomb_take_bounded_memory(tmp_path: Path) -> None:
    line, bomb = tmp_path / "line.jsonl", tmp_path / "bomb.json.gz"
    with line.open("wb") as file:
        file.write(b'{"role":"user","content":"' + b"x" * (100 << 20) + b'"}\n{"role":"user","content":"after"}')
    with gzip.open(bomb, "wb", 1) as packed:
        packed.write(b"[")
        for _ in range(5):
            packed.write(BLANK[1:-1])
    for path, words in ((line, ""), (bomb, "times its size")):
        taken, problem = memory_of(path)
        assert words in problem
        assert taken < MOST_MEMORY, path.name
