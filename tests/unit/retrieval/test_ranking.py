"""What was found, in the order in which it answers a question, with scores that mean something."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace

from contextinfinity.domain.chunk import chunk_id
from contextinfinity.domain.search import WordHit, WordHits
from contextinfinity.domain.wire import text_hash
from contextinfinity.retrieval import ranking
from contextinfinity.retrieval.asking import Question
from contextinfinity.retrieval.calibration import RARE
from contextinfinity.retrieval.ranking import Found, Weights, rank
from contextinfinity.retrieval.yardstick import SENTENCES
from tests.unit.retrieval.findings import NOW, Line, entries_of, found_for, means, ranked, texts
from tests.unit.retrieval.turns import THEN, prose

TALK = [
    Line("user", "Hey! How was your week?", "Ann"),
    Line("assistant", "Busy. The children had the flu and the car broke down.", "Ben"),
    Line("user", "Oh no. What did the garage say about it?", "Ann"),
    Line("assistant", "It needs a new clutch, they want nine hundred for that.", "Ben"),
    Line("user", "Ouch. I went hiking near the lake with my sister.", "Ann"),
    Line("assistant", "Sounds lovely. Did you bring the dog?", "Ben"),
    Line("user", "Yes, Rufus swam until he was tired.", "Ann"),
    Line("assistant", "He is such a good boy.", "Ben"),
]


@pytest.mark.req("RETRIEVE-5")
def test_rare_words_of_the_question_come_first() -> None:
    assert texts(ranked("Who was hiking?", entries_of(TALK)))[0] == TALK[4].text


@pytest.mark.req("RETRIEVE-5")
def test_an_answer_is_found_by_the_words_of_the_question_before_it() -> None:
    best = texts(ranked("What did the garage say?", entries_of(TALK)))
    assert best.index(TALK[3].text) < best.index(TALK[1].text)
    alone = ranked("What did the garage say?", entries_of(TALK), weights=Weights(heard_around={}, near_around={}))  # type: ignore[arg-type]
    assert alone[0].chunk.rendered_text != TALK[3].text, "by its own words it is not found"


@pytest.mark.req("RETRIEVE-5")
def test_another_word_for_the_same_is_enough() -> None:
    lines = [*TALK, Line("user", "My physician gave me a prescription.", "Ann"), Line("assistant", "Get well.", "Ben")]
    found = replace(found_for("What did the doctor give?", entries_of(lines)), cosines={})
    best = rank(Question(text="What did the doctor give?", asked_at=NOW), found, means())
    assert best[0].chunk.rendered_text == "My physician gave me a prescription."


def test_the_person_asked_about_is_preferred_and_the_other_not_lost() -> None:
    lines = [
        Line("user", "I started with pottery classes.", "Ann"),
        Line("assistant", "I started with pottery classes too.", "Ben"),
        *TALK,
    ]
    entries = entries_of(lines)
    assert texts(ranked("Which classes did Ben take?", entries))[0] == lines[1].text
    assert texts(ranked("Which classes did Ann take?", entries))[:2] == [lines[0].text, lines[1].text]


def test_what_was_said_at_the_time_that_is_named_comes_first() -> None:
    walks = [Line("user", "I took a long walk along the river.", at=THEN + timedelta(days=30 * n)) for n in range(4)]
    (best, *_) = ranked("Where was the walk in July 2023?", entries_of(walks))
    assert best.said_at.month == 7


def test_what_tells_of_a_time_counts_as_said_then() -> None:
    lines = [
        Line("user", "I took a walk along the river some day."),
        Line("assistant", "Nice."),
        Line("user", "I took a walk along the river on 3 March 2023."),
    ]
    found = ranked("What about the walk in March 2023?", entries_of(lines), weights=Weights(near=0, heard_around={}))  # type: ignore[arg-type]
    assert texts(found)[0] == lines[2].text


@pytest.mark.req("RETRIEVE-4")
def test_the_newest_of_equals_gains_by_recency() -> None:
    lines = [Line("user", "The rent is due.", at=THEN + timedelta(days=90 * n)) for n in range(3)]
    entries = [
        entry
        for n, line in enumerate(lines)
        for entry in entries_of([line], session=f"session-{n}")
    ]  # fmt: skip
    entries = [replace(entry, chunks=(replace(entry.chunks[0], id=f"chunk-{n}"),)) for n, entry in enumerate(entries)]
    assert ranked("When is the rent due?", entries, recency=0.1)[0].said_at == lines[-1].at
    plain = ranked("When is the rent due?", entries)
    assert plain[0].score - plain[2].score < 1e-5, "without it they are equal"


@pytest.mark.req("RETRIEVE-4")
def test_scores_lie_between_0_and_1_and_follow_the_order() -> None:
    scores = [each.score for each in ranked("Which classes did Ann take?", entries_of(TALK * 4))]
    assert all(0 <= score <= 1 for score in scores)
    assert all(one >= other for one, other in pairwise(scores))


@pytest.mark.req("RETRIEVE-4")
def test_one_of_a_thousand_random_pairs_passes_and_a_text_itself_always_does() -> None:
    strangers: list[float] = []
    selves: list[float] = []
    apart = [
        replace(entry, session_id=f"session-{n}", chunks=(replace(entry.chunks[0], id=str(n)),))
        for n, sentence in enumerate(SENTENCES)
        for entry in entries_of([Line("user", sentence)])
    ]
    apart = [replace(entry, place=replace(entry.place, turn_id=f"turn-{n}")) for n, entry in enumerate(apart)]
    for number, sentence in enumerate(SENTENCES):
        for each in ranked(sentence, apart, weights=Weights(time=0)):  # type: ignore[arg-type]
            (selves if each.chunk.id == str(number) else strangers).append(each.score)
    passed = np.mean([score >= RARE for score in strangers])
    assert 0.0003 <= passed <= 0.004
    assert min(selves) > RARE
    assert np.median(selves) > 0.99


@pytest.mark.req("RETRIEVE-4")
def test_a_near_vector_alone_lets_pass() -> None:
    entries = entries_of(TALK)
    found = found_for("Zweitwohnung kaufen oder mieten", entries)
    wanted = entries[5].chunks[0].id
    near = replace(found, cosines={**found.cosines, wanted: 0.6})
    best = rank(Question(text="Zweitwohnung kaufen oder mieten", asked_at=NOW), near, means())
    assert best[0].chunk.id == wanted
    assert best[0].score >= RARE > best[-1].score


def test_words_that_stand_far_apart_in_a_long_text_count_less() -> None:
    apart = f"The clutch came up. {prose(200, 'garden')} The garage was open."
    entries = entries_of([Line("user", apart), *TALK[4:], Line("user", "The garage replaced the clutch.")])
    found = ranked("clutch, garage", entries, weights=Weights(near=0, heard_around={}))  # type: ignore[arg-type]
    scores = {each.chunk.rendered_text: each.score for each in found}
    assert scores["The garage replaced the clutch."] > scores[apart] + 0.05


def test_what_is_not_cut_yet_is_found_by_its_words() -> None:
    best = ranked("Who was hiking?", entries_of(TALK, cut=False))[0].chunk
    assert best.rendered_text == TALK[4].text
    digest = text_hash(TALK[4].text).hex()
    assert best.id == chunk_id("session-turn-3", "UserContext", digest)


def test_nothing_found_and_nothing_asked_give_an_order_all_the_same() -> None:
    nothing = Found(words=WordHits(), entries=(), cosines={})
    assert rank(Question(text="Who?", asked_at=NOW), nothing, means()) == ()
    assert len(ranked("", entries_of(TALK))) == len(TALK)
    assert len(ranked("who was it?", entries_of(TALK))) == len(TALK)


def test_very_much_text_is_bounded_and_the_promising_stays() -> None:
    filler = [Line(side, f"{number} " + "word " * 700) for number in range(30) for side in ("user", "assistant")]
    entries = entries_of([*filler, Line("user", "The clutch is broken.")])
    found = found_for("What about the clutch?", entries)
    found = replace(found, words=replace(found.words, hits=(WordHit(entries[-1].place, own=1),)), cosines={})
    best = rank(Question(text="What about the clutch?", asked_at=NOW), found, means())
    assert best[0].chunk.rendered_text == "The clutch is broken."
    assert (
        sum(len(each.chunk.rendered_text) for each in best)
        <= ranking.MOST_CHARACTERS
        < sum(map(len, (f.text for f in filler)))
    )


def test_the_same_is_found_whatever_the_order_it_came_in() -> None:
    entries = entries_of(TALK)
    assert ranked("Who was hiking?", entries) == ranked("Who was hiking?", entries[::-1])
