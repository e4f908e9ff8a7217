"""The rules of the cache tiers, one by one."""

from __future__ import annotations

import random

import pytest

from contextinfinity.workspace.stability import ENTRY, TIERS, ObservedItem, StabilityTracker

TARGET = 100


def files(*names: str, tokens: int = 60, mark: str = "1") -> dict[str, ObservedItem]:
    return {f"file:{name}": ObservedItem(f"{name}{mark}", tokens) for name in names}


def talk(count: int, tokens: int = 20) -> dict[str, ObservedItem]:
    return {f"history:{index}": ObservedItem(str(index), tokens, index % 2 == 0) for index in range(count)}


def rounds(tracker: StabilityTracker, seen: dict[str, ObservedItem], count: int) -> None:
    for _ in range(count):
        tracker.update(seen)


def where(tracker: StabilityTracker) -> dict[str, tuple[str, int]]:
    return {key: (item.tier, item.n) for key, item in tracker.items.items()}


@pytest.mark.req("FILES-2")
def test_an_item_enters_l3_after_three_unchanged_rounds() -> None:
    tracker = StabilityTracker(TARGET)
    seen = files("a")
    places = []
    for _ in range(4):
        tracker.update(seen)
        places.append(where(tracker)["file:a"])
    assert places == [("active", 0), ("active", 1), ("active", 2), ("L3", ENTRY["L3"])]


@pytest.mark.req("FILES-2")
def test_items_that_fill_tiers_climb_to_l0_and_l3_keeps_its_anchors() -> None:
    tracker = StabilityTracker(TARGET)
    rounds(tracker, files(*"abcdefgh"), 40)
    assert {tier: sum(item.tokens for item in tracker.tier(tier)) for tier in TIERS} == {
        "L3": 60,
        "L2": 0,
        "L1": 120,
        "L0": 300,
    }
    assert [item.key for item in tracker.tier("L3")] == ["file:a"], "ties are broken by key"


@pytest.mark.req("FILES-2")
def test_anchors_never_exceed_the_target_and_a_tier_of_anchors_alone_moves_down() -> None:
    tracker = StabilityTracker(TARGET)
    tracker.seed([{f"symbol:{name}": 30 for name in "abcd"}])
    seen = {f"symbol:{name}": ObservedItem(name, 30) for name in "abcd"}
    rounds(tracker, seen, 3)
    assert [item.key for item in tracker.tier("L0")] == ["symbol:d"], "the three others in L1 are anchored"
    assert [item.n for item in tracker.tier("L1")] == [9, 9, 9]
    rounds(tracker, seen, 3)
    assert [item.key for item in tracker.tier("L3")] == ["symbol:a", "symbol:b", "symbol:c"]


@pytest.mark.req("FILES-2")
def test_a_change_in_any_tier_lets_older_history_enter_l3() -> None:
    tracker = StabilityTracker(TARGET)
    tracker.seed([{f"symbol:{name}": 60} for name in "abcdef"])
    said = {f"history:{index}": ObservedItem(str(index), 60, index % 2 == 0) for index in range(6)}
    seen = {f"symbol:{name}": ObservedItem(name, 60) for name in "abcdef"}
    assert not [move for move in tracker.update(seen | said) if move.key.startswith("history:")]
    (victim, *_) = tracker.tier("L1")
    moves = tracker.update(seen | said | {victim.key: ObservedItem("changed", 60)})
    assert {move.source for move in moves if not move.key.startswith("history:")} == {"L1"}, "L3 itself did not change"
    assert [item.key for item in tracker.tier("L3") if item.key.startswith("history:")] == [
        *("history:0", "history:1", "history:2", "history:3")
    ]


@pytest.mark.req("FILES-2")
def test_a_changed_item_falls_to_active_and_its_tier_may_be_filled_from_below() -> None:
    tracker = StabilityTracker(TARGET)
    rounds(tracker, files(*"abcdefgh"), 40)
    tracker.update(files(*"abcdefgh"))
    (victim, *_) = tracker.tier("L1")
    seen = files(*"abcdefgh") | {victim.key: ObservedItem("changed", 60)}
    moves = tracker.update(seen)
    assert where(tracker)[victim.key] == ("active", 0)
    assert any(move.key == victim.key and move.source == "L1" and move.reason == "changed" for move in moves)


@pytest.mark.req("FILES-2")
def test_nothing_moves_while_nothing_changes() -> None:
    tracker = StabilityTracker(TARGET)
    seen = files(*"abcdefgh") | talk(20)
    rounds(tracker, seen, 60)
    assert [tracker.update(seen) for _ in range(20)] == [[]] * 20


@pytest.mark.req("FILES-2")
def test_a_file_that_is_gone_or_closed_breaks_its_tier() -> None:
    tracker = StabilityTracker(TARGET)
    tracker.seed([{"symbol:a": 60}, {"symbol:b": 60}])
    rounds(tracker, files("c"), 4)
    moves = tracker.update({}, exists=lambda path: path != "a")
    reasons = {move.key: move.reason for move in moves if not move.target}
    assert reasons == {"symbol:a": "the file was deleted", "file:c": "no longer in the context"}
    assert tracker.items.keys() == {"symbol:b"}


