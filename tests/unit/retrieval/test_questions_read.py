"""A question as a search reads it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from contextinfinity.retrieval.question import MOST_WORDS, SearchQuestion, read_question, search_terms, vector_text
from tests.unit.retrieval.findings import NOW
from tests.unit.retrieval.turns import THEN

SPEAKERS = ("Melanie", "Caroline Smith")


def asked(text: str, standalone: str = "") -> SearchQuestion:
    return SearchQuestion(text=text, asked_at=NOW, standalone=standalone)


@pytest.mark.parametrize(
    ("text", "speakers"),
    [
        ("When did Melanie paint?", {"melanie"}),
        ("when did melanie paint?", {"melanie"}),
        ("What is Mel's dog called?", {"melanie"}),
        ("What did Caroline and Melanie plan?", {"melanie", "caroline smith"}),
        ("Who is Smith?", {"caroline smith"}),
        ("What is a melon?", set()),
        ("Who paints?", set()),
    ],
)
def test_speakers_are_known_by_their_names_and_their_fronts(text: str, speakers: set[str]) -> None:
    read = read_question(asked(text), SPEAKERS)
    assert read.speakers == speakers
    assert {"melani", "mel", "carolin", "smith"}.isdisjoint(read.words)


def test_a_name_that_is_a_plain_word_is_meant_with_a_capital_only() -> None:
    assert read_question(asked("what will they do?"), ("Will",)).speakers == frozenset()
    assert read_question(asked("What does Will do?"), ("Will",)).speakers == {"will"}


@pytest.mark.req("RETRIEVE-14")
@pytest.mark.parametrize(
    ("text", "of_assistant"),
    [
        ("What is my sister called?", False),
        ("Which book did you suggest?", True),
        ("What was your advice about the roof?", True),
        ("Welches Buch hast du empfohlen?", True),
        ("¿Qué libro me recomendaste?", True),
        ("你推荐的书叫什么?", True),
        ("How do tomatoes grow?", False),
    ],
)
def test_a_question_about_what_the_assistant_said_is_recognised(text: str, of_assistant: bool) -> None:
    assert read_question(asked(text), ()).of_assistant is of_assistant


@pytest.mark.req("RETRIEVE-12", "RETRIEVE-14")
@pytest.mark.parametrize(
    "text", ["How many dogs do I have?", "Wie viele Hunde habe ich?", "¿Cuántos perros tengo?", "我有几个孩子?"]
)
def test_a_question_for_several_things_is_recognised(text: str) -> None:
    assert read_question(asked(text), ()).lists
    assert not read_question(asked("Where is the key?"), ()).lists


@pytest.mark.req("RETRIEVE-11")
@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("What is ENG-1017 about?", ("eng-1017",)),
        ("Who fixed src/app/main.py and getUserName?", ("src/app/main.py", "getusername")),
        ('When did I read "The Long Way"?', ("the long way",)),
        ("Which port, 8080 or 5432?", ("8080", "5432")),
        ("What is well-known and/or e.g. old?", ()),
        ("What did we do on 7 May 2023?", ()),
    ],
)
def test_exact_words_of_a_question_are_recognised(text: str, exact: tuple[str, ...]) -> None:
    assert read_question(asked(text), ()).exact == exact


@pytest.mark.req("RETRIEVE-5")
def test_times_are_no_words() -> None:
    read = read_question(asked("What did we cook in May 2023?"), ())
    assert read.words == ("cook",)
    assert [(span.start.year, span.start.month) for span in read.spans] == [(2023, 5)]


def test_in_an_old_conversation_times_are_those_of_the_conversation() -> None:
    long_after = SearchQuestion(text="What did we cook in June?", asked_at=THEN + timedelta(days=1500))
    (span,) = read_question(long_after, (), newest=THEN + timedelta(days=90)).spans
    assert (span.start.year, span.start.month) == (2023, 6)


def test_both_forms_of_a_follow_up_are_looked_up() -> None:
    question = asked("who are his children", "who are the children of Rembrandt")
    assert search_terms(question) == ("children", "rembrandt")
    assert vector_text(question, ()) == "who are the children of Rembrandt"


def test_the_vector_is_of_the_question_without_names() -> None:
    assert vector_text(asked("What is Melanie's hobby?"), SPEAKERS) == "What is hobby?"
    assert vector_text(asked("What is the hobby?"), SPEAKERS) == "What is the hobby?"
    assert vector_text(asked("Melanie"), SPEAKERS) == "Melanie", "better than nothing"


def test_a_text_as_question_is_bounded() -> None:
    text = " ".join(f"word{number}" for number in range(100_000))
    assert len(search_terms(asked(text))) == len(read_question(asked(text), ()).words) == MOST_WORDS
