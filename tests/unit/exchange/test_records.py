"""Files cut into records: whatever one record contains, the others are found."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from contextinfinity.errors import InvalidInput
from contextinfinity.exchange import records
from contextinfinity.exchange.records import (
    AFTER_THE_END,
    DAMAGED,
    LARGEST_RECORD,
    TOO_LARGE,
    UNFINISHED,
    Record,
    elements_of,
    layout_of,
    open_records,
)
from tests.unit.exchange.crumbs import Crumbs


def elements(data: bytes, size: int = 1 << 18) -> list[Record]:
    return list(elements_of(Crumbs(data, size)))


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def read(path: Path) -> list[Record]:
    with open_records(path) as source:
        return list(source.records)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_counted_in_lists_too(size: int) -> None:
    data = b'\n[\n {"a":\n 1},\n\n "two\\n",\n 3 , [4,\n5]]\n'
    assert [(record.line, b"".join(record.data.split())) for record in elements(data, size)] == [
        (3, b'{"a":1}'),
        (6, b'"two\\n"'),
        (7, b"3"),
        (7, b"[4,5]"),
    ]


def test_a_broken_element_spoils_no_other() -> None:
    data = b'[{"a": 1}, {"a": }, nonsense, {"b": ]}, {"c": 2}, {"d": "[{,\\""}]'
    assert [record.data for record in elements(data)] == [
        b'{"a": 1}',
        b'{"a": }',
        b"nonsense",
        b'{"b": ]}',
        b'{"c": 2}',
        b'{"d": "[{,\\""}',
    ]


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("broken", "lines"),
    [
        (b'{"b": "2},', (1, 2, 3)),  # a quote is missing
        (b'{"b": [{"c": "2}]},', (1, 2, 3)),
        (b'{"b": "2",', (1, 2, 3)),  # a brace is missing
        (b'{"b": \n"2,\n"c":\n   {"d": 3}},', (1, 2, 6)),
    ],
)
def test_an_element_that_does_not_end_spoils_no_other(broken: bytes, lines: tuple[int, ...], size: int) -> None:
    found = elements(b'[{"a": 1},\n' + broken + b'\n{"c": [{"d": 3}, {}]}\n]', size)
    assert tuple(record.line for record in found) == lines
    assert (found[0].data, found[2].data) == (b'{"a": 1}', b'{"c": [{"d": 3}, {}]}')
    with pytest.raises(ValueError, match=r"JSON|truncated"):
        msgspec.json.decode(found[1].data)


def test_what_follows_a_broken_element_is_found_by_how_far_in_it_stands() -> None:
    parts = [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]
    data = json.dumps([{"a": 1}, {"b": "lost", "c": parts}, {"d": 4}], indent=2).replace('lost"', "lost")
    assert [record.line for record in elements(data.encode())] == [2, 5, 18]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'[{"a": 1},\n{"b": 2}', Record(2, b"", UNFINISHED)),
        (b'[{"a": 1},\n{"b": [2}', Record(2, b"", UNFINISHED)),
        (b'[{"a": 1},\n"b', Record(2, b"", UNFINISHED)),
        (b'[{"a": 1}]\n\n{"b": 2}', Record(3, b"", AFTER_THE_END)),
        (b'[{"a": 1}]' + b" " * 300_000 + b"x", Record(1, b"", AFTER_THE_END)),
    ],
)
def test_a_list_without_a_proper_end_gives_what_it_has(data: bytes, problem: Record) -> None:
    assert elements(data) == [Record(1, b'{"a": 1}'), problem]


def test_what_is_too_large_is_read_past_without_being_held(tmp_path: Path) -> None:
    large = b'{"x": "' + b"\\n" * (LARGEST_RECORD // 2) + b'"}'
    lines = read(written(tmp_path / "lines", b"\n".join([b'{"a": 1}', large, b'{"b": 2}'])))
    assert lines == [Record(1, b'{"a": 1}'), Record(2, b"", TOO_LARGE), Record(3, b'{"b": 2}')]
    listed = read(written(tmp_path / "list", b"[" + b",\n".join([b'{"a": 1}', large, b'{"b": 2}']) + b"]"))
    assert [(record.line, record.problem) for record in listed] == [(1, ""), (2, TOO_LARGE), (3, "")]


def test_byte_order_marks_blank_lines_and_carriage_returns_are_no_part_of_a_record(tmp_path: Path) -> None:
    path = written(tmp_path / "file", b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \n{"b": 2}')
    assert read(path) == [Record(1, b'{"a": 1}'), Record(4, b'{"b": 2}')]


def test_compressed_files_are_read_and_damaged_ones_as_far_as_they_go(tmp_path: Path) -> None:
    data = b"".join(b'{"n": %d}\n' % n for n in range(50_000))
    packed = gzip.compress(data)
    assert len(read(written(tmp_path / "whole", packed))) == 50_000
    torn = read(written(tmp_path / "torn", packed[: len(packed) // 2]))
    assert 1000 < len(torn) < 50_000
    assert torn[-1].problem == DAMAGED
    for small in (data[:20_000], b"[" + data[:20_000].replace(b"\n", b",")):
        torn = read(written(tmp_path / "small", gzip.compress(small)[:-100]))
        assert len(torn) > 1000
        assert torn[-1].problem == DAMAGED
    with pytest.raises(InvalidInput, match="damaged gzip"):
        read(written(tmp_path / "stump", packed[:12]))


@pytest.mark.parametrize(
    ("begins", "layout"),
    [
        (b"", "lines"),
        (b'{"a": 1}\n', "lines"),
        (b"garbage\n{}", "lines"),
        (b"[garbage\n{}\n{}", "lines"),
        (b" \n[", "list"),
        (b"[]", "list"),
        (b'[{"a": 1},\n{"b": 2}]', "list"),
        (b'[\n{"a": 1}]', "list"),
        (b'[{"a": 1}\n, {"b": 2}]', "list"),
        (b'[{\n"a": 1}]', "list"),
    ],
)
def test_the_beginning_tells_how_records_stand(begins: bytes, layout: str) -> None:
    assert layout_of(begins) == layout


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("[]".encode("utf-16"), "is UTF-16"),
        (b"PK\x03\x04rest", "is a zip archive"),
        (b"SQLite format 3\0", "is a database"),
    ],
)
def test_files_of_another_kind_are_named(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read(written(tmp_path / "file", data))


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InvalidInput, match="cannot be read"):
            read(path)


def test_the_form_can_be_forced(tmp_path: Path) -> None:
    path = written(tmp_path / "file", b'[{"a": 1}]')
    with open_records(path, "jsonl") as source:
        assert source.layout == "lines"
    assert records.PIECE < LARGEST_RECORD
