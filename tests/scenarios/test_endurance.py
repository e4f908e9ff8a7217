from __future__ import annotations

from pathlib import Path

from benchmarks.endurance import Endured, endure


async def test_memory_stays_flat_over_a_thousand_turns(tmp_path: Path) -> None:
    endured = await endure(tmp_path, 1_000)
    assert endured.flat, str(endured)


def test_growth_is_seen() -> None:
    assert not Endured(turns=8, kilobytes=[100, 100, 110, 110], objects=[5, 5, 5, 5]).flat
    assert not Endured(turns=8, kilobytes=[100, 100, 100, 100], objects=[100, 100, 100, 106]).flat
    assert Endured(turns=8, kilobytes=[100, 90, 110, 104], objects=[100, 100, 100, 104]).flat
