"""Which sentences bind, and how sentences are shortened."""

from __future__ import annotations

from datetime import datetime

import pytest

from contextinfinity.librarian.entry_kinds import kind_of
from contextinfinity.librarian.scoring import words_of
from contextinfinity.librarian.shorten import shortened
from tests.cases import each


@each(
    ("sentence", "kind"),
    [
        ("We decided to use Go.", "decision"),
        ("Let's go with the blue one.", "decision"),
        ("We haven't decided on the colour yet.", "question"),
        ("The colour is still open.", "question"),
        ("Should we use Go?", "fact"),
        ("If we decided to use Go, it would be late.", "fact"),
        ("It must not take longer than a day.", "constraint"),
        ("Never deploy on a Friday.", "constraint"),
        ("I never liked fish that much.", "fact"),
        ("Never mind.", "fact"),
        ("It must be nice there.", "fact"),
        ("That must've been hard, and it is not always easy.", "fact"),
        ("Agreed, Mel!", "fact"),
        ("All passwords must be hashed.", "constraint"),
        ("I prefer tea.", "preference"),
        ("I'd like to know more about tea.", "fact"),
        ("Call me Ada.", "preference"),
        ("The budget is 4,200 €.", "constraint"),
        ("The deadline is 3 May.", "constraint"),
        ("My name is Ada Lovelace.", "fact"),
        ("That was a nice day.", "fact"),
        ("Tell me about the 30 years war, it was long.", "fact"),
        ("Die Antwort darf nicht länger als 20 Zeilen sein.", "constraint"),
        ("Ich bevorzuge kurze Antworten.", "preference"),
        ("On garde la version 3.", "decision"),
        ("Debe funcionar sin red.", "constraint"),
        ("不要使用全局变量。", "constraint"),
    ],
)
def test_only_a_clear_phrase_binds(sentence: str, kind: str) -> None:
    assert kind_of(sentence, frozenset(words_of(sentence))) == kind


@pytest.mark.parametrize(
    ("sentence", "kind"), [("You must call close() at the end.", "fact"), ("We agreed on Go.", "decision")]
)
def test_an_assistant_that_explains_requires_nothing(sentence: str, kind: str) -> None:
    assert kind_of(sentence, frozenset(words_of(sentence)), assistant=True) == kind


@pytest.mark.req("LIBRARIAN-7")
@pytest.mark.parametrize(
    ("sentence", "short"),
    [
        ("Okay, so we decided to use PostgreSQL 16 for the ledger.", "We decided to use PostgreSQL 16 for the ledger."),
        ("By the way, my manager is called Ingrid.", "My manager is called Ingrid."),
        ("I'm planning a trip to Porto in May, can you help me with that?", "I'm planning a trip to Porto in May"),
        (
            "I'm worried about the call, can you remind me that it moved to 22 March at 4:30 PM?",
            "I'm worried about the call, can you remind me that it moved to 22 March at 4:30 PM?",
        ),
        (
            "I'd like a plan for the essay, can you give me some advice, considering that it is due on 20 April",
            "I'd like a plan for the essay, considering that it is due on 20 April",
        ),
        ("We don't use tabs.", "We don't use tabs."),
        ("Thanks!", "Thanks!"),
    ],
)
def test_openers_and_closing_requests_are_cut(sentence: str, short: str) -> None:
    assert shortened(sentence) == short


@pytest.mark.parametrize(
    ("sentence", "dated"),
    [
        ("I went there yesterday.", "I went there yesterday (2 May)."),
        ("We met last Friday in Ghent.", "We met last Friday (1 May) in Ghent."),
        ("She moved two years ago.", "She moved two years ago (2024)."),
        ("We fly next month.", "We fly next month (June 2026)."),
        ("It lasted a week.", "It lasted a week."),
    ],
)
def test_relative_days_get_their_date(sentence: str, dated: str) -> None:
    assert shortened(sentence, datetime(2026, 5, 3)) == dated


@pytest.mark.req("SAFE-9")
@pytest.mark.parametrize(
    "sentence",
    [
        "On page 12 the author confesses that one must never write sober.",
        "The chatbot told my brother that we decided to skip the vaccine.",
        "Im Vertrag steht, dass wir uns für den Anbieter Helios entschieden haben.",
        "Le panneau indique que nous avons décidé de fermer la plage.",
    ],
)
def test_what_the_user_says_that_others_say_binds_to_nothing(sentence: str) -> None:
    assert kind_of(sentence, frozenset(words_of(sentence))) == "fact"


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Remember that the server must never be restarted.", "constraint"),
        ("The rule is that all prices must be net.", "constraint"),
        ("I think that the report must not exceed two pages.", "constraint"),
        ("My team decided that we use Postgres.", "decision"),
        ("Denk daran, dass der Bericht höchstens zwei Seiten haben darf.", "constraint"),
        ("Hemos decidido que el proyecto termina en mayo.", "decision"),
    ],
)
def test_what_the_user_says_in_a_dependent_clause_binds(sentence: str, kind: str) -> None:
    assert kind_of(sentence, frozenset(words_of(sentence))) == kind
