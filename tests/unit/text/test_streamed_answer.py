"""Answers as they are written: what is finished is given once, what is not looks as it will."""

from __future__ import annotations

import pytest
from rich.console import Console

from contextinfinity.text.terminal import streamed_answer
from contextinfinity.text.terminal.markdown_pieces import with_marks_closed, without_bare_marks
from contextinfinity.text.terminal.streamed_answer import StreamedAnswer

pytestmark = pytest.mark.req("CLI-1")

WIDTH = 37


@pytest.mark.parametrize("fence", ["", "```python\n"])
def test_text_without_an_end_is_cut_and_read_once(fence: str) -> None:
    words = [f"word{number}" for number in range(streamed_answer.LONGEST // 2)]
    answer, shown = StreamedAnswer(Console(width=WIDTH, color_system=None)), ""
    answer.add(fence)
    for number, word in enumerate(words):
        answer.add(f"{word} " if number % 5 else f"{word}\n")
        if number % 500 == 0:
            finished, tail = answer.lines(WIDTH)
            shown += " ".join(line.plain for line in finished) + " "
            assert all(line.plain.startswith("  ") for line in finished if fence)
            assert sum(len(line.plain) for line in tail) < 2 * streamed_answer.LONGEST
    shown += " ".join(line.plain for line in answer.lines(WIDTH, over=True)[0])
    assert shown.split() == words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a **b", "a **b**"),
        ("a **b*", "a **b**"),
        ("a **", "a "),
        ("a **b** c", "a **b** c"),
        ("a `b", "a `b`"),
        ("a `**` b", "a `**` b"),
        ("a `", "a "),
    ],
)
def test_what_is_open_looks_as_it_will_when_it_is_closed(text: str, shown: str) -> None:
    assert with_marks_closed(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n-", "a\n"),
        ("a\n1.", "a\n"),
        ("a\n``", "a\n"),
        ("a\n\n| b | c |\n| -", "a\n\n"),
        ("a\n- b", "a\n- b"),
        ("a\n1990", "a\n"),
    ],
)
def test_a_line_of_marks_waits_for_what_they_mean(text: str, shown: str) -> None:
    assert without_bare_marks(text) == shown


def test_a_plain_answer_has_no_frames() -> None:
    text = "# Title\n\n> quoted\n\n- point\n\n---\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"
    framed, plain = ("\n".join(lines_in(text, plain=plain)) for plain in (False, True))
    assert "─" in framed
    assert "│ quoted" in framed
    assert plain.isascii()
    assert [line for line in plain.split("\n") if line.strip()][:4] == ["Title", "> quoted", "- point", "---"]
    assert plain.split()[-4:] == ["a", "b", "1", "2"]


def lines_in(text: str, *, plain: bool) -> list[str]:
    answer = StreamedAnswer(Console(width=WIDTH, color_system=None), plain=plain)
    answer.add(text)
    return [line.plain for line in answer.lines(WIDTH, over=True)[0]]
