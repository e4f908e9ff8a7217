"""Counting tokens: which tokenizer, how exactly, and what is learned."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.text.tokens import Counter, counter_of
from contextinfinity.text.tokens.encodings import Encoding, load_tokenizer
from contextinfinity.vendors.record import ANY_PICTURE, Family
from tests.cases import each

# What OpenAI's own tokenizer gives for these texts: o200k_base, cl100k_base.
VECTORS = [
    ("", 0, 0),
    ("hello world", 2, 2),
    ("tiktoken is great!", 6, 6),
    ("antidisestablishmentarianism", 6, 6),
    ("2 + 2 = 4", 7, 7),
    ("お誕生日おめでとう", 8, 9),
    ("Die Würde des Menschen ist unantastbar.", 11, 12),
    ("def f(x):\n    return x ** 2\n", 11, 11),
    ("🙂🙃", 3, 5),
    ("<|endoftext|>", 7, 7),
    ("a\ud800b", 3, 3),
    ("\ud83d\ude42", 1, 2),
]


def fresh(*, exact: bool = False) -> Counter:
    return Counter(Family("", exact=exact, error=0.0 if exact else 0.25), ANY_PICTURE)


@pytest.mark.req("BUDGET-4")
@each(("text", "o200k", "cl100k"), VECTORS)
def test_texts_for_openai_are_counted_exactly(text: str, o200k: int, cl100k: int) -> None:
    assert counter_of("openai", "gpt-5").count(text) == o200k
    assert counter_of("openai", "gpt-4-turbo").count(text) == cl100k


GERMAN = "Die Würde des Menschen ist unantastbar."


@pytest.mark.req("BUDGET-4")
@each(
    ("model_id", "tokens"),
    [
        ("gpt-4o", 11),
        ("gpt-4o-mini-2024-07-18", 11),
        ("chatgpt-4o-latest", 11),
        ("gpt-4.1-nano", 11),
        ("gpt-6-astra", 11),
        ("gpt-10", 11),
        ("o1", 11),
        ("o3-mini", 11),
        ("openai/o4-mini", 11),
        ("openai/gpt-oss-120b", 11),
        ("gpt-oss:20b", 11),
        ("ft:gpt-4o:acme::x", 11),
        ("gpt-4", 12),
        ("gpt-4-0613", 12),
        ("gpt-3.5-turbo", 12),
        ("gpt-35-turbo", 12),
        ("ft:gpt-4:acme::x", 12),
    ],
)
def test_the_tokenizer_goes_by_the_model(model_id: str, tokens: int) -> None:
    counter = counter_of("openai", model_id)
    assert counter.exact
    assert counter.error == 0
    assert counter.count(GERMAN) == tokens


@pytest.mark.req("BUDGET-4")
@each(
    ("provider", "model_id", "scale"),
    [
        ("anthropic", "claude-3-5-sonnet-20241022", 1.15),
        ("anthropic", "claude-sonnet-4-20250514", 1.15),
        ("anthropic", "claude-haiku-4-5-20251001", 1.15),
        ("bedrock", "us.anthropic.claude-opus-4-6", 1.15),
        ("anthropic", "claude-opus-4-7", 1.4),
        ("anthropic", "claude-opus-4-8-20260601", 1.4),
        ("anthropic", "claude-sonnet-5", 1.4),
        ("anthropic", "something-new", 1.4),
        ("perplexity", "sonar-pro", 1.02),
        ("ollama", "llama3.3:70b", 1.02),
        ("vllm", "meta-llama/Llama-2-7b-chat-hf", 1.3),
        ("vllm", "Qwen/Qwen3-8B", 1.06),
        ("mistral", "mistral-large-latest", 1.1),
        ("openai", "something-new", 1.0),
        ("ollama", "something-new", 1.1),
    ],
)
def test_other_models_are_estimated_with_a_stated_error(provider: str, model_id: str, scale: float) -> None:
    counter = counter_of(provider, model_id)
    assert counter.scale == scale
    assert not counter.exact
    assert 0.05 <= counter.error <= 0.3


def test_a_named_encoding_decides() -> None:
    assert counter_of("vllm", "my-model", "cl100k_base").count(GERMAN) == 12
    assert counter_of("vllm", "my-model", "cl100k_base").exact
    assert not counter_of("vllm", "my-model", "of-my-own").exact


def test_a_model_has_one_counter() -> None:
    counters: list[Counter] = []
    with ThreadPoolExecutor(8) as threads:
        counters.extend(threads.map(lambda _: counter_of("openai", "gpt-shared"), range(64)))
    assert len(set(map(id, counters))) == 1
    assert counter_of("openai", "gpt-other") is not counters[0]


@pytest.mark.req("BUDGET-4")
def test_without_a_tokenizer_four_characters_are_a_token(caplog: pytest.LogCaptureFixture) -> None:
    encoding = Encoding("of-another-world")
    assert encoding.count("x" * 401) == 101
    assert encoding.broken
    assert "bpe-openai" in caplog.text


class Panic(BaseException):
    """As a tokenizer in Rust fails: no Exception."""


@pytest.mark.req("BUDGET-4")
def test_a_text_the_tokenizer_fails_at_is_estimated(caplog: pytest.LogCaptureFixture) -> None:
    def fail(text: str) -> int:
        raise Panic(text)

    encoding = Encoding("o200k_base", load=lambda name: fail)
    assert encoding.count("secret" * 10) == 15
    assert not encoding.broken
    assert "60 characters" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("character", ["a", " ", "\n", "你", "🙂", "0"])
def test_a_megabyte_of_one_character_is_counted(character: str) -> None:
    counter = counter_of("openai", "gpt-5")
    assert 1_000 < counter.count(character * 1_000_000) <= 1_000_000


def test_a_long_text_counts_as_the_sum_of_its_words() -> None:
    assert counter_of("openai", "gpt-5").count("hello" + " world" * 200_000) == 200_001


WHOLE = {name: load_tokenizer(name) for name in ("o200k_base", "cl100k_base")}
BASE64 = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=120_003))
HAN = "".join(map(chr, random.Random(1).choices(range(0x4E00, 0x9FA5), k=60_001)))
LINES = "你好，世界。\n  indented - and dashed --\n\nIt's 12,345.67 there!\n\tx = {'a': 1}  \n\r\n"
LONG = {
    "lines": LINES * 3_000,
    "comments": "foo();\n// bar\n" * 6_000,
    "slashes": "})\n/x\n" * 12_000,
    "blanks": " " * 130_001 + "x",
    "one letter": "a" * 150_001,
    "digits": "1234567" * 12_001,
    "Russian": "слово за словом, " * 5_000,
    "emoji": "😀👨\u200d👩\u200d👧" * 12_001,
    "returns": "abc;\r\n\r\n/def\r\n" * 5_000,
    "base64": BASE64,
    "Han": HAN,
}


@pytest.mark.req("BUDGET-4")
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("kind", LONG)
def test_a_long_text_counts_in_slices_as_it_does_whole(name: str, kind: str) -> None:
    assert Encoding(name).count(LONG[kind]) == WHOLE[name](LONG[kind])


SNIPPETS = st.text(st.sampled_from("aZé\u0301 \t\r\n/;'-_09²你。😀\u00a0\x1c"), min_size=1, max_size=40)


@pytest.mark.req("BUDGET-4")
@pytest.mark.parametrize("name", WHOLE)
@settings(deadline=None, max_examples=25)
@given(snippets=st.lists(SNIPPETS, min_size=1, max_size=3))
def test_any_long_text_counts_in_slices_as_it_does_whole(name: str, snippets: list[str]) -> None:
    text = "".join(snippet * (30_000 // len(snippet)) for snippet in [*snippets, *snippets])
    assert Encoding(name).count(text) == WHOLE[name](text)


@pytest.mark.req("BUDGET-4")
def test_reported_usage_corrects_the_estimate() -> None:
    counter = fresh()
    text = "hello world " * 500
    real = counter.count(text) * 1.3
    for _ in range(20):
        counter.learn(counter.count(text), round(real))
    assert counter.count(text) == pytest.approx(real, rel=0.02)
    assert counter.scale == pytest.approx(1.3, rel=0.02)


@pytest.mark.parametrize(
    ("counted", "reported"),
    [(0, 0), (0, 1000), (1000, 0), (1000, -5), (-1000, 1000), (1000, 10**400), (1000, 1), (20, 40)],
)
def test_nonsense_teaches_nothing(counted: int, reported: int) -> None:
    counter = fresh()
    counter.learn(counted, reported)
    assert counter.scale == 1.0


@pytest.mark.parametrize(("ratio", "bound"), [(3.9, 2.0), (0.26, 0.5)])
def test_learning_stays_in_bounds(ratio: float, bound: float) -> None:
    counter = fresh()
    for _ in range(200):
        counter.learn(10_000, round(10_000 * ratio))
    assert counter.scale == pytest.approx(bound, rel=0.01)


def test_one_odd_report_is_outweighed() -> None:
    counter = fresh()
    for _ in range(20):
        counter.learn(1000, 1000)
    counter.learn(1000, 3000)
    assert counter.scale <= 1.11


def test_an_exact_count_is_not_bent_by_small_differences() -> None:
    counter = fresh(exact=True)
    for _ in range(50):
        counter.learn(1000, 1060)
    assert counter.exact
    assert counter.scale == 1.0


@pytest.mark.req("BUDGET-4")
def test_an_encoding_that_proves_wrong_is_no_longer_called_exact() -> None:
    counter = fresh(exact=True)
    for _ in range(4):
        counter.learn(1000, 1400)
    assert counter.exact, "four reports are not enough"
    for _ in range(10):
        counter.learn(round(1000 * counter.scale), 1400)
    assert not counter.exact
    assert counter.error > 0
    assert counter.scale == pytest.approx(1.4, rel=0.02)
    for _ in range(5):
        counter.learn(round(1000 * counter.scale), 1010)
    assert counter.exact, "it was a spell of something else"


@pytest.mark.req("BUDGET-4")
def test_an_exact_count_is_not_bent_by_what_a_provider_adds_to_some_requests() -> None:
    counter = fresh(exact=True)
    for reported in (1900, 1010, 2400, 1350, 1900, 1400, 1900, 1700, 1020, 3000) * 5:
        counter.learn(1000, reported)
    assert (counter.exact, counter.scale, counter.error) == (True, 1.0, 0)


def test_many_threads_count_and_learn_at_once() -> None:
    counter = fresh()
    start = threading.Barrier(8)

    def work(seed: int) -> None:
        start.wait()
        for number in range(200):
            assert counter.count(f"message {seed} {number}") > 0
            counter.learn(1000, 1000)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert counter.scale == 1.0


def test_counts_are_remembered_without_the_texts_and_within_a_bound() -> None:
    encoding = Encoding("o200k_base")
    for number in range(120_000):
        encoding.count(str(number))
    kept = [*encoding._young, *encoding._old]
    assert len(kept) <= 100_000
    assert all(isinstance(key, int) for key in kept)
    assert encoding.count("119999") == counter_of("openai", "gpt-5").count("119999")
