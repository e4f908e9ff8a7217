"""What a message is for: on messages that were looked at when the words were chosen, and on others that were not.

``kept_apart.jsonl`` was written after the words were, and no one may choose words by it: it is there to measure.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from contextinfinity.routing.intent import intent_of

pytestmark = pytest.mark.req("PROVIDER-6")

SAMPLES = Path(__file__).parents[2] / "samples" / "intents"
PROSE = (
    "The committee met again in the autumn and heard from the people who live along the river. Most of them wanted "
    "the old ferry back, and some asked what it would cost to keep it running through the winter. "
)
LINE = "    total += price * (1 - discount)\n    if total > limit:\n        return None;\n"


def told(name: str) -> Counter[tuple[str, str]]:
    """Count how often each label was taken for each intent."""
    lines = (SAMPLES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return Counter((row["intent"], intent_of(whole(row["text"], row.get("pasted", 0))).intent) for row in rows)


def whole(text: str, pasted: int) -> str:
    return f"{text}\n\n{(PROSE * (pasted // len(PROSE) + 1))[:pasted]}" if pasted else text


def right(counts: Counter[tuple[str, str]]) -> int:
    return sum(count for (label, found), count in counts.items() if label == found)


def test_the_messages_that_the_words_were_chosen_by_are_told_apart() -> None:
    counts = told("tuned")
    assert right(counts) >= 0.97 * counts.total()


def test_messages_that_nobody_looked_at_are_told_apart_or_left_alone() -> None:
    counts = told("kept_apart")
    assert right(counts) >= 0.65 * counts.total()
    called = sum(count for (_, found), count in counts.items() if found != "other")
    taken_wrongly = sum(count for (label, found), count in counts.items() if found not in ("other", label))
    assert called >= 0.4 * counts.total()
    assert taken_wrongly <= 0.05 * called


def test_the_confidence_of_a_label_is_how_often_it_was_right() -> None:
    lines = (SAMPLES / "kept_apart.jsonl").read_text(encoding="utf-8").splitlines()
    right_of: defaultdict[tuple[str, float], list[bool]] = defaultdict(list)
    for row in map(json.loads, lines):
        found = intent_of(whole(row["text"], row.get("pasted", 0)))
        right_of[found.reason, found.confidence].append(found.intent == row["intent"])
    for (reason, confidence), each in right_of.items():
        assert confidence == pytest.approx((sum(each) + 1) / (len(each) + 2), abs=0.006), reason


def test_a_label_taken_from_the_message_before_is_less_sure() -> None:
    alone = intent_of("Who was Ottilie Farnsworth?")
    follows = intent_of("and her husband?", ["Who was Ottilie Farnsworth?"])
    assert (follows.intent, 0 < follows.confidence < alone.confidence) == ("factual", True)


def test_a_third_is_kept_apart_and_no_message_is_in_both() -> None:
    texts = {name: (SAMPLES / f"{name}.jsonl").read_text(encoding="utf-8") for name in ("tuned", "kept_apart")}
    tuned, kept = (set(text.splitlines()) for text in texts.values())
    assert len(tuned) + len(kept) >= 120
    assert len(kept) >= 0.3 * (len(tuned) + len(kept))
    assert tuned.isdisjoint(kept)


@pytest.mark.parametrize(
    ("earlier", "text", "intent"),
    [
        (["Write a Python function that adds two numbers"], "now make it recursive", "code"),
        (["Write a Python function that adds two numbers", "shorter"], "and with type hints", "code"),
        (["Who won the Tour de France this year?"], "and in 2019?", "factual"),
        (["Who won the Tour de France this year?"], "make it shorter", "other"),
        (["Write a Python function that adds two numbers"], "Draft an email to my landlord about the rent.", "other"),
        (["Write a Python function", "Draft an email to my landlord about the rent."], "make it shorter", "other"),
        (["hi there"], "and in Germany?", "other"),
        ([], "and in Germany?", "other"),
    ],
)
def test_what_only_goes_on_is_for_what_it_goes_on_with(earlier: list[str], text: str, intent: str) -> None:
    assert intent_of(text, earlier).intent == intent


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("Fix this:\n" + LINE * 200, "code"),
        ("Fix this:\n```\n" + "x\n" * 5000 + "```", "code"),
        (PROSE * 100, "long_document"),
        ("Summarise: " + PROSE * 12, "long_document"),
        ("", "other"),
        ("   \n", "other"),
        ("???", "other"),
        ("42", "other"),
        ("東京の天気は", "other"),
    ],
)
def test_long_empty_and_foreign_messages_have_an_intent_too(text: str, intent: str) -> None:
    assert intent_of(text).intent == intent


def test_the_reason_repeats_nothing_of_what_was_said() -> None:
    judged = intent_of("Who is Zebulon Quux?", ["Who was Ottilie Farnsworth?"])
    assert judged.intent == "factual"
    assert judged.reason == "it asks who, when, where or how many"


@pytest.mark.parametrize(
    "text",
    ["a" * 5_000_000, "who " * 1_000_000, "error[" * 900, "`" * 5999, "select " * 800, "ab_" * 1900, "{\n" * 2900],
)
def test_a_message_of_a_stranger_takes_no_longer_for_being_odd(text: str) -> None:
    intent_of("hello")
    start = time.process_time()
    intent_of(text, [text, text, text])
    assert time.process_time() - start < 1
