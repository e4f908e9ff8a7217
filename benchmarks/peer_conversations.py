"""The same conversation in every library that ``make peers`` installs: append, load, bytes, and a killed process.

Each is used with its local store, as its own documentation does it; ours is ``ConversationMemory``. What a peer is not
made for is said on the page. For the kill, a process appends until it is killed with ``kill -9``, three times on one
store; then the store is opened and what it has is compared with what was acknowledged. The figures of recall are those
of ``peer_stores``: public questions, the same vectors for all.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.asked import locomo
from benchmarks.harness import Bench, Row
from benchmarks.peer_logs import PEERS
from benchmarks.peer_stores import PEERS as PYTHON
from benchmarks.peer_stores import peer_rows
from benchmarks.recall import BUDGETS, without_adversarial

TURNS = 500
KILLS = 3
LEAST_ACKNOWLEDGED = 5
PROGRAM = Path(__file__).parent / "peer_logs.py"
WAIT_SECONDS = 300


async def run(bench: Bench) -> list[Row]:
    """Measure each library in a process of its own."""
    is_small = bench.scale.blocks <= 2
    rows: list[Row] = []
    for peer in ["contextinfinity"] if is_small else PEERS:
        with bench.scratch() as folder:
            rows += await asyncio.to_thread(_measured, peer, folder, 10 if is_small else TURNS)
    return rows if is_small else [*rows, *peer_rows(without_adversarial(locomo()), BUDGETS)]


def _measured(peer: str, folder: Path, turns: int) -> list[Row]:
    what = f"a conversation in {peer}"
    if peer != "contextinfinity" and not PYTHON.is_file():
        return [Row(what=what, result="not measured: `make peers` installs it")]
    (folder / "grown").mkdir()
    ran = subprocess.run(_command(peer, folder / "grown", turns), capture_output=True, text=True, check=False)
    if ran.returncode or not ran.stdout:
        return [Row(what=what, result=f"not measured: {(ran.stderr.strip().splitlines() or ['no output'])[-1][:160]}")]
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    (folder / "killed").mkdir()
    acknowledged, kept = _killed(peer, folder / "killed")
    lost = max(0, acknowledged - kept)
    a_turn = found["bytes"] / found["turns"]
    values = {"append_ms": found["append_ms"], "load_ms": found["load_ms"], "bytes_a_turn": a_turn, "lost": lost}
    return [
        Row(
            what=what,
            target="no acknowledged exchange lost",
            result=(
                f"{found['turns']:,} turns: append {found['append_ms']:.3g} ms, load {found['load_ms']:.3g} ms, "
                f"{a_turn:,.0f} bytes a turn; {lost} of {acknowledged:,} acknowledged lost in {KILLS} kills"
            ),
            met=lost == 0,
            values=values | {f"append_ms_{10 * at}": each for at, each in enumerate(found["series"])},
        ),
        Row(what="  version", result=str(found["version"])),
    ]


def _command(peer: str, folder: Path, turns: int) -> list[str]:
    python = sys.executable if peer == "contextinfinity" else str(PYTHON)
    return [python, str(PROGRAM), peer, str(folder), str(turns)]


def _killed(peer: str, folder: Path) -> tuple[int, int]:
    """Kill a process that appends, some times; return how many exchanges it acknowledged, and how many there are."""
    rng, acknowledged = random.Random(9), 0
    for _ in range(KILLS):
        process = subprocess.Popen(_command(peer, folder, 10**9), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        for _ in range(LEAST_ACKNOWLEDGED + rng.randrange(40)):
            acknowledged += bool(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        acknowledged += process.stdout.read().count(b"\n")
        process.stdout.close()
        process.wait()
    read = subprocess.run(
        [*_command(peer, folder, 0), "--read"], capture_output=True, text=True, check=False, timeout=WAIT_SECONDS
    )
    assert read.returncode == 0, read.stderr[-500:]
    return acknowledged, int(read.stdout.split()[-1])
