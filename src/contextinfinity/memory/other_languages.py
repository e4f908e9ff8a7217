"""Extract statements about oneself in languages other than English, in the user's own words.

The vocabulary of a language lists how such a clause begins (``says``) and what excludes it (``never``). The fact is a
quotation: nothing is translated, so that no translation can be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from contextinfinity.memory.memory_findings import StatedFact, key_of
from contextinfinity.memory.third_person import LONGEST, sentence
from contextinfinity.text.vocabulary import LANGUAGES, phrases

MOST_WORDS: Final = 16
"""The maximum number of words of a clause; a longer one is a story."""

_CLAUSE: Final = re.compile(r"[^,;:.!?()\"，。；：！？、]+(?:, [^,;:.!?()\"，。；：！？]+)*")
_BECAUSE: Final = re.compile(r"^(?:因为|由于)|^(?:denn|da|porque|parce que|perché) ", re.I)


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    tables = [phrases(language, "first_person") for language in LANGUAGES if language != "en"]
    return tuple(
        (re.compile(rf"(?:{'|'.join(table['says'])})", re.I), re.compile("|".join(table["never"]), re.I))
        for table in tables
    )


def quoted_in(text: str) -> Iterator[StatedFact]:
    """Find the clauses of a sentence in which the speaker says something about themselves."""
    for clause in _CLAUSE.finditer(text):
        said = _BECAUSE.sub("", clause[0].strip())
        for says, never in _patterns():
            if says.match(said) and not never.search(text) and len(said.split()) <= MOST_WORDS:
                content = sentence(f"The user said: {said}")
                if len(content) <= LONGEST:
                    about = f"said:{key_of(said)}"
                    start, end = clause.span()
                    yield StatedFact(content=content, start=start, end=end, kind="self", about=about, confidence=0.7)
                break
