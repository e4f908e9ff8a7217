from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.compat.threads import window_start
from contextinfinity.domain.thread import Turn
from tests.cases import each

ROLE = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}
SCRIPTS = st.text("uast", max_size=40)


def log(script: str) -> list[Turn]:
    return [Turn(ROLE[letter], str(place)) for place, letter in enumerate(script)]


@pytest.mark.req("THREAD-7", "THREAD-8")
@each(
    ("script", "most", "window"),
    [
        ("", 20, ""),
        ("u", 2, "u"),
        ("uaua", 20, "uaua"),
        ("suaua", 20, "suaua"),  # nothing is left out: it begins as the thread does
        ("uauaua", 2, "ua"),
        ("uauaua", 1, "ua"),
        ("uauaua", -5, "ua"),
        ("uauaua", 3, "uaua"),  # back to a user turn
        ("uauau", 2, "uau"),  # the last exchange is there
        ("uauauuuu", 2, "uauuuu"),
        ("uautttta", 3, "utttta"),
        ("ssss", 2, "ss"),  # no user turn to begin with
        ("aaua", 3, "aua"),
        ("aauauu", 3, "uauu"),
        ("uuuu", 2, "uu"),  # nothing was ever answered
    ],
)
def test_a_window_holds_what_it_has_to(script: str, most: int, window: str) -> None:
    assert script[window_start(log(script), most, whole=True) :] == window


@pytest.mark.req("THREAD-7", "THREAD-8")
@given(script=SCRIPTS, most=st.integers(-3, 50))
def test_any_window_keeps_the_rules(script: str, most: int) -> None:
    start = window_start(log(script), most, whole=True)
    assert start is not None
    window = script[start:]
    assert len(window) >= min(max(most, 2), len(script))
    if start and "u" in script[: start + 1]:
        assert window[0] == "u"
    asked = script[: script.rfind("a") + 1].rfind("u")
    assert asked < 0 or start <= asked
    if start:  # and it is the shortest that does
        shorter = window[1:].find("u") + 1
        assert shorter == 0 or len(window) - shorter < max(most, 2) or start + shorter > asked >= 0


@pytest.mark.req("THREAD-8")
@given(script=SCRIPTS, most=st.integers(-3, 50), unknown=st.integers(1, 40))
def test_a_part_of_a_thread_tells_the_same_or_that_it_cannot_tell(script: str, most: int, unknown: int) -> None:
    turns = log(script)
    start = window_start(turns[unknown:], most, whole=False)
    if start is not None:
        assert unknown + start == window_start(turns, most, whole=True)
