"""What holds for the counts of any text, picture or value."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.domain.message import say
from contextinfinity.text.image_size import size_of
from contextinfinity.text.tokens import Counter, counter_of
from contextinfinity.vendors import VENDORS

EXACT = [counter_of("openai", "gpt-5"), counter_of("openai", "gpt-4")]
ALL = [*EXACT, counter_of("anthropic", "claude-opus-5"), counter_of("ollama", "llama3"), counter_of("x", "unknown")]

any_text = st.text(st.characters(exclude_categories=())) | st.text("ab \n'.,0é\u0301你\U0001f642\ud800")
words = st.lists(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1), min_size=1).map(" ".join)
keys = st.sampled_from(["role", "type", "content", "text", "tool_calls", "source", "image_url", "input", "function"])
kinds = st.sampled_from(
    ["user", "tool", "text", "image", "image_url", "tool_use", "tool_result", "function", "reasoning"]
)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text | kinds,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys | any_text, inner, max_size=5),
    max_leaves=12,
)


@pytest.mark.req("BUDGET-4")
@pytest.mark.parametrize("counter", ALL)
@given(text=any_text)
def test_a_text_has_tokens_unless_it_is_empty(counter: Counter, text: str) -> None:
    tokens = counter.count(text)
    assert (tokens == 0) == (text == "")
    assert tokens <= math.ceil(counter.scale * len(text.encode(errors="surrogatepass")))
    assert counter.count(text) == tokens


@pytest.mark.parametrize("counter", EXACT)
@given(left=words, right=words)
def test_words_put_together_count_as_their_sum(counter: Counter, left: str, right: str) -> None:
    assert counter.count(f"{left} {right}") == counter.count(left) + counter.count(f" {right}")


@pytest.mark.parametrize("counter", ALL)
@given(texts=st.lists(any_text, max_size=6))
def test_messages_count_no_less_than_their_words_and_no_more_than_one_by_one(
    counter: Counter, texts: list[str]
) -> None:
    together = counter.count([say("user", text) for text in texts])
    assert together <= sum(counter.count(say("user", text)) for text in texts)
    assert together >= counter.count(texts)


@pytest.mark.req("BUDGET-4")
@pytest.mark.parametrize("counter", [ALL[0], ALL[2]])
@given(value=any_json)
def test_any_value_has_a_count(counter: Counter, value: Any) -> None:
    assert counter.count(value) >= 0


@given(reports=st.lists(st.tuples(st.integers(), st.integers()), max_size=30))
def test_learning_never_leaves_its_bounds(reports: list[tuple[int, int]]) -> None:
    counter = counter_of("properties", "unknown")
    for counted, reported in reports:
        counter.learn(counted, reported)
    assert 0.5 <= counter.scale / 1.1 <= 2.0


@given(data=st.binary(max_size=200), head=st.sampled_from([b"", b"\xff\xd8\xff", b"GIF89a", b"RIFF0000WEBPVP8"]))
def test_any_bytes_have_a_size_or_none(data: bytes, head: bytes) -> None:
    size = size_of(head + data)
    assert size is None or min(size) > 0


@given(width=st.integers(1, 20_000), height=st.integers(1, 20_000))
def test_a_picture_costs_the_same_lying_on_its_side(width: int, height: int) -> None:
    for rule in (rule for vendor in VENDORS.values() for _, rule in vendor.picture_rules):
        assert 0 < rule.tokens((width, height), False) == rule.tokens((height, width), False)
