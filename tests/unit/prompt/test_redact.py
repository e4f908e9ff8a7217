"""What must not leave the machine does not, and what was hidden can be hidden again."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from contextinfinity.domain.message import (
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    say,
)
from contextinfinity.domain.plan import Front
from contextinfinity.domain.prompt import Abilities, Prompt
from contextinfinity.errors import ContextInfinityError
from contextinfinity.prompt.assemble import Frame, assemble
from contextinfinity.prompt.layout import lay_out
from contextinfinity.prompt.measure import Ceilings, divide_window
from contextinfinity.prompt.prompt_sections import Sections
from contextinfinity.prompt.redact import (
    REDACTED,
    all_of,
    apply,
    by_patterns,
    hidden_options,
    hidden_part,
    redact,
    redact_turns,
    secrets_in,
)
from tests.unit.prompt.material import FULL, MEASURE, artifact, called, gave, sections, shown

CARD = "4111 1111 1111 1111"
CARDS = by_patterns([r"\d{4}( \d{4}){3}"])
EVERYWHERE = sections(
    front=replace(FULL, pinned_facts=(f"The card is {CARD}.",), summary=f"They paid with {CARD}."),
    turns=(shown(10, f"Is {CARD} valid?", f"{CARD} is."),),
    artifacts=(artifact(1, f"Card: {CARD}"),),
    contextualised=f"Pay with {CARD}!",
    message=say("user", f"Pay with {CARD}, or {CARD}."),
    rounds=(called("c1", card=CARD, deep=[{"again": CARD}]), gave("c1", f"Paid with {CARD}")),
)


def everything(material: Sections) -> str:
    return msgspec.json.encode(lay_out(material)).decode()


@pytest.mark.req("SAFE-1")
def test_what_fits_a_pattern_leaves_nowhere() -> None:
    assert everything(EVERYWHERE).count(CARD) == 11
    hidden, spans = redact(EVERYWHERE, CARDS)
    assert CARD not in everything(hidden)
    assert everything(hidden).count(REDACTED) == len(spans) == 11
    told, plain = lay_out(hidden), lay_out(EVERYWHERE)
    assert told.messages[4].rendered_text.count(REDACTED) == 4, "artifact, words twice, the explicit form"
    assert "Pay with [redacted], or [redacted]." in told.messages[4].rendered_text
    assert [message.role for message in told.messages] == [message.role for message in plain.messages]


@pytest.mark.req("SAFE-1", "CTX-10")
def test_what_was_hidden_is_hidden_again_in_the_same_places() -> None:
    hidden, spans = redact(EVERYWHERE, CARDS)
    assert apply(EVERYWHERE, spans) == hidden
    assert apply(EVERYWHERE, ()) == EVERYWHERE


@pytest.mark.req("SAFE-1")
def test_a_python_function_names_what_to_hide() -> None:
    def names(text: str) -> Iterable[tuple[int, int]]:
        place = text.find("Rex")
        yield place, place + 3
        yield 5, 2  # no stretch at all
        yield -4, 0
        yield len(text), len(text) + 10

    material = sections(front=Front(system="Rex barks."), turns=(), message=say("user", "Hello, Rex"))
    hidden, spans = redact(material, names)
    assert hidden.front.system == "[redacted] barks."
    assert hidden.message.rendered_text == "Hello, [redacted]"
    assert [(start, end) for _, start, end in spans] == [(0, 3), (7, 10)]


@pytest.mark.req("SAFE-1")
def test_stretches_that_overlap_are_hidden_as_one() -> None:
    both = all_of([by_patterns(["abcd", "cdef"]), lambda text: [(5, 8)]])
    hidden, spans = redact(sections(front=Front(system="xabcdefgh-"), turns=(), message=say("user", "")), both)
    assert spans == ((0, 1, 8),)
    assert hidden.front.system == "x[redacted]h-"


@pytest.mark.req("SAFE-1")
def test_nothing_but_texts_is_touched() -> None:
    picture = ImageBlock(media_type="image/png", source={"type": "blob", "sha256": "ab" * 32})
    result = ToolResultBlock(tool_use_id="c1", content=(TextBlock(text="ab"), picture), is_error=True)
    tools = [{"name": "ab", "description": "ab", "parameters": {"type": "object", "properties": {"ab": {}}}}]
    front = Front(system="", tools=tools, response_format={"ab": "ab", "required": ["ab"]})
    material = sections(front=front, turns=(), message=Message(role="user", blocks=(result,)))
    hidden, spans = redact(material, by_patterns(["ab"]))
    assert hidden.message.blocks == (replace(result, content=(TextBlock(text=REDACTED), picture)),)
    assert hidden.front.tools == [{**tools[0], "description": REDACTED}], "names and keys are code"
    assert hidden.front.response_format == {"ab": REDACTED, "required": ["ab"]}
    assert len(spans) == 3


@pytest.mark.req("SAFE-1")
def test_numbers_and_names_in_arguments_are_hidden_and_signed_thinking_is_left_out() -> None:
    thinking = ReasoningBlock(raw={"type": "thinking", "thinking": "4111", "signature": "s"})
    call = ToolUseBlock(tool_use_id="c1", name="pay", input={"4111": [41110, 7, True]})
    asked = Message(role="assistant", blocks=(thinking, call))
    material = sections(turns=(), rounds=(asked, gave("c1", "done")))
    hidden, spans = redact(material, by_patterns(["4111"]))
    assert hidden.rounds[0].blocks == (replace(call, input={REDACTED: [f"{REDACTED}0", 7, True]}),)
    assert apply(material, spans) == hidden


@pytest.mark.req("SAFE-1")
def test_half_a_secret_does_not_leave_through_a_cut() -> None:
    secret = "sk-" + "0123456789abcdef" * 2
    keys = by_patterns(["sk-[a-z0-9]{32}"])
    long = shown(3, f"please remember my key for this: {secret}", "word " * 3000)
    material = sections(front=Front(system="Be brief."), turns=(long, shown(4)))
    frame = Frame(budget=divide_window(128_000, Ceilings()), abilities=Abilities(known=True), redactor=keys)
    told = assemble(material, frame, MEASURE, limit=200)
    assert told.plan.shrunk is not None
    assert told.plan.shrunk.lines_to == 3
    assert "sk-0" not in everything_sent(told.prompt)
    assert redact_turns((long,), keys)[0].messages[0].rendered_text.endswith(REDACTED), "folds hide first, too"


@pytest.mark.req("SAFE-1")
def test_what_a_request_needs_as_it_is_stays_in_its_options() -> None:
    server = {"url": "https://mcp.org", "name": "of acme", "authorization_token": "acme-1"}
    options = {"tool_choice": {"type": "function", "function": {"name": "acme_find"}}, "mcp_servers": [server]}
    shown = hidden_options(options, by_patterns(["acme"]))
    assert shown == {**options, "mcp_servers": [{**server, "name": "of [redacted]"}]}


@pytest.mark.parametrize(("start", "end", "shown"), [(0, 6, "a [redacted]"), (3, 5, "[redacted]"), (8, 12, " b c")])
def test_a_part_of_a_text_holds_no_part_of_a_secret(start: int, end: int, shown: str) -> None:
    text = "a secret b c"
    assert hidden_part(text[start:end], start, secrets_in(text, by_patterns(["secret"]))) == shown


def test_a_redactor_that_fails_sends_nothing_and_says_so() -> None:
    def broken(text: str) -> Iterable[tuple[int, int]]:
        raise RuntimeError("out of ink")

    with pytest.raises(ContextInfinityError, match="out of ink"):
        redact(EVERYWHERE, broken)


def everything_sent(prompt: Prompt) -> str:
    return msgspec.json.encode(prompt).decode()


@pytest.mark.req("SAFE-1", "CTX-10")
@given(
    texts=st.lists(st.text(min_size=20, max_size=30), min_size=1, max_size=3),
    found=st.lists(st.tuples(st.integers(-3, 35), st.integers(-3, 35)), max_size=4),
)
def test_whatever_is_named_is_gone_and_can_be_hidden_again(texts: list[str], found: list[tuple[int, int]]) -> None:
    material = sections(
        front=Front(system=texts[0], pinned_facts=tuple(texts)), turns=(), message=say("user", texts[-1])
    )
    hidden, spans = redact(material, lambda text: found)
    assert apply(material, spans) == hidden
    named = {place for start, end in found for place in range(max(0, start), end)}
    for text, shown_now in zip(material.front.pinned_facts, hidden.front.pinned_facts, strict=True):
        kept = "".join(letter for place, letter in enumerate(text) if place not in named)
        assert shown_now.replace(REDACTED, "") == kept.replace(REDACTED, "")
