"""Simulated editing turns: what prompts cost with cache tiers, and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tier_simulation import plot, report, simulate


@pytest.mark.req("FILES-2", "FILES-5")
def test_tiers_are_the_cheapest_order_and_no_tier_is_rebuilt_without_a_reason(tmp_path: Path) -> None:
    simulation = simulate(tmp_path, turns=90)
    costs = {name: bill.cost for name, bill in simulation.bills.items()}
    assert min(costs, key=lambda name: costs[name]) == "tiers", report(simulation)
    assert simulation.bills["tiers"].share >= 0.92, "the first turns write the tiers; over 300 turns it is 95%"
    assert simulation.unexplained == 0
    assert plot(simulation).count("<polyline") == 4