@pytest.mark.req("FILES-2")
def test_one_large_cluster_is_spread_too_so_that_no_tier_is_empty() -> None:
    tracker = StabilityTracker(TARGET)
    tracker.seed([{f"symbol:{number:03}": 30 for number in range(100)}, {"symbol:other": 30}])
    held = {tier: [item.key for item in tracker.tier(tier)] for tier in ("L1", "L2", "L3")}
    assert all(30 <= len(keys) <= 36 for keys in held.values()), held
    assert "symbol:000 symbol:001" in " ".join(max(held.values(), key=lambda keys: "symbol:000" in keys)), (
        "in their order"
    )


@pytest.mark.req("FILES-2")
def test_seeds_spread_whole_clusters_over_l1_to_l3_and_take_their_first_hash_without_falling() -> None:
    tracker = StabilityTracker(TARGET)
    tracker.seed([{"symbol:a": 50, "symbol:b": 50}, {"symbol:c": 40}, {"symbol:d": 40}, {"symbol:e": 10}])
    tiers = {item.key: item.tier for item in tracker.items.values()}
    assert tiers["symbol:a"] == tiers["symbol:b"]
    assert {*tiers.values()} == {"L1", "L2", "L3"}
    tracker.compare({key: ObservedItem("real", 50) for key in tiers})
    assert {item.key: item.tier for item in tracker.items.values()} == tiers


@pytest.mark.req("FILES-2")
def test_a_tier_under_the_target_moves_down_keeping_n_but_never_from_l3_or_l0() -> None:
    tracker = StabilityTracker(TARGET)
    for tier, key in (("L2", "symbol:a"), ("L0", "symbol:b"), ("L3", "symbol:c")):
        tracker.seed([{key: 10}])
        tracker.items[key].tier, tracker.items[key].n = tier, ENTRY[tier]
    moves = tracker.update({})
    assert {key: tier for key, (tier, _) in where(tracker).items()} == {
        "symbol:a": "L3",
        "symbol:b": "L0",
        "symbol:c": "L3",
    }
    assert where(tracker)["symbol:a"][1] > ENTRY["L2"]
    assert [move.key for move in moves] == ["symbol:a"]
    assert tracker.update({}) == [], "it does not climb into a tier that it cannot fill"


@pytest.mark.req("FILES-2")
def test_history_enters_l3_only_when_it_is_rebuilt_and_in_whole_pairs() -> None:
    tracker = StabilityTracker(TARGET)
    rounds(tracker, files("a") | talk(21), 3)
    assert {item.tier for item in tracker.items.values()} == {"active"}
    tracker.update(files("a") | talk(21))
    entered = [item.key for item in tracker.tier("L3") if item.key.startswith("history:")]
    assert entered == [f"history:{index}" for index in range(16)], "the newest 100 tokens stay active, pairs are whole"
    rounds(tracker, files("a") | talk(40), 20)
    assert len(tracker.tier("L3")) == 17, "L3 was stable"
    assert not any(item.key.startswith("history:") for tier in ("L2", "L1", "L0") for item in tracker.tier(tier))


@pytest.mark.req("FILES-2")
def test_purging_the_history_breaks_l3_until_the_next_round() -> None:
    tracker = StabilityTracker(TARGET)
    rounds(tracker, files("a") | talk(20), 5)
    tracker.purge_history()
    assert not any(key.startswith("history:") for key in tracker.items)
    tracker.compare(files("a") | talk(12))
    moves = tracker.update(files("a") | talk(12))
    assert any(move.reason == "the history was replaced" for move in moves)
    assert any(item.key.startswith("history:") for item in tracker.tier("L3")), "the mark set between rounds is kept"


@pytest.mark.req("FILES-2")
@pytest.mark.parametrize("seed", range(5))
def test_no_tier_changes_without_a_logged_move(seed: int) -> None:
    chance, tracker, shown = random.Random(seed), StabilityTracker(TARGET), dict[str, list[tuple[str, str]]]()
    marks = dict.fromkeys("abcdefghijkl", 0)
    opened = set("abc")
    for turn in range(80):
        name = chance.choice(sorted(marks))
        if turn % 3 == 0:
            marks[name] += 1
        if turn % 4 == 0:
            opened ^= {name}
        seen = {f"file:{one}": ObservedItem(f"{one}{marks[one]}", 40) for one in sorted(opened)} | talk(2 * turn)
        moves = tracker.update(seen)
        now = {tier: [(item.key, item.hash) for item in tracker.tier(tier)] for tier in TIERS}
        moved = {tier for move in moves for tier in (move.source, move.target)}
        assert all(now[tier] == shown.get(tier, []) or tier in moved for tier in TIERS)
        shown = now
