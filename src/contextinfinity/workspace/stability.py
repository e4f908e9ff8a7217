"""Which parts of a workspace stay unchanged for how long: the tiers of the prompt cache.

Every item (``file:PATH``, ``symbol:PATH``, ``url:HASH``, ``history:INDEX``) has a tier and a count N of rounds without
a change. A round follows each response:

| tier   | enters with N | leaves at N | goes to |
| ------ | ------------- | ----------- | ------- |
| active | 0             | 3           | L3      |
| L3     | 3             | 6           | L2      |
| L2     | 6             | 9           | L1      |
| L1     | 9             | 12          | L0      |
| L0     | 12            | never       |         |

An item that changes returns to active with N = 0, and its old tier is broken: it has to be sent again anyway, so items
from the tier below may move up into it. Every change of a tier is logged with its reason (``moves``).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

log = logging.getLogger(__name__)

ACTIVE, TIERS = "active", ("L3", "L2", "L1", "L0")
"""The cached tiers, in the order in which items climb."""
ENTRY = {ACTIVE: 0, "L3": 3, "L2": 6, "L1": 9, "L0": 12}
LEAVES = {ACTIVE: 3, "L3": 6, "L2": 9, "L1": 12}
ABOVE = {"L3": "L2", "L2": "L1", "L1": "L0"}
BELOW = {"L2": "L3", "L1": "L2"}
HISTORY = "history:"
DEFAULT_TARGET = 1536
"""1.5 times the smallest prefix that most models cache."""


class ObservedItem(NamedTuple):
    """An item in a round: the hash of its content, and its size.

    ``opens`` is False for a message that must not be separated from the one before it.
    """

    hash: str
    tokens: int
    opens: bool = True


@dataclass(slots=True)
class Item:
    """A tracked item; an empty hash is replaced by the first real one without a fall."""

    key: str
    tier: str
    n: int
    hash: str
    tokens: int
    opens: bool = True


class Move(NamedTuple):
    """One logged change of tiers; an empty tier means that the item was not tracked, or no longer is."""

    key: str
    source: str
    target: str
    reason: str


class StabilityTracker:
    """Assigns items to cache tiers. ``target`` is the number of tokens from which a tier is worth a cache entry."""

    def __init__(self, target: int = DEFAULT_TARGET) -> None:
        self.target = target
        self.items: dict[str, Item] = {}
        self.moves: list[Move] = []
        """What moved from the round before the last one up to the last one."""
        self.pending: list[Move] = []
        """What moved since then."""
        self._broken: set[str] = set()
        self._fresh: set[str] = set()
        """Active items that appeared or changed since the last round: they have no unchanged round yet."""

    def tier(self, name: str) -> list[Item]:
        """Return the items of a tier, sorted by key; history by its index."""
        found = [item for item in self.items.values() if item.tier == name]
        return sorted(found, key=lambda item: order_of(item.key))

    def seed(self, clusters: Iterable[Mapping[str, int]]) -> None:
        """Spread clusters (key → tokens) of files that refer to each other over L1 to L3, the smallest tier first.

        A cluster of more than a third of all tokens, and of more than a tier needs, is split in the order of its paths:
        it would leave the other tiers empty.
        """
        sizes = dict.fromkeys(("L1", "L2", "L3"), 0)
        clusters = tuple(clusters)
        limit = max(sum(sum(cluster.values()) for cluster in clusters) / len(sizes), 1.5 * self.target)
        parts = (part for cluster in clusters for part in _parts(cluster, limit))
        for item in self.items.values():
            if item.tier in sizes:
                sizes[item.tier] += item.tokens
        for cluster in sorted(parts, key=lambda cluster: (-sum(cluster.values()), min(cluster, default=""))):
            tier = min(sizes, key=lambda name: (sizes[name], name))
            for key, tokens in cluster.items():
                if key not in self.items:
                    self.items[key] = Item(key, tier, ENTRY[tier], "", tokens)
                    sizes[tier] += tokens

    def drop(self, key: str, reason: str) -> None:
        """Stop tracking an item; its tier is broken."""
        if (item := self.items.pop(key, None)) is not None:
            self._break(item, "", reason)

    def hide(self, key: str, reason: str) -> None:
        """Move an item out of its tier to active, with N = 0: its place in the prompt changes for now."""
        if (item := self.items.get(key)) is not None and item.tier != ACTIVE:
            self._fall(item, reason)

    def replace(self, old: str, new: str, reason: str) -> None:
        """Stop tracking an item; another one takes its place in its tier, which has to be sent again anyway."""
        item, follower = self.items.pop(old, None), self.items.get(new)
        if item is not None and item.tier != ACTIVE:
            self._break(item, "", reason)
            if follower is not None and follower.tier == ACTIVE:
                self.pending.append(Move(new, ACTIVE, item.tier, reason))
                follower.tier, follower.n, follower.hash = item.tier, item.n, ""

    def purge_history(self) -> None:
        """Forget all history items: they were compacted, cleared or replaced."""
        for key in [key for key in self.items if key.startswith(HISTORY)]:
            self.drop(key, "the history was replaced")

    def compare(self, seen: Mapping[str, ObservedItem], exists: Callable[[str], bool] = lambda _: True) -> None:
        """Take up new items, let changed ones fall, and drop what is gone; the marks last until the next round."""
        for key in sorted(self.items.keys() - seen.keys()):
            if key.startswith(("file:", "symbol:")) and not exists(key.partition(":")[2]):
                self.drop(key, "the file was deleted")
            elif not key.startswith("symbol:"):
                self.drop(key, "no longer in the context")
        for key, (hash_, tokens, opens) in seen.items():
            item = self.items.get(key)
            if item is None:
                self.items[key] = Item(key, ACTIVE, 0, hash_, tokens, opens)
                self._fresh.add(key)
            elif item.hash != hash_:
                if item.hash:
                    self._fall(item, "changed")
                    self._fresh.add(key)
                item.hash, item.tokens, item.opens = hash_, tokens, opens

    def update(self, seen: Mapping[str, ObservedItem], exists: Callable[[str], bool] = lambda _: True) -> list[Move]:
        """Run the round that follows a response, and return what moved since the last one.

        ``seen`` are the items as they are now, in the order of the prompt; ``exists`` returns whether a file exists.
        """
        self.compare(seen, exists)  # 1, 2
        self._count(seen)
        for item in self.items.values():  # 3
            if item.tier == ACTIVE and item.n >= LEAVES[ACTIVE] and not item.key.startswith(HISTORY):
                self._enter(item, "L3", "unchanged for 3 rounds")
                self._broken.add("L3")
        self._cascade()  # 4
        self._demote()  # 5
        if self._broken:  # a change in any tier ends the cached prefix there, so L3 is sent again as well
            self._graduate_history()
        self.moves, self.pending, self._broken = self.pending, [], set()
        for move in self.moves:  # 6
            log.debug("cache tier of %s: %s → %s, %s", *move)
        return self.moves

    def _count(self, seen: Mapping[str, ObservedItem]) -> None:
        """Count the round for unchanged items; those that anchor a tier keep their N."""
        tiers = self._by_tier()
        for tier in ABOVE:
            anchored = {item.key for item in self._anchors(tiers[tier])}
            for item in tiers[tier]:
                item.n += item.key not in anchored
        for item in tiers[ACTIVE]:
            item.n += item.key in seen and item.key not in self._fresh
        self._fresh.clear()

    def _cascade(self) -> None:
        """Promote from L3 upwards until nothing moves."""
        tiers = self._by_tier()
        anchored = {item.key for tier in ABOVE for item in self._anchors(tiers[tier])}
        open_tiers = self._broken | {tier for tier in TIERS if not tiers[tier]}
        moved = True
        while moved:
            moved = False
            for source, target in ABOVE.items():
                if target in open_tiers and self._promote(tiers, source, target, anchored):
                    open_tiers.add(source)
                    moved = True

    def _promote(self, tiers: dict[str, list[Item]], source: str, target: str, anchored: set[str]) -> bool:
        """Move what is due up by one tier, unless the tier would stay too small to be kept (L0 is always kept)."""
        due = [
            item
            for item in tiers[source]
            if item.n >= LEAVES[source] and item.key not in anchored and not item.key.startswith(HISTORY)
        ]
        total = sum(item.tokens for item in (*due, *tiers[target]))
        if not due or (target != "L0" and total < self.target):
            return False
        tiers[target] += due
        leaving = {item.key for item in due}
        tiers[source] = [item for item in tiers[source] if item.key not in leaving]
        for item in due:
            self._enter(item, target, f"unchanged for {LEAVES[source]} rounds, and {target} is rebuilt")
        self._broken |= {source, target}
        return True

    def _graduate_history(self) -> None:
        """Let the older history enter L3 in whole pairs, as L3 is sent again anyway; the newest target tokens stay."""
        waiting = [item for item in self.items.values() if item.key.startswith(HISTORY) and item.tier == ACTIVE]
        waiting.sort(key=lambda item: order_of(item.key))
        kept, end = 0, len(waiting)
        while end and kept < self.target:
            end -= 1
            kept += waiting[end].tokens
        while end and end < len(waiting) and not waiting[end].opens:
            end -= 1
        for item in waiting[:end]:
            self._enter(item, "L3", "L3 is rebuilt")

    def _demote(self) -> None:
        """Move the items of a stable tier under the target one tier down, keeping N."""
        tiers, stable = self._by_tier(), BELOW.keys() - self._broken
        for tier in BELOW:
            items = tiers[tier]
            if items and tier in stable and sum(item.tokens for item in items) < self.target:
                self._broken |= {tier, BELOW[tier]}
                for item in items:
                    reason = f"{tier} is smaller than {self.target} tokens"
                    self.pending.append(Move(item.key, tier, BELOW[tier], reason))
                    item.tier = BELOW[tier]

    def _anchors(self, items: Sequence[Item]) -> list[Item]:
        """Return the lowest-N items of a tier up to its target, ties by key; none if it is not over it.

        Once the others left, a tier in the middle is under the target and moves down: it does not hold one of the few
        cache markers for little text.
        """
        if sum(item.tokens for item in items) <= self.target:
            return []
        found, total = [], 0
        for item in sorted(items, key=lambda item: (item.n, item.key)):
            total += item.tokens
            if total > self.target:
                break
            found.append(item)
        return found

    def _by_tier(self) -> dict[str, list[Item]]:
        tiers: dict[str, list[Item]] = defaultdict(list)
        for item in self.items.values():
            tiers[item.tier].append(item)
        return tiers

    def _enter(self, item: Item, tier: str, reason: str) -> None:
        self.pending.append(Move(item.key, item.tier, tier, reason))
        item.tier, item.n = tier, ENTRY[tier]

    def _fall(self, item: Item, reason: str) -> None:
        self._break(item, ACTIVE, reason)
        item.tier, item.n = ACTIVE, 0

    def _break(self, item: Item, target: str, reason: str) -> None:
        if item.tier != ACTIVE:
            self._broken.add(item.tier)
            self.pending.append(Move(item.key, item.tier, target, reason))


def _parts(cluster: Mapping[str, int], limit: float) -> list[dict[str, int]]:
    """Split a cluster into parts of about ``limit`` tokens."""
    parts: dict[int, dict[str, int]] = defaultdict(dict)
    before = 0
    for key in sorted(cluster):
        parts[int(before // max(1, limit))][key] = cluster[key]
        before += cluster[key]
    return list(parts.values())


def order_of(key: str) -> tuple[str, int, str]:
    """Return what sorts keys: by kind, then history by its number and all else by name."""
    kind, _, name = key.partition(":")
    return (kind, int(name), "") if kind == "history" else (kind, 0, name)
