"""Whatever is appended is read back, and wherever a file is torn, the rest goes on."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import Json
from contextinfinity.storage.journal import JournalFolder, event_id, parse_event_id
from tests.sizes import sized

NEVER = 3_600_000.0

words = st.text(st.characters(codec="utf-8"), max_size=30)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
garbage = st.sampled_from([b"", b"\n", b"\0" * 9, b"\xff\xfe", b"{}\n", b"null\n"]) | st.binary(max_size=40)


@contextmanager
def journals(**pace: float) -> Iterator[JournalFolder]:
    """A folder on a disk that is never waited for: a tear is made by hand here."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as machine:
        machine.setattr(os, "fsync", lambda _: None)
        folder = JournalFolder(Path(name), flush_ms=NEVER, fsync_ms=NEVER, **pace)  # type: ignore[arg-type]
        yield folder
        folder.close()


def same(left: Json, right: Json) -> bool:
    """Equal, down to the sign of zero and the difference of 1, 1.0 and true."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return repr(left) == repr(right)


@pytest.mark.req("STREAM-1")
@settings(max_examples=sized(5, 50))  # each tries hundreds of files
@given(st.lists(values, min_size=1, max_size=4), garbage)
@example([None], b"\r\n")
def test_a_tear_at_any_byte_is_cut_and_the_journal_goes_on(said: list[Json], torn: bytes) -> None:
    with journals() as folder:
        journal = folder.open(new_id(), "p")
        for value in said:
            journal.append("delta", value)
        journal.close()
        whole = journal.path.read_bytes()
        for cut in range(len(whole) + 1):
            step = new_id()
            path = journal.path.with_stem(step)
            path.write_bytes(whole[:cut] + torn)
            kept = whole_lines(whole[:cut] + torn, whole)
            assert [entry.seq for entry in folder.read(step)] == list(range(1, len(kept) + 1))
            assert all(same(entry.payload, value) for entry, value in zip(folder.read(step), said, strict=False))
            again = folder.open(step, "p")
            assert again.append("delta", "went on") == len(kept) + 1
            again.close()
            lines = [line + b"\n" for line in path.read_bytes().split(b"\n")[:-1]]
            assert lines[:-1] == kept, "what was whole is untouched, and nothing of the tear is left"
            assert [entry.payload for entry in folder.read(step, after=len(kept))] == ["went on"]
            folder.remove(step)


def whole_lines(torn: bytes, original: bytes) -> list[bytes]:
    """The lines that a torn file still shares with the original; blanks around an entry are no part of it."""
    pairs = zip(torn.split(b"\n")[:-1], original.split(b"\n")[:-1], strict=False)
    return [ours + b"\n" for ours, _ in takewhile(lambda pair: pair[0].strip(b" \t\r") == pair[1], pairs)]


@pytest.mark.req("STREAM-1")
@given(st.lists(st.tuples(words, values), max_size=20))
def test_any_json_is_read_back_as_it_was(events: list[tuple[str, Json]]) -> None:
    with journals() as folder:
        step = new_id()
        journal = folder.open(step, "p")
        for kind, value in events:
            journal.append(f"x{kind}", value)
        read = list(folder.read(step))
        assert [entry.event_type for entry in read] == [f"x{kind}" for kind, _ in events]
        assert all(same(entry.payload, value) for entry, (_, value) in zip(read, events, strict=True))


@pytest.mark.req("STREAM-2")
@given(
    st.lists(st.integers(0, 200) | st.sampled_from(["flush", "sync", "reopen"]), max_size=40),
    st.integers(1, 2000),
)
def test_durable_never_exceeds_displayed_and_no_number_is_skipped(steps: list[int | str], flush_bytes: int) -> None:
    with journals(flush_bytes=flush_bytes) as folder:
        step = new_id()
        journal = folder.open(step, "p")
        appended: list[int] = []
        shown = synced = 0
        for verb in steps:
            if isinstance(verb, int):
                assert journal.append("delta", verb, shown=verb) == len(appended) + 1
                appended.append(verb)
                shown += verb
            elif verb == "flush":
                journal.flush()
            elif verb == "sync":
                journal.sync()
                synced = shown
            else:
                journal.close()
                journal = folder.open(step, "p")
                shown = synced = 0
            assert (journal.displayed, journal.durable) == (shown, synced)
        assert [(entry.seq, entry.payload) for entry in folder.read(step)] == list(enumerate(appended, start=1))


@given(st.integers(0, 10**9), st.integers(0, 10**15))
def test_an_event_id_is_read_back(step_index: int, seq: int) -> None:
    assert parse_event_id(event_id(step_index, seq)) == (step_index, seq)


@given(st.text(max_size=12) | st.from_regex(r"[0-9]{0,4}-[0-9]{0,4}\s?"))
@example("0-0")
def test_a_text_is_an_event_id_in_one_spelling_only(text: str) -> None:
    place = parse_event_id(text)
    assert place is None or event_id(*place) == text
