from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from contextinfinity.compat import context
from contextinfinity.compat.context import (
    FIRST_LOOK,
    LONGEST_SNIPPET,
    MESSAGE_CHARACTERS,
    MOST_CHARACTERS,
    ContextBuilder,
    build_contextual_messages,
)
from contextinfinity.rewriting import FollowUp, Rewritten
from contextinfinity.threads import Turn, add_turn
from contextinfinity_testing.threads import unused, using


@pytest.fixture(autouse=True)
def in_process(tmp_path: Path) -> Iterator[None]:
    with using("in_process", tmp_path):
        yield


def filled(count: int, *, size: int = 10) -> str:
    name = unused()
    for number in range(count):
        add_turn(name, Turn("assistant" if number % 2 else "user", f"{number}".ljust(size, ".")))
    return name


class Remembers:
    def __init__(self, text: str | None) -> None:
        self._text = text

    async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        return self._text


class Says:
    def __init__(self, rewritten: Rewritten) -> None:
        self._rewritten = rewritten

    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        return self._rewritten


@pytest.mark.req("CTX-1")
@pytest.mark.parametrize("count", [1, FIRST_LOOK - 1, FIRST_LOOK, FIRST_LOOK + 1, 1000])
async def test_no_earlier_turn_is_missing(count: int) -> None:
    result = await build_contextual_messages(filled(count), "and now?")
    assert [message["content"].rstrip(".") for message in result.short_term_history] == list(map(str, range(count)))


@pytest.mark.req("CTX-9")
async def test_of_a_very_long_thread_the_newest_that_fill_the_bound_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="contextinfinity.compat.context")
    result = await build_contextual_messages(filled(1000, size=1000), "and now?")
    history = result.short_term_history
    assert len(history) == MOST_CHARACTERS // (1000 + MESSAGE_CHARACTERS)
    assert (history[0]["role"], history[-1]["content"].rstrip(".")) == ("user", "999")
    assert caplog.messages[0].endswith(f"turns loaded {len(history)}, older ones left out")


@pytest.mark.req("THREAD-8")
async def test_the_newest_turns_are_shown_however_large() -> None:
    result = await build_contextual_messages(filled(30, size=MOST_CHARACTERS), "and now?")
    assert [message["content"].rstrip(".") for message in result.short_term_history] == list(map(str, range(10, 30)))


@pytest.mark.req("CTX-4")
@pytest.mark.parametrize("query", ["who?", "  who?\n"])
async def test_a_form_that_says_the_same_is_not_added(query: str) -> None:
    builder = ContextBuilder(rewriter=Says(Rewritten(query=query)))
    assert (await builder.build(unused(), "who?")).messages[-1]["content"] == "who?"


@pytest.mark.req("CTX-4", "CTX-7")
async def test_a_rewriter_that_says_nothing_counts_as_none() -> None:
    result = await ContextBuilder(rewriter=Says(Rewritten(query=" \n"))).build(unused(), "who?")
    assert (result.rewritten_query, result.messages[-1]["content"]) == ("who?", "who?")


@pytest.mark.req("CTX-5")
async def test_what_may_be_meant_comes_through() -> None:
    data = {"question": "Which one?", "candidates": ["Anna", "Berta"]}
    rewriter = Says(Rewritten(query="who?", is_ambiguous=True, disambiguation_data=data))
    result = await ContextBuilder(rewriter=rewriter).build(unused(), "who?")
    assert (result.is_ambiguous, result.disambiguation_data) == (True, data)


@pytest.mark.parametrize("text", [None, "", " \n "])
async def test_memories_that_say_nothing_make_no_message(text: str | None) -> None:
    result = await ContextBuilder(memories=Remembers(text)).build(unused(), "who?")
    assert result.memory_snippet is None
    assert len(result.messages) == 2


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x" * LONGEST_SNIPPET, "x" * LONGEST_SNIPPET),
        ("x" * (LONGEST_SNIPPET + 1), "x" * LONGEST_SNIPPET),
        (f"{'x' * LONGEST_SNIPPET}\ny", "x" * LONGEST_SNIPPET),
        (f"{'x' * 1500}\n{'y' * 400}\n{'z' * 200}", f"{'x' * 1500}\n{'y' * 400}"),
    ],
)
async def test_memories_are_cut_between_facts(text: str, kept: str) -> None:
    result = await ContextBuilder(memories=Remembers(text)).build(unused(), "who?")
    assert result.memory_snippet == kept
    assert result.messages[1]["content"].endswith(kept)


async def test_another_builder_can_be_used() -> None:
    context.use(ContextBuilder(system="Be brief."))
    try:
        assert (await build_contextual_messages(unused(), "who?")).messages[0]["content"] == "Be brief."
    finally:
        context.use(None)
    assert (await build_contextual_messages(unused(), "who?")).messages[0]["content"] != "Be brief."


@pytest.mark.req("CTX-8")
async def test_what_two_requests_get_is_not_shared() -> None:
    name = filled(2)
    one, two = await build_contextual_messages(name, "who?"), await build_contextual_messages(name, "who?")
    one.messages[1]["content"] = "changed"
    one.short_term_history[0]["content"] = "changed"
    one.entities.append("changed")
    assert two == await build_contextual_messages(name, "who?")
    assert two.short_term_history[0]["content"] != "changed"
