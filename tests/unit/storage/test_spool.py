"""The spool: durable before it is acknowledged, one process's alone, readable whatever a crash did to its end."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import struct
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from contextinfinity.domain import wire
from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import TurnEnd
from contextinfinity.errors import InvalidInput, LedgerFailed
from contextinfinity.storage.journal.journal_reader import open_lines
from contextinfinity.storage.ledger.replay import ReplayedTurn
from contextinfinity.storage.standby.spool import (
    Record,
    Recorded,
    Spool,
    Spooled,
    is_left,
    names,
    read,
    refused,
    retire,
    rewrite,
    taken,
    written,
)
from contextinfinity_testing.builders import broken_off, exchange, new_turn
from tests.sizes import sized

TEXTS = ["one", "two" * 1000, "drei ü"]


async def filled(folder: Path, *records: Record) -> Path:
    """A spool of a process that has ended."""
    spool = Spool(folder, new_id())
    await spool.append([written(record) for record in records])
    spool.close()
    return spool.path


async def test_what_was_appended_is_there_in_order_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = await filled(tmp_path / "spool", *TEXTS)
    assert list(read(path).texts) == TEXTS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_spool_is_a_journal(tmp_path: Path) -> None:
    path = await filled(tmp_path, NewSession(id=new_id()), *TEXTS)
    lines = open_lines(path)
    assert lines is not None
    assert [(entry.seq, entry.event_type) for entry in lines.next_block()] == [
        (1, "session"),
        (2, "text"),
        (3, "text"),
        (4, "text"),
    ]
    lines.close()


async def test_those_who_append_at_once_are_all_kept(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "w")
    texts = [f"record {number}" for number in range(100)]
    await asyncio.gather(*(spool.append([written(text)]) for text in texts))
    spool.close()
    assert sorted(read(spool.path).texts) == sorted(texts)


async def test_a_spool_is_locked_by_one_process_and_taken_over_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "w")
    await spool.append([written("held")])
    assert names(tmp_path) == ["w"]
    assert not is_left(spool.path), "its process lives"
    spool.close()
    assert is_left(spool.path)
    with taken(spool.path) as is_mine:
        assert is_mine
        assert not is_left(spool.path), "it is being replayed already"
        retire(spool.path)
    assert names(tmp_path) == []
    assert not is_left(spool.path)


async def test_a_spool_that_is_removed_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, path = fcntl.flock, tmp_path / "w.spool"

    def removed_first(descriptor: int, operation: int) -> None:
        """Another process finds the new file empty and unlocked, and removes it."""
        monkeypatch.setattr(fcntl, "flock", real)
        path.unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    spool = Spool(tmp_path, "w")
    await spool.append([written("kept")])
    spool.close()
    assert list(read(path).texts) == ["kept"]


@settings(max_examples=sized(20, 300), deadline=None)
@given(cut=st.integers(0, 3500))
def test_wherever_a_crash_tears_the_end_what_stands_before_it_is_read(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = asyncio.run(filled(tmp_path_factory.mktemp("spool"), *TEXTS))
    data = path.read_bytes()
    path.write_bytes(data[: min(cut, len(data) - 1)])
    found = read(path)
    assert list(found.texts) == TEXTS[: len(found.texts)]
    assert found.damaged == 0
    path.write_bytes(data + b"\0" * cut)
    assert list(read(path).texts) == TEXTS, "a file that grew without its content ends where that begins"


async def test_a_line_that_was_damaged_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    path = await filled(tmp_path, "one", "two", "three")
    data = bytearray(path.read_bytes())
    data[data.index(b"two")] ^= 0xFF
    path.write_bytes(data)
    spooled = read(path)
    assert (list(spooled.texts), spooled.damaged) == (["one", "three"], 1)


async def test_a_disk_that_refuses_is_told_and_leaves_no_half_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path, "w")
    await spool.append([written("before")])
    real = os.fsync

    def refuses(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuses)
    with pytest.raises(LedgerFailed, match="spool"):
        await spool.append([written("refused")])
    monkeypatch.setattr(os, "fsync", real)
    await spool.append([written("after")])
    spool.close()
    assert list(read(spool.path).texts) == ["before", "after"]


def test_what_cannot_be_written_as_unicode_is_refused_before_it_is_appended() -> None:
    with pytest.raises(InvalidInput):
        written("lone \ud800")


async def test_the_records_of_a_turn_are_put_together(tmp_path: Path) -> None:
    new = new_turn(new_id(), "held")
    turn_id, end = new.id or new_id(), broken_off()
    said = Recorded(branch_id=new.branch_id, exchange=exchange("q", "a"))
    begun = ReplayedTurn(turn_id=turn_id, new=new, said_at=now())
    path = await filled(tmp_path, begun, said, ReplayedTurn(turn_id=turn_id, end=end, failed=True))
    spooled = read(path)
    assert spooled.turns[turn_id] == ReplayedTurn(turn_id=turn_id, new=new, said_at=begun.said_at, end=end, failed=True)
    assert said in spooled.turns.values()
    rewrite(path, spooled)
    assert read(path) == spooled
    rewrite(path, Spooled())
    assert not path.exists()


def test_what_the_ledger_had_accepted_lands_before_what_was_held() -> None:
    branch, first, second = new_id(), new_id(), new_id()
    spooled, held = Spooled(), new_turn(branch, "held")
    spooled.add(ReplayedTurn(turn_id=new_id(), new=held, said_at=now()))
    for turn_id in (second, first):
        spooled.add(ReplayedTurn(turn_id=turn_id, end=broken_off(), failed=True))
    landings = [item for item in spooled.in_order() if isinstance(item, ReplayedTurn)]
    assert [landing.turn_id for landing in landings[:2]] == [first, second]
    assert landings[2].new == held
    assert isinstance(landings[0].end, TurnEnd)


def test_a_spool_of_the_first_release_is_read(tmp_path: Path) -> None:
    session, new, end = NewSession(id=new_id()), new_turn(new_id(), "held"), broken_off()
    new = replace(new, id=new_id())
    said = replace(exchange("q", "a"), id=new_id())
    forms = [
        {"type": "session", "new": session},
        {"type": "text", "body": "a text"},
        {"type": "turn", "new": new, "said_at": now()},
        {"type": "end", "turn_id": new.id, "end": end, "failed": True},
        {"type": "exchange", "branch_id": new.branch_id, "exchange": said},
    ]
    frames = [struct.pack("<II", len(body), crc32(body)) + body for body in map(wire.dumps, forms)]
    path = tmp_path / "old.spool"
    path.write_bytes(b"".join(frames) + frames[0][:-3])
    spooled = read(path)
    assert (spooled.sessions, list(spooled.texts), spooled.damaged) == ({session.id: session}, ["a text"], 0)
    turn, recorded = spooled.turns.values()
    assert isinstance(turn, ReplayedTurn)
    assert (turn.turn_id, turn.new, turn.end, turn.failed) == (new.id, new, end, True)
    assert recorded == Recorded(branch_id=new.branch_id, exchange=said)


async def test_a_refused_spool_says_why_in_its_last_line(tmp_path: Path) -> None:
    path = await filled(tmp_path, *TEXTS)
    retire(path, "turn 1: There is no branch.")
    kept = path.with_suffix(".refused")
    assert refused(tmp_path) == {kept: "turn 1: There is no branch."}
    assert (list(read(kept).texts), read(kept).damaged) == (TEXTS, 0)


async def test_a_refused_spool_never_replaces_an_earlier_one(tmp_path: Path) -> None:
    for text in TEXTS:
        spool = Spool(tmp_path, "w")
        await spool.append([written(text)])
        spool.close()
        with spool.path.open("ab") as file:
            file.write(b'{"ts": torn')
        retire(spool.path, f"it says {text}")
    assert sorted(refused(tmp_path).values()) == sorted(f"it says {text}" for text in TEXTS)
    assert sorted(text for path in refused(tmp_path) for text in read(path).texts) == sorted(TEXTS)
