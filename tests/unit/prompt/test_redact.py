"""What must not leave the machine does not, and what was hidden can be hidden again."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from contextinfinity.domain.message import ImageBlock, Message, TextBlock, ToolResultBlock, say
from contextinfinity.domain.prompt import Prompt
from contextinfinity.prompt.layout import lay_out
from contextinfinity.prompt.redact import REDACTED, all_of, apply, by_patterns, redact
from tests.unit.prompt.material import FULL, artifact, called, gave, sections, shown

CARD = "4111 1111 1111 1111"
CARDS = by_patterns([r"\d{4}( \d{4}){3}"])
EVERYWHERE = lay_out(
    sections(
        front=replace(FULL, pinned_facts=(f"The card is {CARD}.",), summary=f"They paid with {CARD}."),
        turns=(shown(10, f"Is {CARD} valid?", f"{CARD} is."),),
        artifacts=(artifact(1, f"Card: {CARD}"),),
        contextualised=f"Pay with {CARD}!",
        message=say("user", f"Pay with {CARD}, or {CARD}."),
        rounds=(called("c1", card=CARD, deep=[{"again": CARD}]), gave("c1", f"Paid with {CARD}")),
    )
)


def everything(prompt: Prompt) -> str:
    return msgspec.json.encode(prompt).decode()


@pytest.mark.req("SAFE-1")
def test_what_fits_a_pattern_leaves_nowhere() -> None:
    assert everything(EVERYWHERE).count(CARD) == 11
    hidden, spans = redact(EVERYWHERE, CARDS)
    assert CARD not in everything(hidden)
    assert everything(hidden).count(REDACTED) == len(spans) == 11
    assert hidden.messages[4].rendered_text.count(REDACTED) == 4, "artifact, words twice, the explicit form"
    assert "Pay with [redacted], or [redacted]." in hidden.messages[4].rendered_text
    assert [message.role for message in hidden.messages] == [message.role for message in EVERYWHERE.messages]


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

    prompt = Prompt(system=("Rex barks.",), messages=(say("user", "Hello, Rex"), say("assistant", "Rex")))
    hidden, spans = redact(prompt, names)
    assert hidden.system == ("[redacted] barks.",)
    assert [message.rendered_text for message in hidden.messages] == ["Hello, [redacted]", "[redacted]"]
    assert spans == ((0, 0, 3), (1, 7, 10), (2, 0, 3))


@pytest.mark.req("SAFE-1")
def test_stretches_that_overlap_are_hidden_as_one() -> None:
    both = all_of([by_patterns(["abcd", "cdef"]), lambda text: [(5, 8)]])
    hidden, spans = redact(Prompt(system=("xabcdefgh-",), messages=()), both)
    assert spans == ((0, 1, 8),)
    assert hidden.system == ("x[redacted]h-",)


@pytest.mark.req("SAFE-1")
def test_nothing_but_texts_is_touched() -> None:
    picture = ImageBlock(media_type="image/png", source={"type": "blob", "sha256": "ab" * 32})
    result = ToolResultBlock(tool_use_id="c1", content=(TextBlock(text="ab"), picture), is_error=True)
    prompt = Prompt(
        system=("ab",),
        messages=(Message(role="tool", blocks=(result,)),),
        markers=(0,),
        response_format={"type": "object"},
    )
    hidden, spans = redact(prompt, by_patterns(["ab"]))
    assert hidden.messages[0].blocks == (replace(result, content=(TextBlock(text=REDACTED), picture)),)
    assert (hidden.markers, hidden.response_format) == ((0,), {"type": "object"})
    assert len(spans) == 2


@pytest.mark.req("SAFE-1", "CTX-10")
@given(
    texts=st.lists(st.text(min_size=20, max_size=30), min_size=1, max_size=3),
    found=st.lists(st.tuples(st.integers(-3, 35), st.integers(-3, 35)), max_size=4),
)
def test_whatever_is_named_is_gone_and_can_be_hidden_again(texts: list[str], found: list[tuple[int, int]]) -> None:
    prompt = Prompt(system=tuple(texts), messages=(say("user", "".join(texts)),))
    hidden, spans = redact(prompt, lambda text: found)
    assert apply(prompt, spans) == hidden
    named = {place for start, end in found for place in range(max(0, start), end)}
    for text, shown_now in zip(prompt.system, hidden.system, strict=True):
        kept = "".join(letter for place, letter in enumerate(text) if place not in named)
        assert shown_now.replace(REDACTED, "") == kept.replace(REDACTED, "")
