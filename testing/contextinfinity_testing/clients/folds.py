"""Tests of a client: folds."""

from __future__ import annotations

import asyncio

import pytest

from contextinfinity.client.contract import Client
from contextinfinity.domain.ids import new_id
from contextinfinity.errors import NotFound, Refused
from contextinfinity_testing.clients.threads import thread_of

LONG = "What was said about the harbour and the ships in it. " * 40


async def long_thread(client: Client) -> str:
    """Create a thread that is long enough for a fold, and too short to be folded automatically."""
    return await thread_of(client, *[f"{number}: {LONG}" for number in range(16)])


class FoldPromises:
    """``Folds``."""

    async def test_a_preview_shows_what_leaves_and_what_stays_and_changes_nothing(self, client: Client) -> None:
        thread = await long_thread(client)
        seen = await client.folds.fold(thread, preview=True)
        assert (seen.committed, seen.covered, seen.summary_before) == (False, 0, "")
        assert seen.case in ("summarize", "truncate")
        assert 0 < seen.covers_turn_seq < 16
        assert seen.leaves[-1].startswith(f"#{seen.covers_turn_seq} ")
        assert seen.stays[0].startswith(f"#{seen.covers_turn_seq + 1} ")
        assert seen.tokens_after < seen.tokens_before
        again = await client.folds.fold(thread, preview=True)
        while again.covers_turn_seq != seen.covers_turn_seq:  # the last turns were still being committed
            seen, again = again, await client.folds.fold(thread, preview=True)
        assert (again.covered, again.summary) == (0, seen.summary)

    async def test_a_fold_does_what_was_previewed_and_can_be_undone(self, client: Client) -> None:
        thread = await long_thread(client)
        seen = await client.folds.fold(thread, preview=True)
        made = await client.folds.fold(thread)
        assert (made.committed, made.summary, made.covers_turn_seq) == (True, seen.summary, seen.covers_turn_seq)
        undone = await client.folds.undo(thread)
        assert (undone.case, undone.summary, undone.covers_turn_seq) == ("unfold", "", 0)
        assert (undone.summary_before, undone.covered) == (made.summary, made.covers_turn_seq)
        assert len((await client.conversations.show(thread)).turns) == 16

    async def test_where_nothing_can_leave_nothing_is_folded(self, client: Client) -> None:
        thread = await thread_of(client, "Hello")
        for preview in (True, False):
            seen = await client.folds.fold(thread, preview=preview)
            assert (seen.case, seen.committed, seen.covers_turn_seq) == ("none", False, 0)
        with pytest.raises(Refused):
            await client.folds.undo(thread)
        with pytest.raises(NotFound):
            await client.folds.fold(new_id())

    async def test_a_fold_belongs_to_its_branch(self, client: Client) -> None:
        thread = await long_thread(client)
        fork = await client.threads.fork(thread)
        made = await client.folds.fold(thread, branch_id=fork.branch_id)
        assert (made.branch_id, made.committed) == (fork.branch_id, True)
        assert (await client.folds.fold(thread, preview=True)).covered == 0

    async def test_whoever_follows_hears_of_a_fold(self, client: Client) -> None:
        thread = await long_thread(client)
        events = client.folds.follow()
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        made = await client.folds.fold(thread)
        while not first.done():  # a remote follower may not be subscribed yet
            await client.folds.undo(thread)
            made = await client.folds.fold(thread)
        started = await first
        if started.__struct_config__.tag == "compaction_complete":  # it began to follow in the middle of a fold
            await client.folds.undo(thread)
            made = await client.folds.fold(thread)
            started = await anext(events)
        completed = await anext(events)
        assert started.__struct_config__.tag == "compaction_start"
        assert completed.__struct_config__.tag == "compaction_complete"
        assert (started.thread_id, completed.branch_id) == (thread, made.branch_id)
