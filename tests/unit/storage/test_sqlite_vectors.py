"""Vectors in SQLite: packs, copies in memory that never lie, and generations that can be lost."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import numpy as np
import pytest

from contextinfinity.domain.ids import BranchId, ChunkId
from contextinfinity.domain.search import Chunk, NewChunk, Scope, packed, unpacked
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.storage.contract import Vectors
from contextinfinity.storage.ledger.matrices import Matrices, MatrixOwner
from contextinfinity.storage.ledger.rows import pack
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.sqlite.vector_search import newer
from contextinfinity.storage.sqlite.vector_table import SqliteVectors
from contextinfinity.storage.sqlite.vector_writes import drop_vectors
from contextinfinity_testing.builders import embedding, exchange, new_branch, slice_of

SPACE, DIM, LEAST = "small", 16, 300
EVERYWHERE = Scope()
ANN, BEN = Owner(user_id="ann"), Owner(user_id="ben")


def row(rng: random.Random) -> list[float]:
    return [rng.gauss(0, 1) for _ in range(DIM)]


async def fill(store: SqliteStore, branch_id: BranchId, rng: random.Random, size: int) -> list[Chunk]:
    """Index a turn of many chunks, with vectors anywhere."""
    text = "".join(f"<{rng.random():.12f}>" for _ in range(size))
    (turn,) = await store.turns.record(branch_id, [exchange(text)])
    news: list[NewChunk] = [
        slice_of(text, text[at : at + 16], embedding=embedding(SPACE, *row(rng))) for at in range(0, len(text), 16)
    ]
    return list(await store.chunks.index(turn.id, news))


async def brute_force(store: SqliteStore, chunk_ids: list[ChunkId], query: bytes, most: int) -> list[float]:
    """Return the highest cosines, looked for one by one."""
    bodies = await store.vectors.bodies(SPACE, chunk_ids)
    rows = np.stack([unpacked(body) for body in bodies if body is not None])
    wanted = unpacked(query)
    cosines = rows @ wanted / np.linalg.norm(rows, axis=1) / np.linalg.norm(wanted)
    return sorted(cosines.tolist(), reverse=True)[:most]


async def cosines(vectors: Vectors, query: bytes, scope: Scope = EVERYWHERE, most: int = 10) -> list[float]:
    return [hit.similarity for hit in await vectors.near(query, SPACE, scope, most=most)]


def query(rng: random.Random) -> bytes:
    return packed(np.array(row(rng), np.float32))


def counted(path: Path, table: str) -> int:
    connection = apsw.Connection(str(path))
    count: int = connection.execute(f"SELECT count(*) FROM {table}").get
    connection.close()
    return count


async def drop_chunks(store: SqliteStore, chunks: list[Chunk]) -> None:
    """Remove chunks within a deletion of their session: the ledger lets none go otherwise."""

    def remove(connection: SqliteConnection) -> None:
        for chunk in chunks:
            key = connection.raw.execute("SELECT key FROM chunk WHERE id = ?", (pack(chunk.id),)).get
            drop_vectors(connection, [key])
            connection.raw.execute("INSERT INTO deletion VALUES (?, 'test', 0)", (pack(chunk.session_id),))
            connection.raw.execute("DELETE FROM chunk WHERE key = ?", (key,))
            connection.raw.execute("DELETE FROM deletion WHERE session_id = ?", (pack(chunk.session_id),))

    await store.database.write(remove)


# --- packs ---


@pytest.mark.req("RETRIEVE-2")
async def test_the_256th_vector_of_a_session_makes_a_pack(ledger: SqliteStore, ledger_path: Path) -> None:
    rng, branch, other = random.Random(1), await new_branch(ledger), await new_branch(ledger)
    for size, packs, loose in ((200, 0, 200), (55, 0, 255), (1, 1, 0), (300, 2, 44)):
        await fill(ledger, branch.id, rng, size)
        assert (counted(ledger_path, "vector_pack"), counted(ledger_path, "loose_vector")) == (packs, loose)
    await fill(ledger, other.id, rng, 255)
    assert (counted(ledger_path, "vector_pack"), counted(ledger_path, "loose_vector")) == (2, 44 + 255)
    assert counted(ledger_path, "vector") == 256 + 300 + 255


@pytest.mark.req("RETRIEVE-2")
async def test_vectors_are_found_and_read_after_a_restart(ledger_path: Path) -> None:
    rng, store = random.Random(2), SqliteStore(ledger_path)
    chunks = await fill(store, (await new_branch(store)).id, rng, 300)
    ids, question = [chunk.id for chunk in chunks], query(rng)
    before = await store.vectors.bodies(SPACE, ids), await store.vectors.near(question, SPACE, EVERYWHERE)
    await store.close()
    again = SqliteStore(ledger_path)
    assert (await again.vectors.bodies(SPACE, ids), await again.vectors.near(question, SPACE, EVERYWHERE)) == before
    await again.close()


async def test_the_reference_view_shows_loose_and_packed_vectors(ledger: SqliteStore, ledger_path: Path) -> None:
    rng, branch = random.Random(3), await new_branch(ledger)
    chunks = await fill(ledger, branch.id, rng, 300)
    bodies = await ledger.vectors.bodies(SPACE, [chunk.id for chunk in chunks])
    connection = apsw.Connection(str(ledger_path))
    shown = connection.execute("SELECT id, embedding_model, embedding_dim, embedding FROM chunks").fetchall()
    connection.close()
    wanted = {chunk.id: (SPACE, DIM, body) for chunk, body in zip(chunks, bodies, strict=True)}
    assert {name: tuple(rest) for name, *rest in shown} == wanted


# --- copies in memory ---


async def test_what_another_process_writes_is_found(ledger: SqliteStore, ledger_path: Path) -> None:
    rng, branch = random.Random(4), await new_branch(ledger)
    chunks = await fill(ledger, branch.id, rng, 100)
    scopes = (EVERYWHERE, Scope(session_id=branch.session_id), Scope(owner=Owner()))
    for scope in scopes:
        await cosines(ledger.vectors, query(rng), scope)
    other = SqliteStore(ledger_path)
    chunks += await fill(other, branch.id, rng, 200)
    await other.close()
    question = query(rng)
    wanted = await brute_force(ledger, [chunk.id for chunk in chunks], question, 300)
    for scope in scopes:
        assert await cosines(ledger.vectors, question, scope, 400) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.req("RETRIEVE-2")
@pytest.mark.parametrize("size", [100, 300])
async def test_removed_chunks_are_not_found_and_their_numbers_bring_nothing_back(
    ledger: SqliteStore, ledger_path: Path, size: int
) -> None:
    rng, branch = random.Random(5), await new_branch(ledger)
    chunks = await fill(ledger, branch.id, rng, size)
    scopes = (EVERYWHERE, Scope(session_id=branch.session_id))
    question = query(rng)
    for scope in scopes:
        assert len(await ledger.vectors.near(question, SPACE, scope, most=size)) == size
    gone, left = chunks[1::2], chunks[::2]
    await drop_chunks(ledger, gone)
    for scope in scopes:
        hits = await ledger.vectors.near(question, SPACE, scope, most=size)
        assert {hit.chunk_id for hit in hits} == {chunk.id for chunk in left}
    left += await fill(ledger, branch.id, rng, size)  # new chunks get the numbers of old ones
    wanted = await brute_force(ledger, [chunk.id for chunk in left], question, 3 * size)
    for scope in scopes:
        assert await cosines(ledger.vectors, question, scope, 3 * size) == pytest.approx(wanted, abs=1e-5)
    assert (await ledger.vectors.namespaces())[0].placed == len(left) == counted(ledger_path, "vector")
    assert await ledger.vectors.unplaced(SPACE) == ()


async def test_a_removed_vector_leaves_no_bytes_in_its_pack(ledger: SqliteStore, ledger_path: Path) -> None:
    chunks = await fill(ledger, (await new_branch(ledger)).id, random.Random(6), 256)
    (body,) = await ledger.vectors.bodies(SPACE, [chunks[7].id])
    assert body is not None
    await drop_chunks(ledger, [chunks[7]])
    connection = apsw.Connection(str(ledger_path))
    bodies = connection.execute("SELECT bodies FROM vector_pack").get
    connection.close()
    assert body not in bodies
    await drop_chunks(ledger, chunks[:7] + chunks[8:])
    assert counted(ledger_path, "vector_pack") == 0


@pytest.mark.req("RETRIEVE-2")
async def test_a_chunk_that_takes_a_removed_ones_number_is_seen_to_lack_a_vector(ledger: SqliteStore) -> None:
    branch = await new_branch(ledger)
    chunks = await fill(ledger, branch.id, random.Random(7), 3)
    await drop_chunks(ledger, chunks[2:])
    (turn,) = await ledger.turns.record(branch.id, [exchange("bare")])
    bare = await ledger.chunks.index(turn.id, [slice_of("bare", "bare")])
    assert await ledger.vectors.unplaced(SPACE) == bare


async def test_a_copy_in_memory_holds_each_vector_once(ledger: SqliteStore) -> None:
    branch, matrices = await new_branch(ledger), Matrices(newer)
    for seed, size in enumerate((3, 200, 53, 1, 300, 0)):
        await fill(ledger, branch.id, random.Random(seed), size)
        for whose in (
            MatrixOwner(1, DIM),
            MatrixOwner(1, DIM, session_id=pack(branch.session_id)),
            MatrixOwner(1, DIM, owner=Owner()),
        ):
            rows = await ledger.database.read(lambda connection, whose=whose: matrices.rows(connection, whose))  # type: ignore[misc]
            total = ledger.database.reading(
                lambda connection: connection.raw.execute("SELECT key FROM vector").fetchall()
            )
            assert sorted(rows.keys.tolist()) == [key for (key,) in total.result()]


async def test_copies_in_memory_are_bounded(ledger: SqliteStore) -> None:
    rng, branches, size = random.Random(16), [await new_branch(ledger) for _ in range(4)], 50
    for branch in branches:
        await fill(ledger, branch.id, rng, size)
    matrices = Matrices(newer, memory=2 * size * (DIM + 12))
    for branch in (*branches, *branches):
        whose = MatrixOwner(1, DIM, session_id=pack(branch.session_id))
        rows = await ledger.database.read(lambda connection, whose=whose: matrices.rows(connection, whose))  # type: ignore[misc]
        assert len(rows.keys) == size
        assert matrices.size() <= matrices.memory


async def test_searches_in_many_threads_agree_while_others_write(ledger: SqliteStore) -> None:
    rng, branch = random.Random(8), await new_branch(ledger)
    first = await fill(ledger, branch.id, rng, 200)
    question = query(rng)

    async def ask() -> set[ChunkId]:
        return {hit.chunk_id for hit in await ledger.vectors.near(question, SPACE, EVERYWHERE, most=2000)}

    writes = [fill(ledger, branch.id, random.Random(seed), 50) for seed in range(8)]
    results = await asyncio.gather(*(each for write in writes for each in (write, ask(), ask())))
    for found in results:
        if isinstance(found, set):
            assert found >= {chunk.id for chunk in first}
    assert len(await ask()) == 200 + 8 * 50


# --- generations ---


@pytest.fixture
async def large(ledger: SqliteStore, tmp_path: Path) -> SqliteVectors:
    """A ledger with more vectors than are searched without a file: 400 of Ann's and 50 of Ben's."""
    rng = random.Random(9)
    for owner, size in ((ANN, 300), (BEN, 50), (ANN, 100)):
        branch = await new_branch(ledger, NewSession(owner=owner))
        await fill(ledger, branch.id, rng, size)
    return SqliteVectors(ledger.database, tmp_path / "vectors", least=LEAST)


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "vectors").glob("*.usearch"))


async def found_by_all(ledger: SqliteStore, vectors: SqliteVectors, scope: Scope = EVERYWHERE) -> None:
    """Some questions are answered as by looking at everything; a graph of so few finds all of it."""
    rng = random.Random(10)
    for _ in range(5):
        question = query(rng)
        exact = await cosines(ledger.vectors, question, scope)
        assert await cosines(vectors, question, scope) == pytest.approx(exact, abs=1e-5)


async def test_a_generation_finds_what_looking_at_everything_finds(
    ledger: SqliteStore, large: SqliteVectors, tmp_path: Path
) -> None:
    assert await large.build()
    assert len(files(tmp_path)) == 1
    assert files(tmp_path)[0].stat().st_mode & 0o777 == 0o600
    for scope in (EVERYWHERE, Scope(owner=ANN), Scope(owner=BEN), Scope(types=("Other",)), Scope(types=("Code",))):
        await found_by_all(ledger, large, scope)
    assert not await large.build()


async def test_what_is_newer_than_a_generation_is_found_too(
    ledger: SqliteStore, large: SqliteVectors, tmp_path: Path
) -> None:
    await large.build()
    branch = await new_branch(ledger, NewSession(owner=BEN))
    (new,) = await fill(ledger, branch.id, random.Random(11), 1)
    (body,) = await ledger.vectors.bodies(SPACE, [new.id])
    assert body is not None
    for scope in (EVERYWHERE, Scope(owner=BEN)):
        assert (await large.near(body, SPACE, scope, most=1))[0].chunk_id == new.id
    assert not await large.build()
    await fill(ledger, branch.id, random.Random(12), 100)
    await found_by_all(ledger, large)
    before = files(tmp_path)
    assert await large.build()
    assert len(files(tmp_path)) == 1
    assert files(tmp_path) != before
    await found_by_all(ledger, large)


async def test_removed_chunks_are_not_found_in_a_generation(ledger: SqliteStore, large: SqliteVectors) -> None:
    await large.build()
    question = query(random.Random(13))
    hits = await large.near(question, SPACE, EVERYWHERE, most=20)
    chunks = [await ledger.chunks.get(hit.chunk_id) for hit in hits[::2]]
    await drop_chunks(ledger, [chunk for chunk in chunks if chunk is not None])
    left = await large.near(question, SPACE, EVERYWHERE, most=10)
    assert [hit.chunk_id for hit in left] == [hit.chunk_id for hit in hits[1::2]]
    await found_by_all(ledger, large)


def _damage(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)


@pytest.mark.parametrize(
    "harm",
    [
        Path.unlink,
        _damage,
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        lambda path: path.write_bytes(b""),
    ],
    ids=["lost", "damaged", "cut short", "empty"],
)
async def test_a_generation_that_is_lost_or_damaged_is_noticed_and_made_anew(
    ledger: SqliteStore, large: SqliteVectors, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    await large.build()
    harm(files(tmp_path)[0])
    opened = SqliteVectors(ledger.database, tmp_path / "vectors", least=LEAST)
    await found_by_all(ledger, opened)
    assert await opened.build()
    assert len(files(tmp_path)) == 1
    await found_by_all(ledger, opened)
    assert not await opened.build()


async def test_a_generation_of_a_killed_builder_is_cleared_away(
    ledger: SqliteStore, large: SqliteVectors, tmp_path: Path
) -> None:
    folder = tmp_path / "vectors"
    folder.mkdir()
    left = [folder / "ledger.db.1.partial", folder / "ledger.db.2.usearch"]
    others = [folder / "another.db.1.usearch"]
    for path in (*left, *others):
        path.write_bytes(b"half of it")
    await found_by_all(ledger, large)
    assert await large.build()
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in others)


async def test_of_several_builders_one_builds(ledger: SqliteStore, large: SqliteVectors, tmp_path: Path) -> None:
    (tmp_path / "vectors").mkdir()
    lock = tmp_path / "vectors" / "ledger.db.lock"
    script = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'w')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as builder:
        assert builder.stdout is not None
        assert builder.stdout.readline() == b"locked\n"
        assert not await large.build()
        builder.communicate()
    assert await large.build()


@pytest.mark.req("RETRIEVE-3")
async def test_a_namespace_has_its_generation_before_it_is_switched_to(
    ledger: SqliteStore, large: SqliteVectors, tmp_path: Path
) -> None:
    rng = random.Random(14)
    await large.open("other", DIM)
    while missing := await large.unplaced("other"):
        assert not files(tmp_path)
        await large.place("other", [(chunk.id, query(rng)) for chunk in missing])
    assert await large.build()
    assert len(files(tmp_path)) == 2
    await found_by_all(ledger, large)
    assert await large.switch("other")
    while await large.drop_old():
        pass
    question = query(rng)
    hits = await large.near(question, "other", EVERYWHERE, most=5)
    exact = await ledger.vectors.near(question, "other", EVERYWHERE, most=5)
    assert [hit.chunk_id for hit in hits] == [hit.chunk_id for hit in exact]
    assert await large.near(question, SPACE, EVERYWHERE) == ()


async def test_few_vectors_need_no_file(ledger: SqliteStore, tmp_path: Path) -> None:
    await fill(ledger, (await new_branch(ledger)).id, random.Random(15), 20)
    assert not await ledger.vectors.build()
    assert not (tmp_path / "vectors").exists()
