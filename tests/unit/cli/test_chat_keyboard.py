"""When Ctrl-C leaves a chat."""

from __future__ import annotations

from contextinfinity.cli.chat.keyboard import InterruptToLeave


def test_the_second_ctrl_c_leaves_within_two_seconds_and_not_after() -> None:
    times = iter([10.0, 12.0, 14.1, 16.0])
    leaving = InterruptToLeave(lambda: next(times))
    assert [leaving.pressed() for _ in range(4)] == [False, True, False, True]


def test_what_was_typed_or_said_in_between_begins_the_count_again() -> None:
    leaving = InterruptToLeave(lambda: 0.0)
    assert [leaving.pressed(), leaving.pressed(typed=True), leaving.pressed()] == [False, False, True]
    leaving.forget()
    assert not leaving.pressed()
