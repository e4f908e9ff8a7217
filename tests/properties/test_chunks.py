"""Whatever was said: chunks are spans of it, of their size, and the same again; quotations hold what they quote."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.domain.message import AssistantItem, TextBlock, ToolCallItem, ToolOutputItem
from contextinfinity.domain.turn import Turn, sides_of
from contextinfinity.prompt.layout import artifact_text, lay_out
from contextinfinity.prompt.quoting import harmless, quote, unquote
from contextinfinity.retrieval.candidates import Candidate
from contextinfinity.retrieval.chunking import chunks_of
from contextinfinity.retrieval.packing import PackingBudget, pack
from tests.sizes import sized
from tests.unit.prompt.injections import attempts, lenient, parsed
from tests.unit.prompt.material import artifact, sections
from tests.unit.retrieval.turns import THEN, chunk, count, turn

pieces = st.sampled_from(
    [
        "# Heading\n", "## Another\n\n", "\n", "\n\n", "```python\n", "```\n", "~~~\n", "def run(x):\n    return x\n",
        "class A:\n", "    pass\n", "int main() {\n", "}\n", "| a | b |\n", "| --- | --- |\n", "- item\n",
        "  - inner\n", "1. first\n", "Title\n=====\n", "---\n", "The river rose again. ", "Who knows? ", "word ",
        "这是一个句子。", "👩‍👩‍👧", "e\u0301", "x" * 50, " " * 30, "\t", "\r\n", "\u2028", "as follows:\n",
        "> quoted\n", "a", "0", "We decided to use Kafka. ", "src/app.py ", "{", "}", '"', "\\",
    ]
)  # fmt: skip
repeated = st.builds(lambda part, times: part * times, pieces, st.sampled_from([1, 1, 1, 2, 3, 30, 300]))
texts = st.one_of(st.text(max_size=60), st.lists(repeated, max_size=12).map("".join))
rounds = st.builds(
    lambda said, output: (
        AssistantItem(blocks=(TextBlock(text=said),)),
        ToolCallItem(call_id="1", name="look", arguments={"at": said[:20]}),
        ToolOutputItem(call_id="1", output=output),
    ),
    texts,
    texts,
)
turns = st.builds(lambda said, answer, between: turn(said, answer, rounds=between), texts, texts, st.just(()) | rounds)


@pytest.mark.req("RETRIEVE-1", "RETRIEVE-2")
@given(turns, st.lists(turns, max_size=2))
@settings(max_examples=sized(40, 600))
def test_chunks_are_spans_of_what_was_said(said: Turn, earlier: list[Turn]) -> None:
    cuts = chunks_of(said, earlier)
    for spoken in sides_of(said):
        own = [cut for cut in cuts if cut.side == spoken.side]
        whole = count(spoken.text) if len(own) == 1 else 0
        place = 0
        for cut in own:
            assert cut.text == spoken.text[cut.start : cut.end]
            assert cut.start <= cut.own < cut.end
            assert not spoken.text[place : cut.own].strip(), "nothing that was said is left out"
            assert count(cut.text) == cut.token_est <= 800
            assert cut.token_est >= 200 or cut.token_est == whole or spoken.text.count(" " * 200), (
                "short only when whole"
            )
            assert count(spoken.text[cut.start : cut.own]) <= 50
            assert len(cut.summary.splitlines()) <= 1
            place = cut.end
        assert not spoken.text[place:].strip()
    assert cuts == chunks_of(said, earlier)


candidates = st.lists(
    st.builds(
        lambda number, text, score, seq: Candidate(
            chunk=chunk(number, text or "x", source_turn=f"turn-{seq}", summary=text[:20]),
            start=0,
            end=len(text or "x"),
            text=text or "x",
            score=score,
            turn_seq=seq,
            said_at=THEN,
        ),
        st.integers(0, 30),
        texts,
        st.floats(0, 1),
        st.integers(1, 9),
    ),
    max_size=8,
    unique_by=lambda candidate: candidate.chunk.id,
)


@pytest.mark.req("RETRIEVE-4", "RETRIEVE-6")
@given(candidates, texts, st.integers(0, 900), st.randoms())
@settings(max_examples=sized(40, 600))
def test_packing_keeps_its_budget_and_accounts_for_everything(
    found: list[Candidate], question: str, target: int, random: object
) -> None:
    room = PackingBudget(target=target, border=12)
    packed = pack(found, question, count, room=room)
    assert packed.tokens <= target
    taken = {one.id for piece in packed.pieces for one in piece.chunks}
    left = {line.what.partition("chunk ")[2] for line in packed.left_out}
    assert taken | left == {candidate.chunk.id for candidate in found}
    assert not taken & left
    assert [piece.score for piece in packed.pieces] == sorted((piece.score for piece in packed.pieces), reverse=True)
    mixed = list(found)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert pack(mixed, question, count, room=room) == packed


nasty = st.sampled_from(
    [
        "<", "</", "artifact", ">", "\n", "\r", "\u2028", "\x85", "| ", "|", "&lt;", "&amp;", "\u200b", "\u202e", "＜",
        "／", "‹", "⟨", "а", "art", "ifact", "<|", "im_start", "|>", "system", "[INST]", "%3c", "\\u003c", " ", "_",
        "\u0301", '"', "=", "\ud800",
    ]
)  # fmt: skip
tries = st.one_of(
    st.lists(nasty, max_size=16).map("".join), st.text(max_size=60), st.sampled_from([text for _, text in attempts()])
)


@pytest.mark.req("RETRIEVE-8")
@given(st.lists(tries, min_size=1, max_size=4))
@settings(max_examples=sized(80, 1_200))
def test_as_many_artifacts_are_read_as_were_written(written: list[str]) -> None:
    prompt = lay_out(sections(artifacts=tuple(artifact(number, text) for number, text in enumerate(written))))
    bodies = parsed(prompt.messages[-1].rendered_text)
    assert bodies == [unquote(quote(text)) for text in written]
    for text in written:
        assert not re.search("</?artifact", lenient(unquote(quote(text))))
        assert all(line.startswith("|") for line in artifact_text(artifact(1, text)).splitlines()[1:-1])


@pytest.mark.req("RETRIEVE-8")
@given(tries, st.integers(0, 80))
@settings(max_examples=sized(50, 800))
def test_a_text_that_was_cut_anywhere_is_as_harmless(text: str, place: int) -> None:
    halves = (artifact(1, text[:place]), artifact(2, text[place:]))
    assert len(parsed("\n".join(map(artifact_text, halves)))) == 2


@given(
    st.text(
        alphabet=st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"], exclude_characters="<&[\\%"),
        max_size=80,
    )
)
def test_words_without_borders_are_quoted_as_they_are(text: str) -> None:
    assert words_of(harmless(text)) == words_of(text)


def words_of(text: str) -> str:
    return "".join(sign for sign in text if sign.isalnum())
