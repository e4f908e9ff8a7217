from __future__ import annotations

import subprocess
import sys

from benchmarks.endurance import Endured
from tests.house.repository import ROOT
from tests.sizes import sized


def test_memory_stays_flat() -> None:
    """In a process of its own: what other tests left in this one would be counted and visited too."""
    command = [sys.executable, "-m", "benchmarks.endurance", "--bare", "--turns", str(sized(240, 4_000))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_growth_is_seen() -> None:
    warming = [10, 20, 30, 90]
    assert not Endured(turns=16, kilobytes=[*warming, 100, 100, 110, 110], objects=[5] * 8).flat
    assert not Endured(turns=16, kilobytes=[100] * 8, objects=[*warming, 100, 100, 100, 106]).flat
    assert Endured(turns=16, kilobytes=[*warming, 100, 90, 110, 104], objects=[*warming, 100, 100, 100, 104]).flat
