"""Answers as they are written: whatever text comes, in whatever pieces, the same lines stand there at its end."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from contextinfinity.text.terminal.streamed_answer import StreamedAnswer

pytestmark = pytest.mark.req("CLI-1")

WIDTH = 37
BLOCKS = [
    "# A *title*",
    "Words that go on for longer than one line of this screen, **bold** and `code`.\nAnd a line.",
    "- one\n- two\n  - inner\n\n    more\n- three",
    "9. nine\n10. ten\n\n    code in it",
    "> quoted\n> more\n>\n> - item",
    "| a | b |\n| --- | ---: |\n| 1 | **2** |",
    '```python\ndef f():\n    """two\n\n    lines"""\n```',
    "~~~\nno language\n\n| not | a table |\n~~~",
    "    indented code",
    "---",
    "Title\n=====",
    "<div>as it is</div>\n\n[1]: http://example.org",
    "日本語 🎉 é\r\nnext",
]


def lines(pieces: list[str]) -> list[str]:
    """Return all finished lines of an answer that comes in these pieces."""
    answer, given_so_far = StreamedAnswer(Console(width=WIDTH, color_system=None)), []
    for piece in pieces:
        answer.add(piece)
        given_so_far += answer.lines(WIDTH)[0]
    return [line.plain.rstrip() for line in given_so_far + answer.lines(WIDTH, over=True)[0]]


def cut(text: str, places: list[int]) -> list[str]:
    """Cut a text at these places, as far as it has them."""
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[begin:end] for begin, end in pairwise(edges)]


@given(st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=5), st.lists(st.integers(0, 2000), max_size=40))
def test_the_pieces_an_answer_comes_in_do_not_show(blocks: list[str], places: list[int]) -> None:
    text = "\n\n".join(blocks)
    assert lines(cut(text, places)) == lines([text])


LETTERS = st.text(alphabet="ab *`_#->|1.\n[]()=:<&;\\\t", max_size=60)


@given(LETTERS.filter(lambda text: "```" not in text), st.lists(st.integers(0, 60), max_size=10))
@example("- a\n-\n- b", [4, 6])
def test_no_letter_is_lost_or_doubled_whatever_is_written(text: str, places: list[int]) -> None:
    assert re.sub(r"[^ab1]", "", "".join(lines(cut(text, places)))) == re.sub(r"[^ab1]", "", text)
