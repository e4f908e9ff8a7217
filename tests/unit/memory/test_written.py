from __future__ import annotations

import pytest

from contextinfinity.memory.written import as_said


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("The user lives in Oslo.", "I live in Oslo."),
        ("The user is a nurse.", "I am a nurse."),
        ("The user has two cats.", "I have two cats."),
        ("The user no longer watches football.", "I no longer watch football."),
        ("The user studies law.", "I study law."),
        ("The user's name is Ann.", "My name is Ann."),
        ("the user doesn't drink milk", "I don't drink milk"),
        ("Ann likes tea.", "Ann likes tea."),
        ("I live in Oslo.", "I live in Oslo."),
        ("The user", "The user"),
    ],
)
def test_a_fact_is_put_as_its_user_would_say_it(fact: str, said: str) -> None:
    assert as_said(fact) == said
