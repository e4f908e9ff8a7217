"""Whatever was said and whatever is asked, a ranking puts it in order."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contextinfinity.domain.search import ChunkSide
from contextinfinity.retrieval.question import SearchQuestion, read_question
from contextinfinity.retrieval.speakers import speakers_of, with_speakers
from tests.unit.retrieval.findings import NOW, Line, entries_of, ranked
from tests.unit.retrieval.turns import THEN

SIDES: list[ChunkSide] = ["user", "assistant", "tool"]
WORDS = st.sampled_from(
    ["when", "did", "Ann", "walk:", "dog,", "my", "lake?", "in", "May", "2023", "yesterday", "東京", "I'm"]
)
TEXTS = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=40).map(" ".join))
LINES = st.builds(Line, st.sampled_from(SIDES), TEXTS, st.sampled_from(["", "Ann", "Ben: "]), st.just(THEN))


@pytest.mark.req("RETRIEVE-4")
@example(question='0"ANN', lines=[Line("user", "", "Ann", THEN)], cut=False)
@given(question=TEXTS, lines=st.lists(LINES, max_size=12), cut=st.booleans())
def test_every_text_is_ranked_once_with_scores_that_fall(question: str, lines: list[Line], cut: bool) -> None:
    entries = list({entry.place: entry for entry in entries_of(lines, cut=cut)}.values())
    found = ranked(question, entries)
    said, shown = Counter(entry.text for entry in entries), Counter(each.text for each in found)
    assert shown <= said
    speakers = speakers_of(with_speakers(entries, question))  # their names are no words of the question
    assert shown == said or read_question(SearchQuestion(text=question, asked_at=NOW), speakers).only_exact
    scores = [each.score for each in found]
    assert all(0 <= score <= 1 for score in scores)
    assert all(one >= other for one, other in pairwise(scores))
    assert found == ranked(question, entries)
