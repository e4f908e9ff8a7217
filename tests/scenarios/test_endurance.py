from __future__ import annotations

from pathlib import Path

from benchmarks.endurance import Endured, endure
from tests.sizes import sized


async def test_memory_stays_flat(tmp_path: Path) -> None:
    endured = await endure(tmp_path, sized(400, 4_000))
    assert endured.flat, str(endured)


def test_growth_is_seen() -> None:
    assert not Endured(turns=8, kilobytes=[100, 100, 110, 110], objects=[5, 5, 5, 5]).flat
    assert not Endured(turns=8, kilobytes=[100, 100, 100, 100], objects=[100, 100, 100, 106]).flat
    assert Endured(turns=8, kilobytes=[100, 90, 110, 104], objects=[100, 100, 100, 104]).flat
