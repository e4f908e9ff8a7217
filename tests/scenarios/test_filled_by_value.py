"""What a prompt gets of the past: filled by value, exact words first, the newest statement with older ones marked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contextinfinity.domain.search import Hit
from contextinfinity.embedders.choice import Embedders
from contextinfinity.embedders.static import built_in
from contextinfinity.engine.engine_setup import RetrievalParts, Setup
from contextinfinity.prompt.measure import Ceilings
from contextinfinity_testing.builders import exchange
from tests.scenarios.desk import Desk

FOLDING = Ceilings(fold_trigger=1200, verbatim_window=300)
TALK = [
    exchange(text, "I see.")
    for text in (
        "The weather was dreadful all weekend.",
        "We watched a film about penguins.",
        "My train was late again this morning.",
        "I should water the plants tonight.",
        "The neighbours are renovating their kitchen.",
        "Our printer jams on every second page.",
    )
]


def setup(target: int | None = None) -> Setup:
    retrieval = RetrievalParts(embedders=Embedders(built_in), target=target)
    return Setup(retrieval=retrieval, ceilings=FOLDING, folds=False)


async def told(desk: Desk, *said: str) -> None:
    """Say things with other talk between and after them, all of it folded away."""
    await desk.ask("Hello.")
    await desk.settle()
    branch = await desk.branch()
    for text in said:
        await desk.engine.store.turns.record(branch, [exchange(text, "Noted."), *TALK])
    await desk.engine.store.turns.record(branch, TALK * 10)
    await desk.ask("Where were we?")
    await desk.settle()
    await desk.engine.fold(desk.thread)
    await desk.engine.complete_index()


def artifacts(desk: Desk) -> list[str]:
    """Return the retrieved pieces of the last prompt, with their openings."""
    return re.findall(r"<artifact .*?</artifact>", desk.shown[-1][1], re.S)


@pytest.mark.req("RETRIEVE-12")
async def test_a_prompt_is_filled_by_tokens_and_not_by_a_number_of_pieces(tmp_path: Path) -> None:
    sights = [f"On our trip we visited the castle of {name}." for name in ("Eltz", "Burg", "Trim", "Bran", "Ruhr")]
    sights += [f"We also visited the castle at {name} on the trip." for name in ("Vaduz", "Spiez", "Oron", "Chillon")]
    async with Desk(tmp_path, setup=setup()) as desk:
        await told(desk, *sights)
        await desk.ask("Which castles did we visit on our trip?")
        shown = " ".join(artifacts(desk))
        assert all(sight in shown for sight in sights), "more than six, and all of them"


@pytest.mark.req("RETRIEVE-12")
async def test_nothing_below_the_threshold_fills_a_prompt(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        await told(desk, "My sister's boat is called Petrichor.")
        await desk.ask("Which enzyme splits lactose in the gut?")
        assert artifacts(desk) == []


@pytest.mark.req("RETRIEVE-12")
async def test_a_prompt_gets_what_a_search_of_the_same_budget_finds(tmp_path: Path) -> None:
    facts = [f"The {thing} of the boat costs {n} euros a year." for n, thing in enumerate(("berth", "paint", "engine"))]
    async with Desk(tmp_path, setup=setup(120)) as desk:
        await told(desk, *facts)
        asked = "What does the boat cost a year?"
        hits = await desk.engine.search(asked, thread_id=desk.thread, budget=120)
        await desk.ask(asked)
        shown = " ".join(artifacts(desk))
        found = [fact for fact in facts if any(fact in hit.text for hit in hits.hits)]
        assert found == facts
        assert all(fact in shown for fact in found)


@pytest.mark.req("RETRIEVE-11")
async def test_an_identifier_is_first_in_a_search_and_in_a_prompt(tmp_path: Path) -> None:
    tickets = [f"Ticket ENG-{1000 + n} is about the {n}th floor of the garage." for n in range(20, 60)]
    async with Desk(tmp_path, setup=setup()) as desk:
        await told(desk, *tickets[:20], "We closed ENG-1030 because the lamp was fixed.", *tickets[20:])
        hits: tuple[Hit, ...] = (await desk.engine.search("ENG-1030", thread_id=desk.thread)).hits
        assert {hit.text for hit in hits} == {tickets[10], "We closed ENG-1030 because the lamp was fixed."}
        await desk.ask("What happened to ENG-1030 in the garage?")
        assert all("ENG-1030" in piece for piece in artifacts(desk)[:2])


@pytest.mark.req("RETRIEVE-13")
@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        (
            "My dentist appointment is on Tuesday at three.",
            "My dentist appointment was moved to Friday at ten.",
            "When is my dentist appointment?",
        ),
        (
            "We use Postgres as the database of the shop.",
            "We switched the database of the shop to MySQL.",
            "Which database does the shop use?",
        ),
        (
            "The budget of the kitchen is 4000 euros.",
            "The budget of the kitchen is 5500 euros.",
            "What is the budget of the kitchen?",
        ),
        (
            "Mein Zahnarzttermin ist am Dienstag um drei.",
            "Mein Zahnarzttermin wurde auf Freitag um zehn verschoben.",
            "Wann ist mein Zahnarzttermin?",
        ),
    ],
)
async def test_the_newest_statement_is_placed_and_the_older_one_is_marked(
    tmp_path: Path, old: str, new: str, asked: str
) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        await told(desk, old, new)
        turn_id = await desk.ask(asked)
        pieces = {text: piece for piece in artifacts(desk) for text in (old, new) if text in piece}
        assert "superseded" not in pieces[new]
        assert old not in pieces or 'superseded-by-turn="' in pieces[old]
        assert (await desk.engine.explain(turn_id)).matches, "and the request can be written again"


@pytest.mark.req("RETRIEVE-13")
@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        (
            "The greenhouse gets its water from the rain barrel behind the shed.",
            "Barrel cracked in the frost, so a hose from the kitchen tap feeds the seedlings and the shed is dry.",
            "Where does the greenhouse get its water from?",
        ),
        (
            "Grandpa takes the number 12 bus to his choir on Mondays.",
            "After the fall grandpa cannot climb steps; a volunteer drives him to choir in her van.",
            "How does grandpa travel on Mondays?",
        ),
    ],
)
async def test_a_change_in_words_that_the_question_lacks_is_placed_and_marked(
    tmp_path: Path, old: str, new: str, asked: str
) -> None:
    async with Desk(tmp_path, setup=setup()) as desk:
        await told(desk, old, "We ate soup.", "It rained again.", new)
        turn_id = await desk.ask(asked)
        pieces = {text: piece for piece in artifacts(desk) for text in (old, new) if text in piece}
        assert "superseded" not in pieces[new]
        assert 'superseded-by-turn="' in pieces[old]
        assert (await desk.engine.explain(turn_id)).matches, "and the request can be written again"


@pytest.mark.req("RETRIEVE-13")
async def test_a_later_statement_about_something_else_marks_nothing(tmp_path: Path) -> None:
    old = "The greenhouse gets its water from the rain barrel behind the shed."
    async with Desk(tmp_path, setup=setup()) as desk:
        await told(desk, old, "We ate soup.", "It rained again.", "The violin lesson takes place in the town hall.")
        await desk.ask("Where does the greenhouse get its water from?")
        (piece,) = [piece for piece in artifacts(desk) if old in piece]
        assert "superseded" not in piece


@pytest.mark.req("RETRIEVE-13")
async def test_a_statement_is_marked_that_a_turn_shown_word_for_word_supersedes(tmp_path: Path) -> None:
    old, new = "The budget of the kitchen is 4000 euros.", "The budget of the kitchen is 5500 euros."
    async with Desk(tmp_path, setup=setup()) as desk:
        await told(desk, old)
        await desk.ask(new)
        await desk.settle()
        turn_id = await desk.ask("What is the budget of the kitchen?")
        (piece,) = [piece for piece in artifacts(desk) if old in piece]
        assert 'superseded-by-turn="' in piece
        assert (await desk.engine.explain(turn_id)).matches, "and the request can be written again"


@pytest.mark.req("RETRIEVE-13")
async def test_different_things_do_not_supersede_each_other(tmp_path: Path) -> None:
    facts = ("My brother Tom lives in Leeds.", "My sister Ann now lives in York.", "Our office is in Hull now.")
    async with Desk(tmp_path, setup=setup()) as desk:
        await told(desk, *facts)
        await desk.ask("Where does my brother live?")
        (piece,) = [piece for piece in artifacts(desk) if facts[0] in piece]
        assert "superseded" not in piece
