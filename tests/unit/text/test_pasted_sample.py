"""Messages that mix own words with foreign text, written without knowledge of the rules, are split with few errors.

Each line of a sample has the message, statements that are the user's own, and foreign statements, in other words than
the message. A foreign statement leaks if 70 % of its words that the message has are own words; an own statement is kept
if 60 % of them are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from contextinfinity.text.own_words import own_words
from contextinfinity.text.plain_prose import plain_prose

SAMPLES = Path(__file__).parents[2] / "samples"
WORD = re.compile(r"[^\W_]+")
DENSE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
EMPTY = """
a an the is are was has have had of to in on at for and or not no be with i you he she it my his her their its does
do will would than from as own user s der die das ein eine und ist hat mit zu auf im nicht kein keine seit den dem
est de la le les un une et ne pas en el los las y se es con que del o os um uma e não di il lo non ha è
"""


def content(text: str) -> set[str]:
    """Return the content words, cut to five letters; of scripts without blanks, all pairs of characters."""
    found: set[str] = set()
    for word in WORD.findall(text.lower()):
        if DENSE.search(word):
            found |= {word[place : place + 2] for place in range(max(1, len(word) - 1))}
        elif word not in EMPTY.split():
            found.add(word[:5])
    return found


def share(statements: list[str], message: str, own_text: str, least: float) -> list[bool]:
    """Return for each statement whether at least this share of its words in the message are in the own text."""
    shown, own = content(message), content(own_text)
    shared = [content(statement) & shown for statement in statements]
    return [bool(words) and len(words & own) >= least * len(words) for words in shared]


def figures(sample: str, own_text: Callable[[str], str]) -> tuple[float, float]:
    """Return the shares of foreign statements taken for own ones, and of own statements kept."""
    leaks: list[bool] = []
    kept: list[bool] = []
    for line in (SAMPLES / sample).read_text("utf-8").splitlines():
        message = json.loads(line)
        own = own_text(message["message"])
        leaks += share(message["foreign"], message["message"], own, 0.7)
        kept += share(message["own"], message["message"], own, 0.6)
    return sum(leaks) / len(leaks), sum(kept) / len(kept)


@pytest.mark.req("SAFE-9")
@pytest.mark.parametrize(
    ("sample", "most_leaks", "least_kept"), [("pasted_dev.jsonl", 0.01, 0.64), ("pasted_held.jsonl", 0.14, 0.55)]
)
def test_foreign_statements_are_hardly_ever_own_words(sample: str, most_leaks: float, least_kept: float) -> None:
    leaks, kept = figures(sample, own_words)
    assert leaks <= most_leaks
    assert kept >= least_kept


@pytest.mark.req("SAFE-9")
@pytest.mark.parametrize(("sample", "most_leaks"), [("pasted_dev.jsonl", 0.0), ("pasted_held.jsonl", 0.05)])
def test_what_may_bind_has_fewer_foreign_statements_than_own_words(sample: str, most_leaks: float) -> None:
    leaks, _ = figures(sample, plain_prose)
    assert leaks <= most_leaks
