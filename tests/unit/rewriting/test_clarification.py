from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.rewriting import Case, cases
from contextinfinity.rewriting import FollowUp, OfflineRewriter
from contextinfinity.rewriting.clarification import UnmatchedReply, filled_in, is_open, reply_to
from contextinfinity.threads import Turn
from tests.cases import each

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FOUNDERS = [{"name": "Larry Page"}, {"name": "Sergey Brin"}]
FUNCTIONS = [{"name": "load_config()"}, {"name": "save_config()"}, {"name": "src/app.py"}]


async def asks(case: Case) -> bool:
    return (await OfflineRewriter().rewrite(case.asked)).is_ambiguous


@pytest.mark.req("REWRITE-4")
async def test_most_doubts_are_asked_about_and_hardly_a_clear_message() -> None:
    doubtful = [await asks(case) for case in cases() if case.is_ambiguous]
    clear = [await asks(case) for case in cases() if not case.is_ambiguous]
    assert min(len(doubtful), len(clear)) >= 40
    assert sum(doubtful) >= 0.9 * len(doubtful)
    assert sum(clear) <= 0.02 * len(clear)


@pytest.mark.req("REWRITE-4", "CTX-5")
async def test_a_doubt_tells_the_question_and_the_candidates() -> None:
    said = (Turn("user", "Who founded Google?"), Turn("assistant", "It was founded by Larry Page and Sergey Brin."))
    rewritten = await OfflineRewriter().rewrite(FollowUp(latest_user_message="Where was he born?", recent_history=said))
    assert rewritten.is_ambiguous
    assert rewritten.disambiguation_data == {
        "question": "Which person do you mean: Larry Page or Sergey Brin?",
        "reference": "he",
        "candidates": [
            {"id": "1", "name": "Larry Page", "kind": "person", "turn": 1},
            {"id": "2", "name": "Sergey Brin", "kind": "person", "turn": 1},
        ],
    }
    assert rewritten.query == "Where was he born?", "nothing uncertain is shown"
    assert rewritten.terms[:4] == ("Larry", "Page", "Sergey", "Brin")


@pytest.mark.req("REWRITE-5")
@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        ("the second", ("Sergey Brin",)),
        ("The first one, please.", ("Larry Page",)),
        ("2", ("Sergey Brin",)),
        ("the latter", ("Sergey Brin",)),
        ("Sergey", ("Sergey Brin",)),
        ("I mean Larry Page", ("Larry Page",)),
        ("Brin's", ("Sergey Brin",)),
        ("both", ("Larry Page", "Sergey Brin")),
        ("Larry and Sergey", ("Larry Page", "Sergey Brin")),
    ],
)
def test_a_reply_chooses_by_place_or_by_name(reply: str, chosen: tuple[str, ...]) -> None:
    assert reply_to(FOUNDERS, reply) == chosen


CITIES = [{"name": "Vienna"}, {"name": "Prague"}, {"name": "Krakow"}, {"name": "Budapest"}, {"name": "Graz"}]


@pytest.mark.req("REWRITE-9")
@pytest.mark.parametrize(
    ("message", "question"),
    [
        ("How far is it from there?", "Which place do you mean: Vienna, Prague, Krakow or Budapest?"),
        ("What is the weather like there?", "Which place do you mean: Vienna, Prague, Krakow or Budapest?"),
    ],
)
async def test_a_clarification_names_every_candidate(message: str, question: str) -> None:
    said = (Turn("user", "We will visit Vienna, Prague, Krakow and Budapest."), Turn("assistant", "Nice trip!"))
    rewritten = await OfflineRewriter().rewrite(FollowUp(latest_user_message=message, recent_history=said))
    assert isinstance(rewritten.disambiguation_data, dict)
    assert rewritten.disambiguation_data["question"] == question


