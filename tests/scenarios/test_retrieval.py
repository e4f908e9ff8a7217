"""What was said long ago comes back when it matters: in the prompt, in a search, and by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from contextinfinity.domain.events import Delta, TurnStarted
from contextinfinity.domain.message import say
from contextinfinity.domain.transfer import ImportedMessage
from contextinfinity.domain.turn import Phase
from contextinfinity.embedders.choice import Embedders
from contextinfinity.embedders.contract import Embedder, Kind
from contextinfinity.embedders.static import built_in
from contextinfinity.engine.engine_setup import RetrievalParts, Setup
from contextinfinity.errors import InvalidInput, NotFound, ProviderError
from contextinfinity.prompt.measure import Ceilings
from contextinfinity.prompt.redact import by_patterns
from contextinfinity.providers.scripted import ABILITIES, ScriptedReply
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.telemetry.counters import counters
from contextinfinity_testing.builders import exchange
from tests.scenarios.chatter import Chatter
from tests.scenarios.desk import Desk

if TYPE_CHECKING:
    from contextinfinity.embedders.contract import Vectors

PLANTED = "My sister's boat is called Petrichor and lies in Trieste."
ASKED = "What is the name of my sister's boat?"
CHATTER = [exchange(f"Tell me about stone {number}.", f"Stone {number} is grey and heavy.") for number in range(60)]
SMALL_TALK = "The weather was fine and the walk was long, with a rest by the river and a picnic. " * 14
FOLDING = Ceilings(fold_trigger=1200, verbatim_window=300)


def setup(embedder: Embedder | None = None, **more: object) -> Setup:
    """An engine that finds the past, with the built-in embedder unless told otherwise."""
    chosen = embedder or built_in()
    return Setup(retrieval=RetrievalParts(embedders=Embedders(lambda: chosen)), ceilings=FOLDING, **more)  # type: ignore[arg-type]


async def grown(desk: Desk, *planted: str) -> None:
    """Plant facts, talk of other things until they are folded, and let all be indexed."""
    for fact in planted:
        await desk.ask(fact)
    await desk.settle()
    await desk.engine.store.turns.record(await desk.branch(), CHATTER)
    await desk.ask("Where were we?")
    await desk.settle()
    await desk.engine.fold(desk.thread)
    await desk.engine.complete_index()
    assert (await desk.head()).covers_turn_seq > len(planted)


class Broken:
    """An embedder that is away."""

    name, dim, is_remote = "broken/1", 8, False

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        raise ProviderError("The embedder does not answer.")

    async def close(self) -> None:
        pass


class Turned:
    """Another embedder: the same vectors, the other way round and shorter."""

    name, dim, is_remote = "turned/1", 128, False

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        import numpy as np

        short = -built_in().encode(texts)[:, : self.dim]
        rows: Vectors = (short / np.maximum(np.linalg.norm(short, axis=1, keepdims=True), 1e-9)).astype(np.float32)
        return rows

    async def close(self) -> None:
        pass


# --- in the prompt ---


@pytest.mark.req("CTX-2", "RETRIEVE-8", "CTX-10")
async def test_a_fact_that_was_folded_away_stands_in_the_prompt_when_it_is_asked_for(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        await grown(desk, PLANTED)
        turn_id = await desk.ask(ASKED)
        role, words = desk.shown[-1]
        assert role == "user"
        artifact, own = words.rsplit("</artifact>", 1)
        assert own.strip() == ASKED, "the question itself stands last, as it was asked"
        assert f"\n| {PLANTED}\n" in artifact
        today = datetime.now(UTC).date().isoformat()
        assert f'<artifact said-by="user" on="{today}" turn="1">' in artifact
        plan = await desk.plan(turn_id)
        assert plan.retrieved
        assert 0.72 <= plan.retrieved[0].similarity <= 1
        told = await desk.engine.explain(turn_id)
        assert told.matches, "and what was sent can be written again, pieces of the past included"


@pytest.mark.req("BUDGET-9", "API-7")
@pytest.mark.parametrize("door", ["native", "v1"])
async def test_a_fact_is_retrieved_while_the_background_fold_is_late(tmp_path: Path, door: str) -> None:
    """Turns that no longer fit are folded before the request: the shrinker would drop retrieved text first."""
    small = replace(ABILITIES, context_limit=4096)
    late = timedelta(hours=1)
    async with Desk(tmp_path, setup=setup(), abilities=small, fold_pause=late) as desk:
        client = Chatter(desk)
        for said in (f"{SMALL_TALK} {PLANTED}", *(f"{number}: {SMALL_TALK}" for number in range(20)), ASKED):
            await (client.send(said) if door == "v1" else desk.ask(said))
        assert PLANTED in "".join(text for _, text in desk.shown)


@pytest.mark.req("CTX-2")
async def test_what_stands_there_word_for_word_is_not_brought_back_as_well(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        await desk.ask(PLANTED)
        await desk.settle()
        turn_id = await desk.ask(ASKED)
        assert (await desk.plan(turn_id)).retrieved == ()
        assert "<artifact" not in desk.shown[-1][1]


@pytest.mark.req("CTX-6")
async def test_a_follow_up_carries_both_earlier_turns(tmp_path: Path) -> None:
    async with Desk(tmp_path, "A businessman and politician.", setup=setup()) as desk:
        await desk.ask("Who is Donald Trump?")
        await desk.ask("who are his children")
        assert [words for _, words in desk.shown] == [
            "Who is Donald Trump?",
            "A businessman and politician.",
            "who are his children",
        ]


@pytest.mark.req("RETRIEVE-10")
async def test_a_branch_brings_back_its_own_past_and_never_a_siblings(tmp_path: Path) -> None:
    hidden = "The code of the safe in the harbour is Albatross."
    async with Desk(tmp_path, setup=setup()) as desk:
        await desk.ask("Hello.")
        await desk.settle()
        sibling = await desk.engine.fork(desk.thread)
        await desk.ask(hidden, branch_id=sibling.id)
        await grown(desk, PLANTED)
        await desk.ask("What is the code of the safe in the harbour?")
        assert "Albatross" not in str(desk.prompts[-1])
        await desk.ask(ASKED)
        assert "Petrichor" in desk.shown[-1][1]
        branch = await desk.branch()
        seen = await desk.engine.search("code of the safe", thread_id=desk.thread, branch_id=branch)
        assert all("Albatross" not in hit.text for hit in seen.hits)
        seen = await desk.engine.search("code of the safe", thread_id=desk.thread, branch_id=sibling.id)
        assert seen.hits[0].text == hidden


@pytest.mark.req("RETRIEVE-7")
async def test_an_embedder_that_is_away_costs_nothing_but_its_share(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup(Broken())) as desk:
        await desk.ask(PLANTED)
        await desk.settle()
        await desk.engine.store.turns.record(await desk.branch(), CHATTER)
        await desk.engine.fold(desk.thread)
        before = counters().get("stages_left_out", 0)
        turn_id = await desk.ask(ASKED)
        assert "Petrichor" in desk.shown[-1][1], "words find it"
        plan = await desk.plan(turn_id)
        assert any(left.what == "vectors" and "does not answer" in left.reason for left in plan.left_out)
        assert (await desk.engine.explain(turn_id)).matches, "though it was not cut yet"
        assert counters()["stages_left_out"] > before
        hits = await desk.engine.search(ASKED)
        assert hits.hits
        assert any("vectors" in what for what in hits.missing)


class Listening(Turned):
    """An embedder that keeps what it was sent."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        self.heard += texts
        return await super().embed(texts, kind=kind)


