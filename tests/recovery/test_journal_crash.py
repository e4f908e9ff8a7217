"""Journals across processes that die, run out of room, and read each other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from contextinfinity.domain.ids import new_id
from contextinfinity.errors import LedgerBusy
from contextinfinity.storage.journal import JournalFolder

STREAMING = """
import json, pathlib, sys
from contextinfinity.storage.journal import JournalFolder

folder = JournalFolder(pathlib.Path(sys.argv[1]), flush_ms=1, flush_bytes=2000, fsync_ms=3)
journal = folder.open(sys.argv[2], "openai")
told = -1
while True:
    text = f"word {journal.displayed} "
    journal.append("delta", text, shown=len(text))
    now = journal.durability()
    assert now.displayed >= now.durable
    if now.durable != told:
        told = now.durable
        print(told, flush=True)
"""

FILLING = """
import json, pathlib, resource, sys
from contextinfinity.errors import LedgerFull
from contextinfinity.storage.journal import JournalFolder

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
folder = JournalFolder(pathlib.Path(sys.argv[1]))
journal = folder.open(sys.argv[2], "openai")
for number in range(20):
    journal.append("delta", number, shown=1)
journal.sync()
durable = journal.durable
try:
    while True:
        journal.append("delta", "x" * 700, shown=700)
except LedgerFull as error:
    print(json.dumps({"durable": durable, "still": journal.durable, "message": str(error)}), flush=True)
try:
    folder.close()
except LedgerFull:
    print("closed", flush=True)
"""

FOLLOWING = """
import asyncio, json, pathlib, sys
from contextinfinity.storage.journal import JournalFolder

async def main(folder, step, after):
    async for entry in JournalFolder(pathlib.Path(folder)).tail(step, int(after)):
        print(json.dumps([entry.seq, entry.payload]), flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def streams(tmp_path: Path) -> Path:
    return tmp_path / "streams"


def child(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.req("STREAM-1", "STREAM-2")
@pytest.mark.parametrize("reports", [1, 5, 40])
def test_a_killed_stream_keeps_everything_it_had_called_durable(streams: Path, reports: int) -> None:
    step = new_id()
    writer = child(STREAMING, streams, step)
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(reports)]
    with pytest.raises(LedgerBusy):
        JournalFolder(streams).open(step, "openai")
    writer.kill()
    told += [int(line) for line in writer.communicate()[0].splitlines(keepends=True) if line.endswith("\n")]

    folder = JournalFolder(streams)
    kept = list(folder.read(step))
    text = "".join(entry.payload for entry in kept)
    assert [entry.seq for entry in kept] == list(range(1, len(kept) + 1))
    assert len(text) >= told[-1]
    written = ""
    while len(written) < len(text):
        written += f"word {len(written)} "
    assert text == written, "in order, nothing lost in between and nothing doubled"

    journal = folder.open(step, "openai")  # the dead writer's lock went with it
    assert journal.append("interrupted", None) == len(kept) + 1
    journal.end(None)
    assert [entry.event_type for entry in folder.read(step, after=len(kept))] == ["interrupted", "end"]
    folder.close()


@pytest.mark.req("STREAM-1")
def test_another_process_follows_from_the_first_entry_to_the_end(streams: Path) -> None:
    step = new_id()
    folder = JournalFolder(streams, flush_ms=2, fsync_ms=50)
    journal = folder.open(step, "openai")
    journal.append("delta", "é漢😀 0")
    followers = [child(FOLLOWING, streams, step, after) for after in (0, 3)]
    first = followers[0].stdout
    assert first is not None
    assert json.loads(first.readline()) == [1, "é漢😀 0"]
    for number in range(1, 3000):
        journal.append("delta", f"é漢😀 {number}")
        if number % 500 == 0:
            assert json.loads(first.readline())[0] > 1, "it goes on while we write"
    journal.end("over")
    expected = [[number + 1, f"é漢😀 {number}"] for number in range(3000)] + [[3001, "over"]]
    heads = 1 + 2999 // 500
    outputs = [[json.loads(line) for line in follower.communicate()[0].splitlines()] for follower in followers]
    assert outputs == [expected[heads:], expected[3:]]
    assert [follower.returncode for follower in followers] == [0, 0]
    folder.close()


@pytest.mark.req("STREAM-2")
def test_a_disk_that_fills_up_keeps_what_was_durable(streams: Path) -> None:
    step = new_id()
    writer = child(FILLING, streams, step)
    output = writer.communicate()[0].splitlines()
    assert writer.returncode == 0
    report = json.loads(output[0])
    assert f"{step}.jsonl cannot grow: the disk is full" in report["message"]
    assert report["durable"] == report["still"] == 20
    assert output[1:] == ["closed"]
    folder = JournalFolder(streams)
    kept = list(folder.read(step))
    assert [entry.payload for entry in kept[:20]] == list(range(20))
    assert (streams / f"{step}.jsonl").stat().st_size == 20_000, "the last line is torn"
    assert folder.open(step, "openai").append("delta", "room again") == len(kept) + 1
    assert [entry.seq for entry in folder.read(step)] == list(range(1, len(kept) + 2))
    folder.close()
