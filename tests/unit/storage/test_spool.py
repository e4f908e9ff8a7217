"""The spool: durable before it is acknowledged, one process's alone, readable whatever a crash did to its end."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.turn import TurnEnd
from contextinfinity.errors import LedgerFailed
from contextinfinity.storage.replay import Landing
from contextinfinity.storage.standby.records import EndHeld, TextHeld, TurnHeld, cargo_of, in_order, written
from contextinfinity.storage.standby.spool import Spool, records_in, waiting
from contextinfinity.testing.builders import broken_off, new_turn

RECORDS = [b"one", b"two" * 1000, "drei ü".encode()]


async def filled(folder: Path, *records: bytes) -> Path:
    """A spool of a process that is gone."""
    spool = Spool.begin(folder, new_id())
    await spool.append(*records)
    spool.close()
    return spool.path


async def test_what_was_appended_is_there_in_order_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = await filled(tmp_path / "spool", *RECORDS)
    assert records_in(path) == RECORDS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_those_who_append_at_once_are_all_kept(tmp_path: Path) -> None:
    spool = Spool.begin(tmp_path, "w")
    texts = [f"record {number}".encode() for number in range(100)]
    await asyncio.gather(*(spool.append(text) for text in texts))
    spool.close()
    assert sorted(record or b"" for record in records_in(spool.path)) == sorted(texts)


async def test_a_spool_is_held_by_one_process_and_taken_over_once(tmp_path: Path) -> None:
    spool = Spool.begin(tmp_path, "w")
    await spool.append(b"held")
    assert waiting(tmp_path) == ["w"]
    assert Spool.take(tmp_path, "w") is None, "its process lives"
    spool.close()
    taken = Spool.take(tmp_path, "w")
    assert taken is not None
    assert Spool.take(tmp_path, "w") is None, "somebody is at it already"
    assert taken.read() == [b"held"]
    taken.remove()
    assert waiting(tmp_path) == []
    assert Spool.take(tmp_path, "w") is None


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 3100), junk=st.binary(max_size=20))
def test_wherever_a_crash_tears_the_end_what_stands_before_it_is_read(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes
) -> None:
    path = asyncio.run(filled(tmp_path_factory.mktemp("spool"), *RECORDS))
    data = path.read_bytes()
    path.write_bytes(data[: min(cut, len(data) - 1)])
    found = records_in(path)
    assert found == RECORDS[: len(found)]
    path.write_bytes(data + b"\0" * len(junk))
    assert records_in(path) == RECORDS, "a file that grew without its content ends where that begins"


async def test_a_record_that_was_damaged_is_told_and_the_others_still_count(tmp_path: Path) -> None:
    records = [written(TextHeld(body=body)) for body in ("one", "two", "three")]
    path = await filled(tmp_path, *records)
    data = bytearray(path.read_bytes())
    data[data.index(b"two")] ^= 0xFF
    path.write_bytes(data)
    cargo = cargo_of(records_in(path))
    assert (cargo.texts, cargo.damaged) == (["one", "three"], 1)


async def test_a_disk_that_refuses_is_told_and_leaves_no_half_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool.begin(tmp_path, "w")
    await spool.append(b"before")
    real = os.fsync

    def refuses(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuses)
    with pytest.raises(LedgerFailed, match="spool"):
        await spool.append(b"refused")
    monkeypatch.setattr(os, "fsync", real)
    await spool.append(b"after")
    spool.close()
    assert records_in(spool.path) == [b"before", b"after"]


def test_what_the_ledger_had_accepted_lands_before_what_was_held() -> None:
    branch, first, second = new_id(), new_id(), new_id()
    held = TurnHeld(new=new_turn(branch, "held"), said_at=now())
    ends = [EndHeld(turn_id=turn_id, end=broken_off(), failed=True) for turn_id in (second, first)]
    cargo = cargo_of([written(held), *map(written, ends)])
    landings = [item for item in in_order(cargo.turns) if isinstance(item, Landing)]
    assert [landing.turn_id for landing in landings[:2]] == [first, second]
    assert landings[2].new == held.new
    assert isinstance(landings[0].end, TurnEnd)