class Slow(Turned):
    """An embedder that keeps questions waiting; ``asked`` counts them."""

    name = "slow/1"

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        if kind == "query":
            self.asked += 1
            await self.may_answer.wait()
        return await super().embed(texts, kind=kind)


@pytest.mark.req("RETRIEVE-7")
async def test_two_questions_at_once_both_get_vectors(tmp_path: Path) -> None:
    embedder = Slow()
    async with Desk(tmp_path, setup=setup(embedder)) as desk:
        await desk.ask(PLANTED)
        await desk.settle()
        await desk.engine.complete_index()
        searches = [asyncio.create_task(desk.engine.search(text)) for text in (ASKED, "Where does the boat lie?")]
        while embedder.asked < 2 and not any(search.done() for search in searches):
            await asyncio.sleep(0)
        embedder.may_answer.set()
        assert [(await search).missing for search in searches] == [(), ()]


class Silent(Broken):
    """An embedder behind an endpoint that is away; ``asked`` counts the questions."""

    name, is_remote, asked = "silent/1", True, 0

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        self.asked += kind == "query"
        return await super().embed(texts, kind=kind)


@pytest.mark.req("RETRIEVE-7")
@pytest.mark.parametrize(("is_remote", "times"), [(True, 1), (False, 2)])
async def test_only_an_endpoint_that_failed_is_left_alone(tmp_path: Path, is_remote: bool, times: int) -> None:
    embedder = Silent()
    embedder.name, embedder.is_remote = f"silent/{is_remote}", is_remote
    async with Desk(tmp_path, setup=setup(embedder)) as desk:
        await desk.ask(PLANTED)
        await desk.settle()
        embedder.asked = 0
        for _ in range(2):
            assert any("vectors" in what for what in (await desk.engine.search(ASKED)).missing)
        assert embedder.asked == times


