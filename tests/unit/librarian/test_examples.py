"""The summaries of the manual are those that come out."""

from __future__ import annotations

import pytest

from benchmarks.summary_examples import FIELDS, PAGE, conversation, page, summary
from contextinfinity.librarian.digest import parse


@pytest.mark.req("LIBRARIAN-7")
async def test_the_page_of_the_manual_shows_the_summaries_as_they_come_out() -> None:
    assert PAGE.read_text(encoding="utf-8") == await page(), "run: python -m benchmarks.summary_examples"


@pytest.mark.req("LIBRARIAN-5", "LIBRARIAN-7")
@pytest.mark.parametrize("name", FIELDS)
async def test_an_example_covers_its_turns_and_quotes_both_sides(name: str) -> None:
    made = parse(await summary(name))
    assert (made.topics[0].first, made.topics[-1].last) == (1, conversation(name)[-1].turn_seq)
    assert {each.who for each in made.of("fact")} == {"user", "assistant"}
    said = " ".join(one.text for one in conversation(name))
    notes = [each.text.partition(" (")[0].rstrip(".") for each in made.of("fact") if " – " not in each.text]
    assert [text for text in notes if text[1:] not in said] == []
