"""Files from anywhere: whatever they contain, records are found, and a message can be kept or is refused."""

from __future__ import annotations

import io
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextinfinity.domain.ids import from_millis, to_millis
from contextinfinity.exchange.conversation_builder import moment_of
from contextinfinity.exchange.openai_messages import RejectedRecord, parse_record
from contextinfinity.exchange.records import Record, elements_of, lines_of
from contextinfinity.storage.ledger.imports import check_imported, hash_of
from tests.unit.exchange.crumbs import Crumbs

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def elements(data: bytes, size: int) -> list[Record]:
    return list(elements_of(Crumbs(data, size)))


@given(st.lists(JSON, max_size=6), st.integers(1, 9), st.sampled_from([None, 0, 1, "\t"]))
def test_a_list_comes_apart_as_it_was_put_together(values: list[object], size: int, indent: int | str | None) -> None:
    data = json.dumps(values, indent=indent).encode()
    assert [json.loads(record.data) for record in elements(data, size)] == values


@given(st.lists(JSON, max_size=6))
def test_lines_come_apart_as_they_were_put_together(values: list[object]) -> None:
    data = b"\r\n".join(json.dumps(value).encode() for value in values)
    assert [json.loads(record.data) for record in lines_of(io.BytesIO(data))] == values


@given(st.binary(max_size=200), st.integers(1, 7))
def test_any_bytes_are_read_to_their_end(data: bytes, size: int) -> None:
    for record in [*elements(data, size), *lines_of(io.BytesIO(data))]:
        assert record.problem or record.data
        assert 1 <= record.line <= data.count(b"\n") + 1


@given(st.text(max_size=40) | st.integers() | st.floats())
def test_any_value_is_a_moment_that_can_be_kept_or_none(value: object) -> None:
    moment = moment_of(value)
    assert moment is None or from_millis(to_millis(moment)) == moment


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image_url", "input_image", "tool_use", "tool_result", "refusal", "x"])},
    optional=dict.fromkeys(
        ("text", "image_url", "id", "name", "input", "tool_use_id", "content", "annotations", "refusal"), VALUES
    ),
)
HOSTILE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "system", "tool", "function"]) | VALUES,
        "content": st.text() | st.lists(PARTS | VALUES, max_size=3) | VALUES,
        "id": VALUES,
        "thread_id": VALUES,
        "created_at": VALUES,
        "name": VALUES,
        "model": VALUES,
        "tool_calls": st.lists(st.fixed_dictionaries({"id": VALUES, "function": VALUES | PARTS}), max_size=2) | VALUES,
        "tool_call_id": VALUES,
        "function_call": VALUES,
        "refusal": VALUES,
    },
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(HOSTILE)
def test_whatever_a_record_holds_it_is_a_message_that_can_be_kept_or_is_refused(record: dict[str, Any]) -> None:
    try:
        read = parse_record(json.dumps(record).encode())
    except RejectedRecord:
        return
    check_imported((read.imported,))
    assert len(hash_of(read.imported)) == 16
    assert read.imported.message.blocks
