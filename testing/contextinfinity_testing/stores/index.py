"""Tests of a store: text is searchable as soon as it is durable, and only within the allowed scope."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, new_id
from contextinfinity.domain.message import Message, TextBlock, ToolOutputItem, ToolResultBlock, say
from contextinfinity.domain.search import Scope, TextPosition
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.transfer import ImportedMessage
from contextinfinity.domain.turn import Exchange, Turn
from contextinfinity.storage.contract import Store
from contextinfinity.text.keywords import terms
from contextinfinity_testing.builders import (
    WORKER,
    commit_turn,
    current,
    exchange,
    final_turn,
    new_branch,
    new_step,
    new_turn,
    slice_of,
    step_end,
    turn_end,
)

ANYWHERE = Scope()
NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)


async def found(store: Store, words: str, scope: Scope = ANYWHERE, *, most: int = 128) -> list[TextPosition]:
    """Return the search results for words, best first."""
    return [hit.place for hit in (await store.index.find_words(terms(words), scope, most=most)).hits]


async def texts(store: Store, words: str, scope: Scope = ANYWHERE) -> list[str]:
    """Return the texts of the search results for words."""
    return [entry.text for entry in await store.index.read(await found(store, words, scope))]


async def turn_with_tools(store: Store, branch_id: BranchId) -> Turn:
    """Create a committed turn with a tool call whose result mentions a heron."""
    turn = await store.turns.accept(new_turn(branch_id, "which bird?"))
    await store.turns.prepare(turn.id, WORKER)
    first = new_step()
    await store.turns.open_step(turn.id, WORKER, first)
    output = ToolOutputItem(call_id="c1", output="a heron stands there")
    second = replace(new_step(1, closes=step_end(first, "let me look")), inputs=(output,))
    await store.turns.open_step(turn.id, WORKER, second)
    turn = await store.turns.finalise(turn.id, WORKER, turn_end(second, "a grey one"))
    await commit_turn(store, turn)
    return await current(store, turn)


class FindingSuite:
    """Finding by words."""

    @pytest.mark.req("RETRIEVE-5")
    async def test_a_message_is_found_as_soon_as_it_is_accepted(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await store.turns.accept(new_turn(branch.id, "Where does the HERON nest?"))
        assert await found(store, "herons nesting") == [TextPosition(turn.id, "user")]

    @pytest.mark.req("RETRIEVE-5")
    async def test_an_answer_is_found_as_soon_as_it_is_final(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await final_turn(store, branch.id, "where?", "in the reeds")
        assert await found(store, "reeds") == [TextPosition(turn.id, "assistant")]

    async def test_what_was_recorded_logged_or_brought_is_found(self, store: Store) -> None:
        branch = await new_branch(store)
        (recorded,) = await store.turns.record(branch.id, [exchange("alpha one", "alpha two")])
        logged = await store.turns.log(branch.id, say("user", "alpha three"))
        await store.turns.log(branch.id, say("assistant", "alpha four"))
        await store.imports.add(branch.id, [ImportedMessage(message=say("user", "alpha five"), place=0)])
        (brought,) = await store.turns.history(branch.id, limit=1)
        assert await found(store, "alpha") == [
            TextPosition(brought.id, "user"),
            TextPosition(logged.id, "assistant"),
            TextPosition(logged.id, "user"),
            TextPosition(recorded.id, "assistant"),
            TextPosition(recorded.id, "user"),
        ]

    async def test_places_with_more_and_rarer_words_come_first(self, store: Store) -> None:
        branch = await new_branch(store)
        said = ["common", "common rare", "rare", "common", "nothing", "common other"]
        await store.turns.record(branch.id, [exchange(text) for text in said])
        hits = await store.index.find_words(terms("common rare"), ANYWHERE)
        entries = await store.index.read([hit.place for hit in hits.hits])
        assert [entry.text for entry in entries] == ["common rare", "rare", "common other", "common", "common"]
        assert [hit.own for hit in hits.hits] == [0b11, 0b10, 0b01, 0b01, 0b01]
        assert (hits.counts, hits.total) == ((4, 2), 6)

    async def test_no_more_are_given_than_asked_for(self, store: Store) -> None:
        branch = await new_branch(store)
        turns = await store.turns.record(branch.id, [exchange("same") for _ in range(9)])
        assert await found(store, "same", most=2) == [
            TextPosition(turns[8].id, "user"),
            TextPosition(turns[7].id, "user"),
        ]
        assert await found(store, "same", most=0) == []

    async def test_a_word_asked_twice_has_both_its_bits(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.turns.record(branch.id, [exchange("heron")])
        hits = await store.index.find_words(["heron", "crane", "heron"], ANYWHERE)
        assert (hits.hits[0].own, hits.counts) == (0b101, (1, 0, 1))

    async def test_nothing_is_found_by_no_words_or_in_an_empty_store(self, store: Store) -> None:
        assert (await store.index.find_words(["heron"], ANYWHERE)).hits == ()
        branch = await new_branch(store)
        await store.turns.record(branch.id, [exchange("heron")])
        assert (await store.index.find_words([], ANYWHERE)).hits == ()

    @pytest.mark.parametrize("text", ["ﷺ", "⑽", 'say "AND" OR (NOT x*)', "ͺ", "東京都", "café", "½ cup", "a:b^c"])
    async def test_words_of_any_script_are_found_again(self, store: Store, text: str) -> None:
        branch = await new_branch(store)
        await store.turns.record(branch.id, [exchange(text), exchange("other things")])
        for term in terms(text):
            assert await texts_of_term(store, term) == [text]

    async def test_a_message_without_words_is_no_place(self, store: Store) -> None:
        branch = await new_branch(store)
        result = ToolResultBlock(tool_use_id="c1", content=(TextBlock(text="heron"),))
        message = Message(role="user", blocks=(result,))
        (turn,) = await store.turns.record(branch.id, [Exchange(message=message)])
        hits = await store.index.find_words(["heron"], ANYWHERE)
        assert (hits.hits, hits.total) == ((), 0)
        assert await store.index.read([TextPosition(turn.id, "user")]) == ()

    async def test_borrowed_words_find_a_place_at_half_their_weight(self, store: Store) -> None:
        branch = await new_branch(store)
        turns = await store.turns.record(branch.id, [exchange("heron"), exchange("yes it does")])
        lent = replace(slice_of("yes it does", "yes it does"), borrowed="Herons nest")
        await store.index.fill([(turns[1].id, [lent])])
        hits = await store.index.find_words(["heron", "nest"], ANYWHERE)
        assert [(hit.place, hit.own, hit.lent) for hit in hits.hits] == [
            (TextPosition(turns[1].id, "user"), 0b00, 0b11),
            (TextPosition(turns[0].id, "user"), 0b01, 0b00),
        ]
        assert hits.counts == (1, 0)
        assert await found(store, "heron") == [TextPosition(turns[0].id, "user"), TextPosition(turns[1].id, "user")]

    async def test_what_tools_said_is_found_once_the_turn_is_indexed(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_with_tools(store, branch.id)
        assert await found(store, "heron") == []
        text = "let me look\n\na heron stands there"
        chunk = slice_of(text, "a heron stands there", side="tool", chunk_type="ToolResult")
        (made,) = await store.chunks.index(turn.id, [replace(chunk, borrowed="bird")])
        assert made.rendered_text == "a heron stands there"
        assert await found(store, "heron") == [TextPosition(turn.id, "tool")]
        (entry,) = await store.index.read([TextPosition(turn.id, "tool")])
        assert (entry.text, entry.chunks) == (text, (made,))
        hits = await store.index.find_words(["bird"], ANYWHERE)
        assert [(hit.place.side, hit.own, hit.lent) for hit in hits.hits] == [("user", 1, 0), ("tool", 0, 1)]


async def texts_of_term(store: Store, term: str) -> list[str]:
    """Return the texts in which a term is found."""
    hits = (await store.index.find_words([term], ANYWHERE)).hits
    return [entry.text for entry in await store.index.read([hit.place for hit in hits])]


class ScopeSuite:
    """Finding only where one may look."""

    @pytest.mark.req("RETRIEVE-5")
    async def test_a_session_is_searched_alone_and_counts_alone(self, store: Store) -> None:
        one, other = await new_branch(store), await new_branch(store)
        for branch in (one, other, one, other, other):
            await store.turns.record(branch.id, [exchange("heron", "reed")])
        hits = await store.index.find_words(["heron", "reed"], Scope(session_id=one.session_id))
        assert len(hits.hits) == 4
        assert (hits.counts, hits.total) == ((2, 2), 4)
        assert {entry.session_id for entry in await store.index.read([hit.place for hit in hits.hits])} == {
            one.session_id
        }

    @pytest.mark.req("RETRIEVE-5")
    async def test_nobody_finds_what_another_owner_said(self, store: Store) -> None:
        ada, bob = Owner(user_id="ada"), Owner(user_id="ada", org_id="elsewhere")
        mine = await new_branch(store, NewSession(owner=ada))
        theirs = await new_branch(store, NewSession(owner=bob))
        await store.turns.record(theirs.id, [exchange("the heron is a secret")])
        await store.turns.record(mine.id, [exchange("my heron")])
        assert await texts(store, "heron", Scope(owner=ada)) == ["my heron"]
        assert await texts(store, "secret", Scope(owner=ada)) == []
        hidden = Scope(owner=ada, session_id=theirs.session_id)
        assert await store.index.find_words(["heron"], hidden) == await store.index.find_words(
            ["heron"], Scope(owner=Owner(user_id="nobody"))
        )
        assert (await store.index.find_words(["heron"], Scope(owner=ada))).counts == (1,)

    @pytest.mark.req("RETRIEVE-10")
    async def test_a_branch_never_finds_what_its_siblings_said(self, store: Store) -> None:
        root = await new_branch(store)
        await store.turns.record(root.id, [exchange(f"heron {n}") for n in (1, 2, 3)])
        left = await store.branches.fork(root.id, at=2)
        right = await store.branches.fork(root.id, at=1)
        await store.turns.record(left.id, [exchange("heron left")])
        await store.turns.record(right.id, [exchange("heron right")])
        assert await texts(store, "heron", Scope(branch_id=left.id)) == ["heron left", "heron 2", "heron 1"]
        assert await texts(store, "heron", Scope(branch_id=right.id)) == ["heron right", "heron 1"]
        assert await texts(store, "heron", Scope(branch_id=root.id)) == ["heron 3", "heron 2", "heron 1"]
        assert await texts(store, "heron", Scope(branch_id=left.id, before=3)) == ["heron 2", "heron 1"]
        assert await texts(store, "heron", Scope(branch_id=left.id, before=1)) == []
        other = await new_branch(store)
        assert await found(store, "heron", Scope(branch_id=left.id, session_id=other.session_id)) == []
        assert await found(store, "heron", Scope(branch_id=new_id())) == []

    @pytest.mark.req("RETRIEVE-5")
    async def test_sides_and_types_are_told_apart(self, store: Store) -> None:
        branch = await new_branch(store)
        turns = await store.turns.record(branch.id, [exchange("heron", "a heron"), exchange("heron", "heron")])
        assert await found(store, "heron", Scope(sides=("assistant",))) == [
            TextPosition(turns[1].id, "assistant"),
            TextPosition(turns[0].id, "assistant"),
        ]
        assert await found(store, "heron", Scope(types=("Decision",))) == []
        await store.index.fill(
            [
                (turns[0].id, [slice_of("a heron", "a heron", side="assistant", chunk_type="Decision")]),
                (turns[1].id, [slice_of("heron", "heron", chunk_type="Other")]),
            ]
        )
        assert await found(store, "heron", Scope(types=("Decision", "Code"))) == [
            TextPosition(turns[0].id, "assistant")
        ]

    @pytest.mark.req("RETRIEVE-5")
    async def test_times_are_those_when_it_was_said(self, store: Store) -> None:
        branch = await new_branch(store)
        hour = timedelta(hours=1)
        brought = [
            ImportedMessage(message=say("user", "heron at noon"), place=0, created_at=NOON),
            ImportedMessage(message=say("assistant", "heron at one"), place=1, created_at=NOON + hour),
        ]
        await store.imports.add(branch.id, brought)
        await store.turns.record(branch.id, [Exchange(message=say("user", "heron at two"), created_at=NOON + 2 * hour)])
        await store.turns.record(branch.id, [exchange("heron now")])
        assert await texts(store, "heron", Scope(since=NOON, until=NOON + hour)) == ["heron at noon"]
        assert await texts(store, "heron", Scope(since=NOON + hour, until=NOON + 3 * hour)) == [
            "heron at two",
            "heron at one",
        ]
        assert await texts(store, "heron", Scope(since=NOON + 3 * hour)) == ["heron now"]


class ReadingSuite:
    """Reading what was found."""

    async def test_places_are_read_in_the_order_asked_for(self, store: Store) -> None:
        branch = await new_branch(store)
        turns = await store.turns.record(branch.id, [exchange("one", "two"), exchange("three")])
        places = [
            TextPosition(turns[1].id, "user"),
            TextPosition(turns[0].id, "assistant"),
            TextPosition(turns[0].id, "user"),
        ]
        entries = await store.index.read(
            [*places, TextPosition(new_id(), "user"), TextPosition(turns[1].id, "assistant")]
        )
        assert [entry.place for entry in entries] == places
        assert [entry.text for entry in entries] == ["three", "two", "one"]
        first = entries[2]
        turn = turns[0]
        assert (first.session_id, first.branch_id, first.turn_seq) == (turn.session_id, turn.branch_id, turn.turn_seq)
        assert (first.said_at, first.speaker, first.external_ids, first.chunks) == (turn.created_at, "", (), ())

    async def test_an_entry_tells_who_said_it_elsewhere_and_when(self, store: Store) -> None:
        branch = await new_branch(store)
        brought = [
            ImportedMessage(
                message=say("user", "hello"), place=0, external_id="m0", created_at=NOON, details={"name": "Caroline"}
            ),
            ImportedMessage(message=say("assistant", "good day"), place=1, details={"name": 7}),
        ]
        await store.imports.add(branch.id, brought)
        (turn,) = await store.turns.history(branch.id)
        asked, answered = await store.index.read([TextPosition(turn.id, "user"), TextPosition(turn.id, "assistant")])
        assert (asked.said_at, asked.speaker, asked.external_ids) == (NOON, "Caroline", ("m0",))
        assert (answered.said_at, answered.speaker, answered.external_ids) == (turn.created_at, "", ())

    async def test_an_entry_holds_the_chunks_of_its_side(self, store: Store) -> None:
        branch = await new_branch(store)
        (turn,) = await store.turns.record(branch.id, [exchange("one two", "three")])
        cut = [slice_of("one two", "two"), slice_of("three", "three", side="assistant"), slice_of("one two", "one")]
        await store.index.fill([(turn.id, cut)])
        (entry,) = await store.index.read([TextPosition(turn.id, "user")])
        assert [chunk.rendered_text for chunk in entry.chunks] == ["one", "two"]
        assert entry.chunks == (await store.chunks.of_turn(turn.id))[:2]

    async def test_around_a_place_are_the_turns_beside_it(self, store: Store) -> None:
        branch = await new_branch(store)
        said = [exchange("one", "1"), exchange("two"), exchange("three", "3"), exchange(" ", "4")]
        turns = await store.turns.record(branch.id, said)
        fork = await store.branches.fork(branch.id, at=2)
        (forked,) = await store.turns.record(fork.id, [exchange("other")])
        beside = await store.index.around([turns[1].id, turns[2].id])
        assert {entry.place for entry in beside} == {
            TextPosition(turns[0].id, "user"),
            TextPosition(turns[0].id, "assistant"),
            TextPosition(turns[1].id, "user"),
            TextPosition(turns[2].id, "user"),
            TextPosition(turns[2].id, "assistant"),
            TextPosition(turns[3].id, "assistant"),
        }
        assert len(beside) == 6, "each once"
        assert beside[:1] == await store.index.read([TextPosition(turns[0].id, "user")]), "as it is read by itself"
        assert [entry.text for entry in await store.index.around([forked.id])] == ["other"]
        assert await store.index.around([new_id()]) == ()


class IndexSuite(FindingSuite, ScopeSuite, ReadingSuite):
    """Finding, and reading what was found."""