@pytest.mark.req("REWRITE-9")
@each(
    ("reply", "chosen"),
    [
        ("4", ["Budapest"]),
        ("#2", ["Prague"]),
        ("option 3 please", ["Krakow"]),
        ("number two", ["Prague"]),
        ("1 and 2", ["Vienna", "Prague"]),
        ("1, 3 & 5", ["Vienna", "Krakow", "Graz"]),
        ("1-3", ["Vienna", "Prague", "Krakow"]),
        ("the first and the third", ["Vienna", "Krakow"]),
        ("the first two", ["Vienna", "Prague"]),
        ("the last two", ["Budapest", "Graz"]),
        ("the last one", ["Graz"]),
        ("the middle one", ["Krakow"]),
        ("all of them", ["Vienna", "Prague", "Krakow", "Budapest", "Graz"]),
        ("all five", ["Vienna", "Prague", "Krakow", "Budapest", "Graz"]),
        ("all but Vienna", ["Prague", "Krakow", "Budapest", "Graz"]),
        ("Buda", ["Budapest"]),
        ("die zweite", ["Prague"]),
        ("Krakow and Graz", ["Krakow", "Graz"]),
        ("I mean Salzburg", ["Salzburg"]),
        ("neither, I meant Salzburg", ["Salzburg"]),
        ("i meant salzburg", ["salzburg"]),
        ("Salzburg", ["Salzburg"]),
    ],
)
def test_a_reply_chooses_by_number_position_part_of_a_name_or_a_new_name(reply: str, chosen: list[str]) -> None:
    assert reply_to(CITIES, reply) == tuple(chosen)


@pytest.mark.req("REWRITE-9")
def test_a_new_name_that_shares_a_word_with_a_candidate_is_new() -> None:
    people = [{"name": "Eric Clapton"}, {"name": "John Smith"}]
    assert reply_to(people, "I mean Eric Schmidt") == ("Eric Schmidt",)
    assert reply_to(people, "i mean eric schmidt") == ("eric schmidt",)
    assert reply_to(people, "I mean Eric") == ("Eric Clapton",)
    assert reply_to(people, "not Eric") == ("John Smith",)
    assert reply_to(people, "the middle one") is None


@pytest.mark.req("REWRITE-5")
@pytest.mark.parametrize(
    "reply",
    [
        "How is the weather in Rome?",
        "never mind",
        "neither of them",
        "Let's talk about something else.",
        "How many patents did Larry Page file in Europe last year?",
        "Please write a poem about the sea",
    ],
)
def test_a_new_topic_cancels_the_question(reply: str) -> None:
    assert reply_to(FOUNDERS, reply) is UnmatchedReply.CANCELLED


@pytest.mark.req("REWRITE-5")
@pytest.mark.parametrize("reply", ["", "hm", "that one", "the fifth", "yes", "no"])
def test_a_reply_that_says_neither_is_unclear(reply: str) -> None:
    assert reply_to(FOUNDERS, reply) is None


def test_names_of_code_are_known_by_their_parts() -> None:
    assert reply_to(FUNCTIONS, "load_config") == ("load_config()",)
    assert reply_to(FUNCTIONS, "app.py") == ("src/app.py",)
    assert reply_to([{"name": "Emma Watson"}, {"name": "Emma Stone"}], "Emma") is None


@pytest.mark.req("REWRITE-5")
@pytest.mark.parametrize(
    ("seconds", "still"),
    [(0, True), (-0.001, False), (0.001, True), (299, True), (300, True), (301, False), (86_400, False), (-1, False)],
)
def test_a_question_is_open_for_five_minutes(seconds: float, still: bool) -> None:
    assert is_open(NOON, NOON + timedelta(seconds=seconds)) is still


@pytest.mark.req("REWRITE-5")
@pytest.mark.parametrize(
    ("message", "reference", "chosen", "explicit"),
    [
        ("Where was he born?", "he", ("Sergey Brin",), "Where was Sergey Brin born?"),
        ("What is his email?", "his", ("James",), "What is James' email?"),
        ("Who plays her?", "her", ("Monica",), "Who plays Monica?"),
        ("What is her name?", "her", ("Monica",), "What is Monica's name?"),
        ("How is it there?", "there", ("Oslo",), "How is it in Oslo?"),
        ("Who wrote that book?", "that book", ("Dune", "Emma"), "Who wrote Dune and Emma?"),
        ("Why?", "he", ("Anna",), "Why?"),
    ],
)
def test_the_choice_takes_the_place_of_the_reference(
    message: str, reference: str, chosen: tuple[str, ...], explicit: str
) -> None:
    assert filled_in(message, reference, chosen) == explicit
