"""What was found, in the order in which it answers a question, with scores that mean something."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace

from contextinfinity.domain.search import WordHit, WordHits, chunk_id
from contextinfinity.domain.wire import text_hash
from contextinfinity.retrieval import candidates
from contextinfinity.retrieval.calibration import RARE, unrelated_sentences
from contextinfinity.retrieval.question import SearchQuestion
from contextinfinity.retrieval.ranking import RankingWeights, SearchResults, rank
from tests.unit.retrieval.findings import NOW, Line, entries_of, found_for, means, ranked, texts
from tests.unit.retrieval.turns import THEN, chunk, prose

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
    without = RankingWeights(words_around={}, near_around={})
    alone = ranked("What did the garage say?", entries_of(TALK), weights=without)  # type: ignore[arg-type]
    assert alone[0].chunk.rendered_text != TALK[3].text, "by its own words it is not found"


def test_the_person_asked_about_is_preferred_and_the_other_not_lost() -> None:
    lines = [
        Line("user", "I started with pottery classes.", "Ann"),
        Line("assistant", "I started with pottery classes too.", "Ben"),
        *TALK,
    ]
    entries = entries_of(lines)
    assert texts(ranked("Which classes did Ben take?", entries))[0] == lines[1].text
    of_ann = texts(ranked("Which classes did Ann take?", entries))
    assert of_ann[0] == lines[0].text
    assert lines[1].text in of_ann[:3]


def test_what_was_said_at_the_time_that_is_named_comes_first() -> None:
    walks = [Line("user", "I took a long walk along the river.", at=THEN + timedelta(days=30 * n)) for n in range(4)]
    (best, *_) = ranked("Where was the walk in July 2023?", entries_of(walks))
    assert best.said_at.month == 7


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
def test_one_of_a_thousand_unrelated_texts_passes_and_a_text_itself_always_does() -> None:
    sentences = [each for each in unrelated_sentences() if not each.endswith("?")]
    apart = [
        replace(entry, session_id=f"session-{n}", chunks=(replace(entry.chunks[0], id=str(n)),))
        for n, sentence in enumerate(sentences)
        for entry in entries_of([Line("user", sentence)])
    ]
    apart = [replace(entry, place=replace(entry.place, turn_id=f"turn-{n}")) for n, entry in enumerate(apart)]
    strangers: list[float] = []
    for number, sentence in enumerate(sentences):
        others = [entry for entry in apart if entry is not apart[number]]
        strangers += [each.score for each in ranked(sentence, others, weights=RankingWeights(time=0))]  # type: ignore[arg-type]
        (best, *_) = ranked(sentence, apart, weights=RankingWeights(time=0))  # type: ignore[arg-type]
        assert best.chunk.id == str(number)
        assert best.score > RARE
    assert 0.0002 <= np.mean([score >= RARE for score in strangers]) <= 0.004


@pytest.mark.req("RETRIEVE-4")
def test_a_near_vector_alone_lets_pass() -> None:
    entries = entries_of(TALK)
    found = found_for("Zweitwohnung kaufen oder mieten", entries)
    wanted = entries[5].chunks[0].id
    near = replace(found, cosines={**found.cosines, wanted: 0.6})
    best = rank(SearchQuestion(text="Zweitwohnung kaufen oder mieten", asked_at=NOW), near, means())
    assert best[0].chunk.id == wanted
    assert best[0].score >= RARE > best[-1].score


@pytest.mark.req("RETRIEVE-12")
@pytest.mark.parametrize(
    ("said", "passing"),
    [
        ("Where do I shut it off?", 8),
        ("I shut it off.", 0),
        ("Where does Margaret shut it off?", 2),  # she is never mentioned
        ("I met with Margaret. Where do I shut it off?", 8),
        ("Where did I shut it off in October?", 8),
        ("Where Can One Turn The Main Valve?", 8),  # as in a title
        ("Wo ist der Schalter für das Licht?", 8),  # German capitalises all nouns
    ],
)
def test_the_nearest_passages_pass_for_a_question_without_a_shared_word(said: str, passing: int) -> None:
    entries = entries_of([Line("user", f"Something about subject {n}.") for n in range(30)])
    found = found_for(said, entries)
    calibration = means().calibration
    halfway = (calibration.mean + calibration.rare) / 2
    cosines = {entry.chunks[0].id: halfway + 0.001 * (n - 10) for n, entry in enumerate(entries)}
    best = rank(SearchQuestion(text=said, asked_at=NOW), replace(found, cosines=cosines), means())
    assert {each.turn_seq for each in best if each.score >= RARE} == {*range(31 - passing, 31)}


def test_a_long_text_is_ranked_by_its_passages() -> None:
    apart = f"The clutch came up. {prose(400, 'garden')} The garage was open."
    entries = entries_of([Line("user", apart), *TALK[4:], Line("user", "The garage replaced the clutch.")])
    found = ranked("clutch, garage", entries, weights=RankingWeights(near=0, words_around={}))  # type: ignore[arg-type]
    assert found[0].text == "The garage replaced the clutch."
    (first,) = [each for each in found if each.text.startswith("The clutch came up.")]
    assert "garage" not in first.text
    assert first.text == apart[first.start : first.end]


def test_what_is_not_cut_yet_is_found_by_its_words() -> None:
    best = ranked("Who was hiking?", entries_of(TALK, cut=False))[0].chunk
    assert best.rendered_text == TALK[4].text
    digest = text_hash(TALK[4].text).hex()
    assert best.id == chunk_id("session-turn-3", "UserContext", digest)


def test_nothing_found_and_nothing_asked_give_an_order_all_the_same() -> None:
    nothing = SearchResults(words=WordHits(), entries=(), cosines={})
    assert rank(SearchQuestion(text="Who?", asked_at=NOW), nothing, means()) == ()
    assert len(ranked("", entries_of(TALK))) == len(TALK)
    assert len(ranked("who was it?", entries_of(TALK))) == len(TALK)


def test_very_much_text_is_bounded_and_the_promising_stays() -> None:
    filler = [Line(side, f"{number} " + "word " * 700) for number in range(60) for side in ("user", "assistant")]
    entries = entries_of([*filler, Line("user", "The clutch is broken.")])
    found = found_for("What about the clutch?", entries)
    found = replace(found, words=replace(found.words, hits=(WordHit(entries[-1].place, own=1),)), cosines={})
    best = rank(SearchQuestion(text="What about the clutch?", asked_at=NOW), found, means(), most=10**6)
    assert best[0].text == "The clutch is broken."
    assert sum(len(each.text) for each in best) <= candidates.MOST_CHARACTERS < sum(len(line.text) for line in filler)


@pytest.mark.req("RETRIEVE-5")
def test_of_very_much_text_the_rare_words_stay() -> None:
    filler = [Line("user", f"{number} the common garden path " + "word " * 700) for number in range(120)]
    entries = entries_of([*filler, Line("user", "The clutch is broken.")])
    hits = [WordHit(entry.place, own=0b110) for entry in entries[:-1]]
    words = WordHits(hits=(*hits, WordHit(entries[-1].place, own=0b001)), counts=(1, 120, 120), total=121)
    found = SearchResults(words=words, entries=entries, cosines={})
    best = rank(SearchQuestion(text="clutch garden path", asked_at=NOW), found, means(), most=10**6)
    assert best[0].text == "The clutch is broken."


@pytest.mark.req("RETRIEVE-11")
def test_of_very_much_text_the_exact_words_stay() -> None:
    filler = [Line("user", f"{number} the common garden path " + "word " * 700) for number in range(120)]
    entries = entries_of([*filler, Line("user", "ENG-1017 is done.")])
    words = WordHits(hits=tuple(WordHit(entry.place, own=0b0011) for entry in entries[:-1]), counts=(120, 120, 1, 1))
    found = SearchResults(words=words, entries=entries, cosines={})
    best = rank(SearchQuestion(text="garden path ENG-1017?", asked_at=NOW), found, means(), most=10**6)
    assert best[0].text == "ENG-1017 is done."


@pytest.mark.req("RETRIEVE-11")
@pytest.mark.parametrize(
    ("said", "filler", "best"),
    [
        ("What about the clutch in 2025?", "2025-03-04 path", "The clutch is broken."),  # a date is no exact word
        ("What about 7 clutches?", "7 paths", "The clutch is broken."),  # nor is a number that all texts hold
        ('Where was "connection refused"?', "garden path", "It said connection\nrefused."),
    ],
)
def test_of_very_much_text_what_is_exact_stays_and_nothing_else_goes_first(said: str, filler: str, best: str) -> None:
    lines = [Line("user", f"{number} {filler} " + "word " * 700) for number in range(120)]
    entries = entries_of([*lines, Line("user", best)])
    cosines = {entry.chunks[0].id: 0.1 for entry in entries}
    if "clutch" in best:
        cosines[entries[-1].chunks[0].id] = 0.75
    found = SearchResults(words=WordHits(), entries=entries, cosines=cosines)
    first, *_ = rank(SearchQuestion(text=said, asked_at=NOW), found, means(), most=10**6)
    assert first.text == best


@pytest.mark.req("RETRIEVE-7")
def test_of_a_long_message_every_chunk_is_ranked_if_there_are_no_vectors() -> None:
    (entry,) = entries_of([Line("user", "The clutch is broken.")])
    texts = ["ERR_QX_4417 came up." if number == 20 else f"Nothing in part {number}." for number in range(36)]
    chunks = tuple(chunk(number, text, side="user") for number, text in enumerate(texts))
    found = SearchResults(words=WordHits(), entries=[replace(entry, chunks=chunks)], cosines={})
    first, *_ = rank(SearchQuestion(text="What is ERR_QX_4417?", asked_at=NOW), found, means())
    assert (first.text, first.exact) == (texts[20], True)


def test_the_same_is_found_whatever_the_order_it_came_in() -> None:
    entries = entries_of(TALK)
    assert ranked("Who was hiking?", entries) == ranked("Who was hiking?", entries[::-1])


# --- exact words ---


@pytest.mark.req("RETRIEVE-11")
@pytest.mark.parametrize("asked", ["item-3", "What does item-3 cost?", "Which price did we agree on for item-3?"])
def test_an_exact_word_ranks_above_every_text_without_it(asked: str) -> None:
    items = [Line("user", f"We agreed on a price: item-{n} costs {n * 7} euros.") for n in range(1, 40)]
    entries = entries_of([*items, Line("user", "That thing, item-3, was a present in the end.")])
    found = texts(ranked(asked, entries))
    assert {*found[:2]} == {items[2].text, entries[-1].text}


@pytest.mark.req("RETRIEVE-11")
def test_a_search_for_an_exact_word_alone_gives_what_holds_it_or_nothing() -> None:
    entries = entries_of([Line("user", f"ENG-{1000 + n} is about the lift.") for n in range(30)])
    assert texts(ranked("ENG-1017", entries)) == ["ENG-1017 is about the lift."]
    assert ranked("ENG-2017", entries) == ()


@pytest.mark.req("RETRIEVE-11")
def test_a_quoted_phrase_is_met_in_its_order_only() -> None:
    lines = [Line("user", "The long goodbye, what a way."), Line("user", "I read The Long Way last night.")]
    assert texts(ranked('What about "the long way"?', entries_of(lines)))[0] == lines[1].text


@pytest.mark.req("RETRIEVE-5")
def test_a_statement_with_a_question_is_a_statement() -> None:
    lines = [Line("user", "What is the budget for the party?"), Line("assistant", "You have not told me."), *TALK]
    stated = Line("user", "I've set the budget for the party to 450, can you find a caterer?")
    assert texts(ranked("What is the budget for the party?", entries_of([*lines, stated])))[0] == stated.text


@pytest.mark.req("RETRIEVE-14")
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Wie heißt der Hund meiner Schwester?", "Der Hund meiner Schwester heißt Bello."),
        ("¿Cómo se llama el perro de mi hermana?", "El perro de mi hermana se llama Bello."),
        ("Comment s'appelle le chien de ma sœur ?", "Le chien de ma sœur s'appelle Bello."),
        ("Como se chama o cão da minha irmã?", "O cão da minha irmã chama-se Bello."),
        ("Come si chiama il cane di mia sorella?", "Il cane di mia sorella si chiama Bello."),
        ("我姐姐的狗叫什么名字?", "我姐姐的狗叫贝罗。"),
        ("姉の犬の名前は何ですか?", "姉の犬の名前はベロです。"),
        ("Как зовут собаку моей сестры?", "Собаку моей сестры зовут Белло."),
        ("איך קוראים לכלב של אחותי?", "לכלב של אחותי קוראים בלו."),
    ],
)
def test_other_languages_are_found_by_their_words(asked: str, said: str) -> None:
    best = ranked(asked, entries_of([*TALK, Line("user", said), *TALK]))[0]
    assert best.text == said
    assert best.score >= RARE


@pytest.mark.req("RETRIEVE-14")
@pytest.mark.parametrize(
    ("asked", "said", "other"),
    [
        ("我姐姐的狗叫什么名字?", "我姐姐的狗叫贝罗。", "昨天下了很大的雨。"),
        ("姉の犬の名前は何ですか?", "姉の犬の名前はベロです。", "昨日は大雨が降りました。"),
    ],
)
def test_scripts_without_spaces_are_found_without_vectors(asked: str, said: str, other: str) -> None:
    lines = [Line("user", other), Line("user", said), Line("user", other)]
    entries = [replace(entry, chunks=()) for entry in entries_of([*TALK, *lines])]
    assert texts(ranked(asked, entries))[0] == said


CHAT = [
    Line("user", "Any news from the garage about the clutch of the old van?"),
    Line("assistant", "They want nine hundred and can begin on Thursday."),
    *(Line("user" if n % 2 == 0 else "assistant", f"Shelf {n} got oiled with linseed again.") for n in range(10)),
]


@pytest.mark.req("RETRIEVE-5")
def test_a_short_reply_of_an_assistant_ranks_with_the_question_that_it_answers() -> None:
    best = ranked("How much is the clutch of the van?", entries_of(CHAT))
    assert texts(best)[:2] == [CHAT[0].text, CHAT[1].text]
    assert best[1].score >= RARE


@pytest.mark.req("REWRITE-8")
def test_words_that_a_follow_up_may_refer_to_help_less_than_its_own() -> None:
    said = ("The museum costs twelve.", "The ferry to the island costs forty.", "The island has a lighthouse.")
    entries = [
        entry
        for n, text in enumerate((*said, *(f"We oiled shelf {n}." for n in range(6))))
        for entry in entries_of([Line("user", text)], session=f"session-{n}")
    ]
    entries = [replace(entry, chunks=()) for entry in entries]
    asked = SearchQuestion(text="What does it cost?", asked_at=NOW, terms=("island",))
    best = texts(rank(asked, found_for(asked.text, entries, asked.terms), means()))
    assert best[:3] == [said[1], said[0], said[2]]
    two = replace(asked, terms=("island", "lighthouse"))
    assert texts(rank(two, found_for(asked.text, entries, two.terms), means()))[1:3] == [said[0], said[2]]
    scores = {each.text: each.score for each in ranked(asked.text, entries)}
    assert scores[said[0]] - scores[said[1]] < 1e-5, "its own words do not tell them apart"
