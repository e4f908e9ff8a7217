"""A text that turns the meaning of another round is seen, and other words for the same are not."""

from __future__ import annotations

import pytest

from contextinfinity.text.polarity import opposed
from tests.cases import each


@pytest.mark.req("LIBRARIAN-2")
@each(
    ("said", "noted"),
    [
        ("Never send invoices before the 14th.", "Always send invoices before the 14th"),
        ("We must not deploy billing on Friday.", "deploy billing on Friday"),
        ("Never, under any circumstances, deploy on Friday.", "deploy on Friday"),
        ("Don't touch the billing folder.", "touch the billing folder"),
        ("We decided to use Postgres.", "never use Postgres"),
        ("Finish before 3 May.", "finish after 3 May"),
        ("Send it by Friday.", "send it after Friday"),
        ("At most 5 users per team.", "at least 5 users per team"),
        ("Use tabs, not spaces.", "use spaces, not tabs"),
        ("Everybody except Ada may deploy.", "everybody and Ada may deploy"),
        ("We no longer host in Frankfurt.", "we host in Frankfurt"),
        ("Redis ist verboten.", "Redis nutzen"),
        ("不要使用全局变量", "使用全局变量"),
    ],
)
def test_a_turned_meaning_is_seen_both_ways(said: str, noted: str) -> None:
    assert opposed(said, noted)
    assert opposed(noted, said)


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ("We must not store card numbers.", "never store card numbers"),
        ("Card numbers must never be stored.", "storing card numbers is forbidden"),
        ("Use Redis instead of Memcached, but never for queues.", "Redis for sessions"),
        ("Use tabs, not spaces.", "use tabs"),
        ("Answer within 200 ms.", "at most 200 ms for an answer"),
        ("We decided to use Postgres.", "Postgres it is"),
        ("By the way, CX-1 is the contract.", "CX-1 is the contract"),
        ("Deploys are reviewed by Ingrid from Hamburg.", "Ingrid, Hamburg, reviews deploys"),
        ("", ""),
    ],
)
def test_other_words_for_the_same_are_not_opposed(said: str, noted: str) -> None:
    assert not opposed(said, noted)
