"""A lineage says of every turn what a branch that had copied all turns would know."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.domain.session import Lineage

SAY = -1
Move = tuple[int, int]  # (which branch, SAY or where to fork)


class Copies:
    """The naive model: every branch holds a copy of all turns it sees, each by the name of its owner."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = [[]]
        self.left_at: list[tuple[int | None, int]] = [(None, 0)]

    def play(self, moves: list[Move]) -> None:
        for which, what in moves:
            branch = which % len(self.seen)
            if what == SAY:
                self.seen[branch].append(str(branch))
            else:
                self.fork(branch, what % (len(self.seen[branch]) + 1))

    def fork(self, branch: int, at: int) -> None:
        owner = int(self.seen[branch][at - 1]) if at else int(self.lineage(branch).owner_of(0))
        self.left_at.append((owner, at))
        self.seen.append(self.seen[branch][:at])

    def lineage(self, branch: int) -> Lineage:
        chain: list[tuple[str, int]] = []
        at: int | None = branch
        while at is not None:
            chain.append((str(at), self.left_at[at][1]))
            at = self.left_at[at][0]
        return Lineage.of(chain)


@st.composite
def trees(draw: st.DrawFn) -> Copies:
    moves = draw(
        st.lists(st.tuples(st.integers(0, 20), st.one_of(st.just(SAY), st.just(SAY), st.integers(0, 20))), max_size=40)
    )
    model = Copies()
    model.play(moves)
    return model


@given(trees())
def test_every_turn_has_the_owner_it_was_said_on(model: Copies) -> None:
    for branch, seen in enumerate(model.seen):
        lineage = model.lineage(branch)
        assert [lineage.owner_of(seq) for seq in range(1, len(seen) + 1)] == seen
        assert lineage.owner_of(len(seen) + 1) == str(branch), "what is said next is the branch's own"


@given(trees())
def test_the_first_place_belongs_to_a_branch_that_is_seen(model: Copies) -> None:
    for branch in range(len(model.seen)):
        lineage = model.lineage(branch)
        assert lineage.owner_of(0) == lineage.stretches[0].branch_id


@given(trees())
def test_stretches_neither_overlap_nor_leave_gaps(model: Copies) -> None:
    for branch in range(len(model.seen)):
        stretches = model.lineage(branch).stretches
        expected = 1
        for stretch in stretches[:-1]:
            assert stretch.first == expected
            assert stretch.last is not None
            assert stretch.last >= stretch.first
            expected = stretch.last + 1
        own = stretches[-1]
        assert (own.branch_id, own.first, own.last) == (str(branch), expected, None)


@given(trees(), st.integers(-2, 45))
def test_walking_backwards_meets_every_earlier_turn_once(model: Copies, before: int) -> None:
    for branch, seen in enumerate(model.seen):
        ahead = [str(branch)] * max(0, before - 1 - len(seen))  # places not reached yet are the branch's own
        met = [
            (owner, seq)
            for owner, first, last in model.lineage(branch).backwards(before)
            for seq in range(last, first - 1, -1)
        ]
        expected = [(owner, seq) for seq, owner in enumerate([*seen, *ahead], start=1) if seq < before]
        assert met == expected[::-1]
