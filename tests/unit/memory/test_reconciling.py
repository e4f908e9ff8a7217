"""The same fact, what matters for a question, the snippet, and the audit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from contextinfinity.domain.memory import Memory, MemoryMatch, MemoryRecall
from contextinfinity.domain.session import Owner
from contextinfinity.memory.audit import audit, is_grounded
from contextinfinity.memory.extraction import extract_facts
from contextinfinity.memory.memory_findings import ForgetRequest, StatedFact
from contextinfinity.memory.reconciling import alike, meant, reconciled, same
from contextinfinity.memory.relevance import ranked
from contextinfinity.memory.snippet import LONGEST, MemoryLine, besides, fitting, lines, within
from contextinfinity.retrieval.dates import dates_mentioned
from contextinfinity_testing.builders import embedding

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def memory(content: str, number: int = 0, **more: object) -> Memory:
    base = Memory(id=f"m{number}", owner=Owner(), content=content, tags=("user:local",), created_at=NOW)
    return replace(base, **more)


def test_facts_are_alike_by_their_words_unless_one_denies_the_other() -> None:
    assert alike("The user likes long walks.", "The user likes a long walk.") == 1
    assert alike("The user likes walks.", "The user does not like walks.") == 0
    assert alike("The user likes walks.", "The user owns a boat.") < 0.5


@pytest.mark.req("MEMORY-4")
def test_a_fact_that_is_known_in_other_words_takes_its_place() -> None:
    known = memory("The user likes hiking in the high Alps.", about="like:alp high hik", kind="preference")
    new = StatedFact(
        content="The user likes hiking in high Alps today.", start=0, end=1, about="like:x", kind="preference"
    )
    other = reconciled(replace(new, content="The user likes the high Alps hiking."), [known])
    assert other is not None
    assert other.about == known.about
    assert reconciled(replace(new, about="eats:x"), [known]) == replace(new, about="eats:x")
    opposite = replace(new, content="The user does not like hiking in the high Alps.")
    assert reconciled(opposite, [known]) == opposite


@pytest.mark.req("MEMORY-4")
@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        ("The user likes hiking.", "The user likes going hiking.", True),
        ("The user likes hiking.", "The user likes hiking in the mountains.", True),
        ("The user likes dogs.", "The user likes hot dogs.", False),
        ("Always include unit tests for new code.", "Always include integration tests for new code.", False),
        ("The user likes the north side beach.", "The user likes the south side beach.", False),
    ],
)
def test_a_word_more_may_make_it_another_fact(one: str, other: str, are_one: bool) -> None:
    assert same(one, other) is same(other, one) is are_one


@pytest.mark.req("MEMORY-4")
def test_what_is_over_takes_the_place_of_what_is_known_and_says_nothing_else() -> None:
    left = StatedFact(content="The user no longer lives in Oslo.", start=0, end=1, ends=("home",), named=("oslo",))
    oslo, bonn = memory("The user lives in Oslo.", 1, about="home"), memory("The user lives in Bonn.", 2, about="home")
    ended = reconciled(left, [oslo])
    assert ended is not None
    assert ended.about == "home"
    assert reconciled(left, [bonn, memory("The user likes Oslo.", 3, about="like:oslo")]) is None


@pytest.mark.req("MEMORY-4")
def test_a_plan_named_by_fewer_words_is_the_one_that_is_known() -> None:
    rome = memory("The user's flight to Rome: 2026-05-03.", 1, about="plan:rom travel", kind="plan")
    lima = memory("The user's flight to Lima: 2026-05-04.", 2, about="plan:lima travel", kind="plan")
    moved = StatedFact(
        content="The user's flight: 2026-05-05.", start=0, end=1, kind="plan", about="plan:travel", vague=True
    )
    for known, about in (([rome], "plan:rom travel"), ([rome, lima], "plan:travel"), ([], "plan:travel")):
        assert getattr(reconciled(moved, known), "about", None) == about
    assert getattr(reconciled(replace(moved, vague=False), [rome]), "about", None) == "plan:travel"


def test_what_is_to_be_forgotten_is_chosen_by_fact_then_by_words() -> None:
    known = [memory("The user lives in Oslo.", 1), memory("The user likes Oslo fjords.", 2)]
    assert meant(ForgetRequest(facts=("The user lives in Oslo.",), words=("oslo",)), known) == known[:1]
    assert meant(ForgetRequest(words=("oslo", "fjord")), known) == known[1:]
    assert meant(ForgetRequest(words=("oslo", "rum")), known) == meant(ForgetRequest(), known) == []
    assert meant(ForgetRequest(everything=True), known) == known
    assert meant(ForgetRequest(abouts=("home",), words=("home",)), [replace(known[0], about="home")]) != []
    assert meant(ForgetRequest(words=("oslo",)), [memory("The user does not like Oslo.", 3)]) == []


@pytest.mark.req("MEMORY-5")
def test_of_several_allergies_the_one_that_is_named_is_forgotten() -> None:
    facts = ("The user is allergic to nuts.", "The user is allergic to eggs.", "The user works as a nurse.")
    abouts = ("allergy:nut", "allergy:egg", "job")
    known = [memory(fact, n, about=about) for n, (fact, about) in enumerate(zip(facts, abouts, strict=True))]

    def left_out(message: str) -> list[str]:
        (unwanted,) = extract_facts(message, NOW, dates_mentioned).unwanted
        return [one.content for one in meant(unwanted, known)]

    assert left_out("Forget about my allergy to nuts.") == [facts[0]]
    assert left_out("Forget my allergies.") == [*facts[:2]]
    assert left_out("Forget my work schedule.") == []
    assert left_out("Forget my job.") == [facts[2]]


@pytest.mark.req("MEMORY-2")
def test_relevance_is_the_better_of_words_and_vectors() -> None:
    near, far = embedding("e", 1, 0, 0), embedding("e", 0, 1, 0)
    recalled = MemoryRecall(
        found=(MemoryMatch(memory=memory("by words", 1), match=20.0, vector=far),),
        standing=(
            MemoryMatch(memory=memory("by meaning", 2), vector=near),
            MemoryMatch(memory=memory("of another embedder", 3), vector=embedding("other", 1, 0, 0)),
            MemoryMatch(memory=memory("about something else", 4), vector=far),
        ),
    )
    assert [each.content for _, each in ranked(recalled, embedding("e", 1, 0.1, 0))] == ["by meaning", "by words"]
    assert [each.content for _, each in ranked(recalled, None)] == ["by words"]


@pytest.mark.req("MEMORY-2")
def test_a_snippet_is_whole_lines_within_its_bounds() -> None:
    some = [MemoryLine("x" * 99, f"m{number}") for number in range(30)]
    assert len(lines(fitting(some))) == 1999
    assert len(lines(fitting(some, 10_000))) <= LONGEST
    assert fitting(some, 98) == ()
    assert len(within(some, len, 350)) == 3
    assert besides(
        [MemoryLine("a", "1", "t"), MemoryLine("b", "2"), MemoryLine("c", "3"), MemoryLine("d")], {"2"}, {"t"}
    ) == [MemoryLine("c", "3")]


@pytest.mark.req("MEMORY-4")
def test_a_fact_is_grounded_when_its_turn_says_all_of_it() -> None:
    assert is_grounded("The user lives in Oslo.", "I moved to Oslo")
    assert is_grounded("The user's flight to Rome: 2026-05-03.", "my flight to Rome is on May 3")
    assert not is_grounded("The user lives in Oslo with a cat.", "I moved to Oslo")


@pytest.mark.req("MEMORY-4")
def test_an_audit_finds_what_is_ungrounded_double_or_over() -> None:
    memories = [
        memory("The user lives in Oslo.", 1, about="home"),
        memory("The user owns a zeppelin.", 2, about="has:zeppelin"),
        memory("The user likes long walks.", 3, about="like:a"),
        memory("The user likes a long walk.", 4, about="like:b"),
        memory("The user's flight: 2026-03-01.", 5, about="plan:flight", valid_to=NOW - timedelta(days=1)),
        memory("A person wrote this.", 6, origin="person"),
        memory("The user likes chess.", 7, created_at=NOW - timedelta(days=100)),
        memory("The user likes rum.", 8),
    ]
    said = {"m1": "I live in Oslo", "m2": "I want a balloon", "m3": "long walks", "m4": "a long walk", "m7": "chess"}
    said |= {"m5": "my flight is on March 1"}
    found = audit(memories, lambda one: said.get(one.id), at=NOW, oldest=NOW - timedelta(days=90))
    told = {(one.memory_id, one.trouble) for one in found}
    assert told == {("m2", "ungrounded"), ("m4", "duplicate"), ("m5", "stale"), ("m7", "stale"), ("m8", "ungrounded")}
