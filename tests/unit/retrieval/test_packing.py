"""What of the found goes into a prompt: the best, within the room, each thing once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from contextinfinity.domain.search import Chunk
from contextinfinity.retrieval.candidates import Candidate
from contextinfinity.retrieval.packing import TARGET, PackingBudget, pack
from contextinfinity.retrieval.slices import best_slice
from contextinfinity.retrieval.superseding import superseded
from contextinfinity.text.keywords import terms as terms_of
from tests.unit.retrieval.findings import Line, entries_of, ranked
from tests.unit.retrieval.turns import THEN, chunk, count, prose

QUESTION = "When does the museum open?"


def candidate(number: int, text: str | Chunk, score: float, *, seq: int | None = None, **more: Any) -> Candidate:
    """Make something that was found, each in a turn of its own."""
    seq = seq or number
    found = text if isinstance(text, Chunk) else chunk(number, text, source_turn=f"turn-{seq}")
    where: dict[str, Any] = {"start": found.start, "end": found.end, "text": found.rendered_text}
    return Candidate(chunk=found, **where, score=score, turn_seq=seq, said_at=THEN + timedelta(days=seq), **more)


def by_chunk(found: list[Candidate], rows: list[list[float]]) -> Any:
    return {each.chunk.id: np.array(row, dtype=np.float32) for each, row in zip(found, rows, strict=True)}


def reasons(packed: Any) -> dict[str, str]:
    return {line.what: line.reason for line in packed.left_out}


@pytest.mark.req("RETRIEVE-4")
def test_the_best_go_in_first_and_the_rest_is_named() -> None:
    found = [candidate(n, prose(280, f"place{n}"), n / 10) for n in range(1, 6)]
    packed = pack(found, "Nothing that is there?", count)
    assert [piece.score for piece in packed.pieces] == [0.5, 0.4]
    assert packed.tokens == sum(count(piece.text) for piece in packed.pieces) <= TARGET
    assert reasons(packed) == {f"turn {n}, chunk chunk-00{n}": "the budget of 800 tokens is used up" for n in (3, 2, 1)}
    assert all(line.tokens == count(prose(280, "place1")) for line in packed.left_out)


def test_pieces_keep_where_and_when_they_were_said() -> None:
    (piece,) = pack([candidate(4, "It opens at nine.", 0.9, speaker="Ann")], QUESTION, count).pieces
    assert (piece.turn_seq, piece.said_at, piece.speaker, piece.form) == (4, THEN + timedelta(days=4), "Ann", "whole")
    assert (piece.text, piece.start, piece.end) == ("It opens at nine.", 0, 17)


@pytest.mark.req("RETRIEVE-4")
def test_borders_count() -> None:
    found = [candidate(n, f"The museum opens at {n}.", 0.5) for n in range(1, 60)]
    packed = pack(found, QUESTION, count, room=PackingBudget(target=200, border=30))
    assert packed.tokens == sum(count(piece.text) + 30 for piece in packed.pieces) <= 200
    assert len(packed.pieces) == 5
    assert len(pack(found, QUESTION, count, room=PackingBudget(most=3)).pieces) == 3


# --- each thing once ---


def test_the_same_words_go_in_once_as_the_better_one() -> None:
    packed = pack([candidate(1, "At nine.", 0.4), candidate(2, "At nine.\n", 0.6)], QUESTION, count)
    assert [piece.turn_seq for piece in packed.pieces] == [2]
    assert reasons(packed) == {"turn 1, chunk chunk-001": "a duplicate is included"}


def test_neighbouring_chunks_become_one_piece_that_says_nothing_twice() -> None:
    text = prose(600)
    first, second, third = (
        chunk(n, text[a:b], start=a) for n, (a, b) in enumerate([(0, 900), (850, 1800), (1800, 2500)])
    )
    found = [candidate(n, c, 0.9 - n / 10, seq=1) for n, c in enumerate((third, first, second))]
    (piece,) = pack(found, QUESTION, count).pieces
    assert piece.text == text[:2500] == text[piece.start : piece.end]
    assert {one.id for one in piece.chunks} == {"chunk-000", "chunk-001", "chunk-002"}
    assert piece.chunks[0].id == "chunk-002", "the best one first"
    by_themselves = pack(found, QUESTION, count, room=PackingBudget(apart=True)).pieces
    assert [one.text for one in by_themselves] == [text[1800:2500], text[:900], text[850:1800]]
    assert piece.score == 0.9
    apart = pack([found[0], found[1]], QUESTION, count).pieces
    assert [piece.text for piece in apart] == [text[1800:2500], text[:900]], "what does not touch stays apart"


def test_the_two_sides_of_a_turn_are_two_pieces() -> None:
    question = candidate(1, chunk(1, "When?"), 0.5, seq=1)
    answer = candidate(2, chunk(2, "At nine.", side="assistant"), 0.6, seq=1)
    assert [piece.text for piece in pack([question, answer], QUESTION, count).pieces] == ["At nine.", "When?"]


@pytest.mark.req("RETRIEVE-4")
def test_with_vectors_what_says_nearly_the_same_gives_way() -> None:
    found = [candidate(n, f"{prose(280, f'place{n}')}", score) for n, score in ((1, 0.9), (2, 0.85), (3, 0.84))]
    near = by_chunk(found, [[1.0, 0.0], [0.96, 0.28], [0.0, 1.0]])
    plain = pack(found, "No word of it", count)
    diverse = pack(found, "No word of it", count, vectors=near)
    assert [piece.turn_seq for piece in plain.pieces] == [1, 2]
    assert [piece.turn_seq for piece in diverse.pieces] == [1, 3]
    same = by_chunk(found, [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert "near-duplicate" in reasons(pack(found, QUESTION, count, vectors=same))["turn 2, chunk chunk-002"]


@pytest.mark.req("RETRIEVE-12")
@pytest.mark.parametrize(("lists", "taken"), [(False, [1, 2]), (True, [1, 3])])
def test_a_question_for_several_things_is_spread_over_days(lists: bool, taken: list[int]) -> None:
    found = [candidate(n, prose(280, f"place{n}"), 0.9 - n / 1000, lists=lists) for n in (1, 2, 3)]
    found[1] = replace(found[1], said_at=found[0].said_at)
    assert sorted(piece.turn_seq for piece in pack(found, "No word of it", count).pieces) == taken


@pytest.mark.req("RETRIEVE-12")
def test_a_message_gives_a_second_passage_only_after_all_others() -> None:
    text = prose(200)
    whole = chunk(1, text, source_turn="turn-1")
    halves = [
        replace(candidate(1, whole, 0.9 - n / 10), start=a, end=b, text=text[a:b])
        for n, (a, b) in enumerate([(0, 500), (500, 1000)])
    ]
    other = candidate(2, prose(90, "lake"), 0.5)
    tokens = count(halves[0].text) + count(other.text)
    packed = pack([*halves, other], "No word of it", count, room=PackingBudget(target=tokens + 20))
    assert [piece.turn_seq for piece in packed.pieces] == [1, 2]
    (joined, _) = pack([*halves, other], "No word of it", count, room=PackingBudget(target=2 * tokens)).pieces
    assert joined.text == text[:1000]


# --- what is too large ---


@pytest.mark.req("RETRIEVE-6")
def test_what_is_too_large_goes_in_as_the_slice_that_answers() -> None:
    text = f"{prose(400)} The museum opens at nine on Mondays. It closes at six. {prose(300, 'sea')}"
    (piece,) = pack([candidate(1, text, 0.9)], QUESTION, count, room=PackingBudget(target=120)).pieces
    assert piece.form == "slice"
    assert "The museum opens at nine on Mondays." in piece.text
    assert piece.text == text[piece.start : piece.end]
    assert piece.tokens <= 120


@pytest.mark.req("RETRIEVE-6")
def test_without_a_telling_slice_its_summary_goes_in() -> None:
    large = chunk(1, prose(600), summary="What happened at the river.")
    (piece,) = pack([candidate(1, large, 0.9)], QUESTION, count, room=PackingBudget(target=120)).pieces
    assert (piece.form, piece.text) == ("summary", "What happened at the river.")
    assert (piece.start, piece.end) == (large.start, large.end), "what it stands for"
    packed = pack([candidate(1, replace(large, summary=""), 0.9)], QUESTION, count, room=PackingBudget(target=120))
    assert packed.pieces == ()
    assert reasons(packed) == {"turn 1, chunk chunk-001": "the budget of 120 tokens is used up"}


@pytest.mark.req("RETRIEVE-6")
def test_a_slice_is_found_in_code_and_in_scripts_without_blanks() -> None:
    lines = [f"value_{n} = {n}" for n in range(200)]
    lines[120] = "MUSEUM_OPENS = 9  # museum, open"
    code = "\n".join(lines)
    terms = frozenset(terms_of(QUESTION))
    found = best_slice(code, terms, 60, count)
    assert found is not None
    assert "MUSEUM_OPENS" in code[slice(*found)]
    assert best_slice("这是。" * 500, terms, 60, count) is None
    assert best_slice("", terms, 60, count) is None


@pytest.mark.req("RETRIEVE-6")
def test_the_slice_is_where_most_of_the_question_stands() -> None:
    filler = prose(200)
    text = f"{filler} The museum opens at nine. {filler} A museum is a house of things. {filler}"
    found = best_slice(text, frozenset(terms_of(QUESTION)), 70, count)
    assert found is not None
    assert "opens at nine" in text[slice(*found)]


@pytest.mark.req("RETRIEVE-4")
def test_nothing_found_packs_nothing() -> None:
    packed = pack([], QUESTION, count)
    assert (packed.pieces, packed.left_out, packed.tokens) == ((), (), 0)
    assert pack([candidate(1, "x", 0.5)], QUESTION, count, room=PackingBudget(target=0)).pieces == ()


@pytest.mark.req("RETRIEVE-13")
def test_a_later_exchange_supersedes_what_the_assistant_reported_before() -> None:
    lines = [
        Line("user", "Where does the nightly backup of the ledger go?"),
        Line("assistant", "The backup of the ledger goes to the Hetzner box."),
        *(Line("user" if n % 2 == 0 else "assistant", f"Shelf {n} got oiled with linseed.") for n in range(8)),
        Line("user", "That box is full since Monday."),
        Line("assistant", "I moved the backup of the ledger to a Linode bucket."),
    ]
    candidates = ranked("Where does the backup go?", entries_of(lines))
    marked = superseded(candidates)
    assert {lines[1].text: lines[-1].text}.items() <= {
        each.text: marked[each.chunk.id, each.start].text
        for each in candidates
        if (each.chunk.id, each.start) in marked
    }.items()
    assert lines[-1].text not in [each.text for each in candidates if (each.chunk.id, each.start) in marked]
