"""Simulated editing turns: what prompts cost with cache tiers, and without."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.tier_simulation import plot, report, simulate, steps


@pytest.mark.req("FILES-2", "FILES-5")
@pytest.mark.parametrize("seed", [1, 3])
def test_tiers_are_the_cheapest_order_and_no_tier_is_rebuilt_without_a_reason(tmp_path: Path, seed: int) -> None:
    simulation = simulate(tmp_path, turns=90, seed=seed)
    costs = {name: bill.cost for name, bill in simulation.bills.items()}
    assert min(costs, key=lambda name: costs[name]) == "tiers", report(simulation)
    assert simulation.bills["tiers"].share > simulation.bills["flat"].share, report(simulation)
    assert simulation.unexplained == 0
    assert plot(simulation).count("<polyline") == 4


def test_the_history_of_a_git_repository_is_replayed_change_by_change(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    git = ["git", "-C", str(repository), "-c", "user.name=A", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number in range(12):
        (repository / f"file_{number % 3}.py").write_text(
            f"def first():\n    return {number}\n" + "# line\n" * 9 + "x\n"
        )
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", f"change {number}"], check=True)
    simulation = simulate(tmp_path / "work", turns=2, repository=repository)
    assert simulation.actions["open"] >= 1
    assert simulation.actions["edit"] + simulation.actions["ask"] == 2
    assert steps(b"a\n" * 9, b"b\n" + b"a\n" * 8 + b"c\n") == [
        b"b\n" + b"a\n" * 9,
        b"b\n" + b"a\n" * 8 + b"c\n",
    ]
    assert steps(b"a", None) == [None]