@pytest.mark.sqlite_file("it drops tables")
@pytest.mark.req("RETRIEVE-7")
async def test_an_index_that_is_broken_does_not_fail_a_turn(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        await grown(desk, PLANTED)
        connection = connect(str(desk.path))
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DROP TABLE vector")
        connection.close()
        turn = await desk.engine.ask(desk.thread, ASKED)
        assert turn.outcome == "completed"
        assert any(
            "retrieval" in left.what or "vectors" in left.what for left in (await desk.plan(turn.turn_id)).left_out
        )


@pytest.mark.req("RETRIEVE-8")
async def test_no_half_of_a_secret_leaves_with_a_slice(tmp_path: Path) -> None:
    card = "4111-1111-1111-1111"
    long = " ".join(f"Line {number} of the ledger of the harbour office." for number in range(400))
    async with Desk(tmp_path, setup=setup(redactor=by_patterns([r"\d{4}-\d{4}-\d{4}-\d{4}"]))) as desk:
        await grown(desk, f"{long} The harbour office pays with {card} as always. {long}")
        await desk.ask("With what does the harbour office pay as always?")
        assert "4111" not in str(desk.prompts[-1])


@pytest.mark.req("SAFE-1", "RETRIEVE-8")
async def test_no_part_of_a_secret_that_several_chunks_hold_is_embedded_or_attached(tmp_path: Path) -> None:
    lines = [f"{number:02d}Kx" + "Qm9vLz7" * 8 for number in range(50)]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
    embedder = Listening()
    async with Desk(
        tmp_path, setup=setup(embedder, redactor=by_patterns([r"(?s)-----BEGIN.*?END PRIVATE KEY-----"]))
    ) as desk:
        await grown(desk, f"This is the key of the harbour: {key}")
        hits = await desk.engine.search("key harbour", thread_id=desk.thread)
        chunks = await desk.engine.store.chunks.of_turn(hits.hits[0].turn_id)
        assert len(chunks) > 3
        await desk.ask("What now?", attach=tuple(chunk.id for chunk in chunks[1:7]))
        await desk.settle()
        sent = [*embedder.heard, str(desk.prompts[-1])]
        assert [line for line in lines if any(line[:20] in text for text in sent)] == []


@pytest.mark.req("SAFE-1", "RETRIEVE-8")
async def test_a_secret_of_a_message_that_has_expired_is_not_embedded_later(tmp_path: Path) -> None:
    embedder = Listening()
    async with Desk(tmp_path, setup=setup(embedder, redactor=by_patterns([r"sk-\w+"]))) as desk:
        await desk.ask("Hello.")
        await desk.settle()
        await desk.engine.store.turns.record(await desk.branch(), [exchange("My key is sk-12345.")])
        await desk.engine.store.deletions.limit_retention(1e-6)
        await desk.engine.complete_index()
        assert embedder.heard
        assert [text for text in embedder.heard if "sk-12345" in text] == []


# --- by hand ---


@pytest.mark.req("RETRIEVE-9")
async def test_a_chunk_is_attached_to_the_next_turn_by_hand(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        await grown(desk, PLANTED)
        (hit, *_) = (await desk.engine.search("boat Trieste")).hits
        turn_id = await desk.ask("Translate it.", attach=(hit.chunk_id,))
        assert f"| {PLANTED}" in desk.shown[-1][1]
        assert (await desk.plan(turn_id)).retrieved[0].chunk_id == hit.chunk_id
        assert (await desk.engine.explain(turn_id)).matches
        with pytest.raises(NotFound, match="cix search"):
            await desk.engine.ask(desk.thread, "And?", attach=("0192f0c1-2345-7abc-8def-000000000000",))


@pytest.mark.req("RETRIEVE-9", "RETRIEVE-5")
async def test_a_search_takes_words_filters_and_a_budget(tmp_path: Path) -> None:
    async with Desk(tmp_path, "Noted: the boat Petrichor.", setup=setup()) as desk:
        await grown(desk, PLANTED)
        engine, thread = desk.engine, desk.thread
        hits = await engine.search("sister's boat", thread_id=thread)
        assert hits.hits[0].text == PLANTED
        first = hits.hits[0]
        assert (first.thread_id, first.turn_seq, first.role, first.offsets) == (thread, 1, "user", (0, len(PLANTED)))
        assert hits.tokens > 0
        assert {hit.role for hit in (await engine.search("boat", roles=("assistant",))).hits} == {"assistant"}
        assert {hit.type for hit in (await engine.search("boat", types=(first.type,))).hits} == {first.type}
        assert not (await engine.search("boat", since=datetime(2100, 1, 1, tzinfo=UTC))).hits
        assert not (await engine.search("boat", until=datetime(2000, 1, 1, tzinfo=UTC))).hits
        assert not (await engine.search("boat", user_id="somebody else")).hits
        packed = await engine.search("the boat and the stones", thread_id=thread, budget=60)
        assert 0 < packed.tokens <= 60
        with pytest.raises(InvalidInput):
            await engine.search("  ")
        with pytest.raises(NotFound):
            await engine.search("boat", thread_id="nowhere")


@pytest.mark.req("RETRIEVE-5")
async def test_a_filter_holds_also_where_a_thread_is_named(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        turn = await desk.engine.ask("new", PLANTED, user_id="ann")
        found = await desk.engine.search("Petrichor", thread_id=turn.thread_id, user_id="ann")
        assert found.hits[0].text == PLANTED
        with pytest.raises(NotFound):
            await desk.engine.search("Petrichor", thread_id=turn.thread_id, user_id="bob")
        for wrong in ({"budget": 0}, {"limit": 0}, {"branch_id": "x"}):
            with pytest.raises(InvalidInput):
                await desk.engine.search("Petrichor", **wrong)


@pytest.mark.req("RETRIEVE-9")
async def test_a_hit_names_the_chunk_it_shows(tmp_path: Path) -> None:
    recipes = "\n\n".join(f"## Dish {n}\n\n" + f"Take cabbage{n} and stir it well. " * 30 for n in range(12))
    async with Desk(tmp_path, recipes, setup=setup()) as desk:
        await desk.ask("Some recipes, please.")
        await desk.settle()
        (hit, *_) = (await desk.engine.search("cabbage7")).hits
        chunk = await desk.engine.store.chunks.get(hit.chunk_id)
        assert chunk is not None
        assert "cabbage7" in chunk.rendered_text == hit.text
        assert hit.offsets == (chunk.start, chunk.end)


# --- at once, once, and again ---


@pytest.mark.req("RETRIEVE-5")
async def test_what_was_just_said_is_found_at_once(tmp_path: Path) -> None:
    async with Desk(tmp_path, ScriptedReply(text="One moment.", hang=True), "The Adriatic.", setup=setup()) as desk:
        events = desk.engine.send("new", PLANTED)
        started = await anext(events)
        assert isinstance(started, TurnStarted)
        (hit, *_) = (await desk.engine.search("Petrichor")).hits
        assert hit.text == PLANTED, "while it is being answered"
        while not isinstance(await anext(events), Delta):
            pass  # until the model answers: the next reply of the script is for the next turn
        await desk.engine.cancel(started.turn_id)
        await desk.engine.ask(started.thread_id, "Which sea is that?")
        (answer, *_) = (await desk.engine.search("Adriatic")).hits
        assert answer.text == "The Adriatic.", "before it is committed"
        await desk.settle()
        await desk.engine.complete_index()
        again = (await desk.engine.search("Petrichor")).hits[0]
        assert again.chunk_id == hit.chunk_id, "and it keeps its name when it is cut"


@pytest.mark.req("RETRIEVE-2", "TURN-5")
async def test_indexing_again_inserts_nothing_twice(tmp_path: Path) -> None:
    """Document E's acceptance test 5."""
    async with Desk(tmp_path, setup=setup()) as desk:
        turn_id = await desk.ask(PLANTED)
        await desk.settle()
        turn = await desk.engine.store.turns.get(turn_id)
        assert turn is not None
        assert turn.phase is Phase.DONE
        before = await desk.engine.store.chunks.of_turn(turn_id)
        state, (namespace,) = await desk.engine.store.index.state(), await desk.engine.store.vectors.namespaces()
        assert len(before) == state.chunks == namespace.placed == 2
        await desk.engine.store.jobs.enqueue("index_turn", turn.branch_id, turn_id)
        desk.engine.job_runner.wake()
        await desk.settle()
        await desk.engine.complete_index(rebuild=True)
        after = await desk.engine.store.chunks.of_turn(turn_id)
        assert [replace(chunk, created_at=turn.created_at) for chunk in after] == [
            replace(chunk, created_at=turn.created_at) for chunk in before
        ]
        assert await desk.engine.store.index.state() == state
        assert await desk.engine.store.vectors.namespaces() == (namespace,)


@pytest.mark.req("TURN-5")
async def test_a_turn_that_cannot_be_placed_is_degraded_and_its_job_stays(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup(Broken())) as desk:
        turn_id = await desk.ask(PLANTED)
        await desk.settle()
        turn = await desk.engine.store.turns.get(turn_id)
        assert turn is not None
        assert (turn.phase, turn.degraded) == (Phase.STATE_COMMITTED, True)
        (job,) = await desk.engine.store.jobs.list(branch_id=turn.branch_id)
        assert (job.job_type, job.state) == ("index_turn", "queued")
    async with Desk(tmp_path, setup=setup()) as desk:
        await desk.engine.complete_index()


@pytest.mark.req("RETRIEVE-5")
async def test_what_was_imported_is_indexed_with_its_names_and_times(tmp_path: Path) -> None:
    then = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    async with Desk(tmp_path, setup=setup()) as desk:
        await desk.ask("Hello.")
        await desk.settle()
        said = [
            ImportedMessage(
                message=say("user", PLANTED), place=0, external_id="D1:1", created_at=then, details={"name": "Ann"}
            ),
            ImportedMessage(
                message=say("assistant", "A fine name."), place=1, external_id="D1:2", details={"name": "Bob"}
            ),
        ]
        await desk.engine.store.imports.add(await desk.branch(), said)
        (hit, *_) = (await desk.engine.search("boat")).hits
        assert (hit.external_ids, hit.created_at, hit.speaker) == (("D1:1",), then, "Ann"), "by its words, at once"
        brought = await desk.engine.complete_index()
        assert brought.turns == 1
        (hit, *_) = (await desk.engine.search("the vessel of a sibling")).hits
        assert hit.external_ids == ("D1:1",), "by its meaning, once it is placed"


@pytest.mark.req("RETRIEVE-3")
async def test_another_embedder_fills_a_namespace_of_its_own_and_is_switched_to_when_it_is_complete(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        await grown(desk, PLANTED)
    other = Turned()
    both = Setup(
        retrieval=RetrievalParts(embedders=Embedders(lambda: other, {built_in().name: built_in})), ceilings=FOLDING
    )
    async with Desk(tmp_path, setup=both) as desk:
        vectors = desk.engine.store.vectors
        await vectors.open(other.name, other.dim)
        assert [(one.name, one.state) for one in await vectors.namespaces()] == [
            (built_in().name, "current"),
            (other.name, "filling"),
        ]
        sought = "the vessel of a sibling"
        during: list[bool] = []

        def look(done: int, of: int) -> None:
            during.append(done <= of)

        assert PLANTED in [hit.text for hit in (await desk.engine.search(sought)).hits], (
            "found by the old ones meanwhile"
        )
        brought = await desk.engine.complete_index(progress=look)
        assert brought.switched
        assert brought.vectors == (await desk.engine.store.index.state()).chunks
        assert during
        assert all(during)
        (now,) = [one for one in await vectors.namespaces() if one.state != "old"]
        assert (now.name, now.dim, now.state) == (other.name, 128, "current")
        assert PLANTED in [hit.text for hit in (await desk.engine.search(sought)).hits], "and by the new ones"


@pytest.mark.req("RETRIEVE-3")
async def test_an_embedder_that_is_not_chosen_any_more_is_not_switched_to(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        await grown(desk, PLANTED)
        await desk.engine.store.vectors.open("tried/1", 8)
        assert not (await desk.engine.complete_index()).switched
        assert (await desk.engine.store.vectors.namespaces())[0].name == built_in().name


@pytest.mark.req("RETRIEVE-3")
async def test_who_chose_earlier_follows_who_chose_later(tmp_path: Path) -> None:
    other = Turned()
    later = RetrievalParts(embedders=Embedders(lambda: other, {built_in().name: built_in}))
    earlier = RetrievalParts(embedders=Embedders(built_in, {other.name: lambda: other}))
    async with (
        Desk(tmp_path, setup=Setup(retrieval=earlier)) as first,
        Desk(tmp_path, setup=Setup(retrieval=later)) as second,
    ):
        await first.ask(PLANTED)
        await first.settle()
        assert (await second.engine.complete_index()).switched
        for _ in range(2):
            assert not (await first.engine.complete_index()).switched, "they do not fight"
            assert (await first.engine.search("the vessel of a sibling")).hits[0].text == PLANTED
        assert (await first.engine.store.vectors.namespaces())[0].name == other.name


class Picky(Turned):
    """An embedder that refuses a text."""

    name = "picky/1"

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        if any("POISON" in text for text in texts):
            raise ProviderError("I will not read that.")
        return await super().embed(texts, kind=kind)


@pytest.mark.req("TURN-5", "RETRIEVE-7")
async def test_a_text_that_is_refused_holds_up_none_of_the_others(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup(Picky())) as desk:
        await desk.ask("Hello.")
        await desk.settle()
        said = [exchange(PLANTED, "Fine."), exchange("POISON ivy grows there.", "Careful."), *CHATTER[:5]]
        await desk.engine.store.turns.record(await desk.branch(), said)
        await desk.engine.complete_index()
        state, (namespace,) = await desk.engine.store.index.state(), await desk.engine.store.vectors.namespaces()
        assert (state.uncut, state.chunks) == (0, namespace.placed)
        assert (await desk.engine.search("the vessel of a sibling")).hits[0].text == PLANTED
        assert (await desk.engine.search("POISON")).hits[0].text == "POISON ivy grows there."


@pytest.mark.req("RETRIEVE-1")
async def test_the_index_cuts_a_long_answer_where_its_topic_changes(tmp_path: Path) -> None:
    dogs = "The dog barks at the postman, and the puppy chews a bone in its kennel near the garden gate. " * 3
    taxes = "Quarterly taxes on company profit are due in April, and the auditor checks every invoice and ledger. " * 3
    answer = "\n\n".join(text.strip() for text in [dogs] * 6 + [taxes] * 6)
    async with Desk(tmp_path, answer, setup=setup()) as desk:
        turn_id = await desk.ask("Tell me about dogs and taxes.")
        await desk.settle()
        chunks = await desk.engine.store.chunks.of_turn(turn_id)
    assert answer.index("Quarterly") in {chunk.start for chunk in chunks if chunk.side == "assistant"}


@pytest.mark.sqlite_file("it deletes rows")
@pytest.mark.req("RETRIEVE-2")
async def test_what_went_astray_is_found_missing_and_made_again(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        await grown(desk, PLANTED)
        whole = await desk.engine.store.index.state()
        connection = connect(str(desk.path))
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM keyword WHERE rowid = 4 * (SELECT min(user_message) FROM turn)")
        connection.execute("INSERT INTO recut SELECT id FROM turn WHERE turn_seq = 3")
        connection.execute("DELETE FROM chunk WHERE turn_id IN (SELECT turn_id FROM recut)")
        connection.execute("DELETE FROM recut")
        connection.close()
        brought = await desk.engine.complete_index()
        assert brought.turns == 2
        assert (await desk.engine.search("Petrichor")).hits[0].text == PLANTED
        assert (await desk.engine.store.index.state()).uncut == whole.uncut == 0


@pytest.mark.req("RETRIEVE-2", "RETRIEVE-3")
async def test_the_index_is_made_anew_while_answers_go_on_and_searches_find(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        await grown(desk, PLANTED)
        rebuilding = asyncio.create_task(desk.engine.complete_index(rebuild=True))
        answered = 0
        while not rebuilding.done():
            assert (await desk.engine.search("Petrichor")).hits[0].text == PLANTED
            answered += (await desk.engine.ask("new", "Still there?")).outcome == "completed"
        assert answered
        assert (await rebuilding).turns >= len(CHATTER)
