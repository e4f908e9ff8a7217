"""The wire form loses nothing, keeps what it does not know, and reads what older releases wrote."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.domain import wire
from contextinfinity.domain.events import Event
from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
    UnknownBlock,
    UnknownItem,
    say,
)
from contextinfinity.domain.turn import Exchange, NewTurn, Step, StepEnd, StepOutcome, Turn, TurnEnd
from contextinfinity.errors import InvalidInput
from tests.properties.nouns import JSON, nouns, values
from tests.properties.wire_samples import SAMPLES
from tests.sizes import sized

VERSIONS = Path(__file__).parent.parent / "samples" / "wire"
UNIONS = {"ContentBlock": ContentBlock, "TranscriptItem": TranscriptItem, "StepOutcome": StepOutcome, "Event": Event}
KINDS: dict[str, Any] = {kind.__name__: kind for kind in nouns()} | UNIONS
NEVER_KEPT = {
    *(
        "NewSession",
        "NewTurn",
        "NewStep",
        "NewChunk",
        "StateDraft",
        "StepEnd",
        "TurnEnd",
        "ImportedMessage",
        "ImportedTurn",
    ),  # asked for
    *(
        "Lineage",
        "TurnRange",
        "Backlog",
        "TakenOver",
        "ImportCounts",
        "ScannedPlace",
        "Document",
        "UserSpending",
        "BranchTail",
        "KnownTurns",
    ),  # computed each time
    *("AnsweredTurn", "Extraction", "JobResult", "Revision"),  # read and worked out by jobs
    *(
        "Scope",
        "TextPosition",
        "WordHit",
        "WordHits",
        "VectorHit",
        "IndexedMessage",
        "Namespace",
        "IndexState",
    ),  # searched
    *("Hit", "Hits", "IndexReport", "TurnSide", "Passage"),  # found, or put together for it
    *("NewMemory", "Recall", "MemoryRecall", "MemoryMatch"),  # memories, asked for and found
    *(
        "Prompt",
        "ToolSpec",
        "ProviderRequest",
        "TextDelta",
        "CallPiece",
        "ReasoningDone",
        "Retry",
        "Finished",
    ),  # spoken between engine and provider
    "RequestOptions",  # asked for, and spoken in a provider's words
    *("Abilities", "Prices", "Guidance"),  # looked up
    "StoreHealth",  # asked for and told
    *("Removed", "Deleted", "CleanupResult"),  # what deleting came to
    *("Token", "NewToken", "IdempotencyKey", "PrefixHashes", "PrefixHashEnd", "HashedPrefix"),  # kept in columns
    "ClarificationOption",  # part of an event
    *("Reasoned", "CallStreamed"),  # shown to watchers that ask for it, as it happens
    *("CompactionStarted", "CompactionCompleted", "CompactionFailed"),  # told as it happens
}
NEW_KINDS = st.sampled_from(["hologram", "smell", "", "Text", "tool-use"])

unknown_entries = st.builds(lambda kind, rest: {**rest, "type": kind}, NEW_KINDS, st.dictionaries(st.text(), JSON))
blocks_or_new = st.lists(st.one_of(values(ContentBlock), unknown_entries), min_size=1, max_size=4)


def plain(value: object) -> Any:
    """The JSON of a value, or of something a newer release wrote in its place."""
    return json.loads(msgspec.json.encode(value))


def written(body: object, version: int = wire.VERSION) -> bytes:
    return msgspec.json.encode({"v": version, "is": body})


def marked_block(entry: Any) -> Any:
    return UnknownBlock(provider="", raw=entry) if isinstance(entry, dict) else entry


def marked_item(entry: Any) -> Any:
    return UnknownItem(provider="", raw=entry) if isinstance(entry, dict) else entry


# --- round trips ---


@pytest.mark.req("LEDGER-2", "LEDGER-3")
@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(max_examples=sized(10, 300))
def test_every_noun_comes_back_equal(name: str, data: st.DataObject) -> None:
    value = data.draw(values(KINDS[name]))
    form = wire.dumps(value)
    back = wire.loads(KINDS[name], form)
    assert back == value
    assert type(back) is type(value)
    assert wire.dumps(back) == form
    assert wire.loads(KINDS[name], form.decode()) == value, "a form kept as text reads the same"


@pytest.mark.req("LEDGER-2")
@given(values(Message))
def test_the_form_is_one_json_object_with_its_version(message: Message) -> None:
    form = json.loads(wire.dumps(message))
    assert list(form) == ["v", "is"]
    assert form["v"] == wire.VERSION


@pytest.mark.parametrize("text", ["\ud800", "words \udfff", "\udc80 more"])
def test_a_lone_surrogate_is_refused_wherever_it_stands(text: str) -> None:
    for value in (
        say("user", text),
        Message(role="user", blocks=(ToolUseBlock(tool_use_id="t", name="n", input={"deep": [{text: 1}]}),)),
        UnknownItem(provider=text, raw=None),
    ):
        with pytest.raises(InvalidInput, match="surrogate"):
            wire.dumps(value)
    with pytest.raises(InvalidInput, match="surrogate"):
        wire.text_hash(text)
    with pytest.raises(InvalidInput, match="surrogate"):
        wire.content_hash(say("user", text))


# --- what a newer release may say ---


@pytest.mark.req("LEDGER-2")
@given(blocks_or_new)
def test_blocks_of_an_unknown_kind_are_kept_raw(entries: list[Any]) -> None:
    message = wire.loads(Message, written({"role": "user", "blocks": [plain(entry) for entry in entries]}))
    assert message == Message(role="user", blocks=tuple(marked_block(entry) for entry in entries))
    assert wire.loads(Message, wire.dumps(message)) == message


@pytest.mark.req("LEDGER-2")
@given(blocks_or_new)
def test_unknown_blocks_inside_tool_results_are_kept_raw(entries: list[Any]) -> None:
    inner = {"type": "tool_result", "tool_use_id": "t2", "content": [plain(entry) for entry in entries]}
    outer = {"type": "tool_result", "tool_use_id": "t1", "content": [inner], "is_error": True}
    content = tuple(marked_block(entry) for entry in entries)
    expected = ToolResultBlock(
        tool_use_id="t1", content=(ToolResultBlock(tool_use_id="t2", content=content),), is_error=True
    )
    assert wire.loads(Message, written({"role": "tool", "blocks": [outer]})).blocks == (expected,)


@pytest.mark.req("LEDGER-3")
@given(st.lists(st.one_of(values(TranscriptItem), unknown_entries), min_size=1, max_size=3), values(Step))
def test_items_of_an_unknown_kind_are_kept_raw(entries: list[Any], step: Step) -> None:
    form = plain(step) | {"items": [plain(entry) for entry in entries]}
    back = wire.loads(Step, written(form))
    assert back == msgspec.structs.replace(step, items=tuple(marked_item(entry) for entry in entries))
    assert wire.loads(Step, wire.dumps(back)) == back


@pytest.mark.req("LEDGER-2")
@pytest.mark.parametrize(
    ("kind", "field"),
    [(Turn, "user_message"), (Turn, "answer"), (Exchange, "message"), (Exchange, "answer"), (NewTurn, "message")],
)
@given(data=st.data())
@settings(max_examples=sized(8, 100))
def test_unknown_blocks_are_found_in_every_noun_that_holds_a_message(
    kind: Any, field: str, data: st.DataObject
) -> None:
    value, entry = data.draw(values(kind)), data.draw(unknown_entries)
    form = plain(value) | {field: {"role": "user", "blocks": [entry]}}
    message = Message(role="user", blocks=(UnknownBlock(provider="", raw=entry),))
    assert wire.loads(kind, written(form)) == msgspec.structs.replace(value, **{field: message})


@pytest.mark.req("LEDGER-3")
@given(unknown_entries, values(StepEnd))
def test_unknown_kinds_are_found_in_the_last_step_of_a_turn(entry: dict[str, Any], end: StepEnd) -> None:
    item = {"type": "assistant_message", "blocks": [entry]}
    form = {"outcome": "completed", "step": plain(end) | {"items": [item, entry]}}
    items = (AssistantItem(blocks=(UnknownBlock(provider="", raw=entry),)), UnknownItem(provider="", raw=entry))
    step = msgspec.structs.replace(end, items=items)
    assert wire.loads(TurnEnd, written(form)) == TurnEnd(outcome="completed", step=step)


@given(unknown_entries)
def test_a_single_block_or_item_of_an_unknown_kind_is_kept_raw(entry: dict[str, Any]) -> None:
    assert wire.loads(ContentBlock, written(entry)) == UnknownBlock(provider="", raw=entry)
    assert wire.loads(TranscriptItem, written(entry)) == UnknownItem(provider="", raw=entry)


@given(unknown_entries)
def test_what_only_looks_like_a_block_is_left_alone(entry: dict[str, Any]) -> None:
    lookalike = {"type": "message", "content": [entry], "blocks": [entry], "items": [entry], "answer": entry}
    blocks = (
        ToolUseBlock(tool_use_id="t", name="n", input=lookalike),
        UnknownBlock(provider="p", raw=lookalike),
        TextBlock(text="x", annotations=(lookalike,)),
    )
    form = {"role": "user", "blocks": [*map(plain, blocks), entry]}
    assert wire.loads(Message, written(form)).blocks == (*blocks, UnknownBlock(provider="", raw=entry))


@pytest.mark.parametrize("kind", [[1], {"a": 1}, 7, None, True])
def test_a_kind_that_is_no_text_is_an_unknown_one(kind: Any) -> None:
    entry = {"type": kind, "text": "words"}
    message = wire.loads(Message, written({"role": "user", "blocks": [entry]}))
    assert message.blocks == (UnknownBlock(provider="", raw=entry),)


def test_a_known_kind_with_broken_fields_is_not_taken_for_an_unknown_one() -> None:
    with pytest.raises(msgspec.ValidationError):
        wire.loads(Message, written({"role": "user", "blocks": [{"type": "text", "text": 7}]}))


# --- versions ---


@given(st.integers(1, 6), st.integers(0, 6))
def test_an_old_form_walks_through_every_version_in_between(first: int, further: int) -> None:
    newest = first + further
    steps = {version: lambda body, version=version: [*body, version] for version in range(1, newest)}
    assert wire.upgrade([], first, to=newest, steps=steps) == list(range(first, newest))


def test_the_form_of_a_newer_release_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidInput) as refusal:
        wire.loads(Message, written(plain(say("user", "hi")), version=wire.VERSION + 41))
    assert f"version {wire.VERSION + 41}" in refusal.value.message
    assert "upgrade ContextInfinity" in refusal.value.hint


@pytest.mark.parametrize("version", [0, -3])
def test_a_form_no_release_wrote_is_refused(version: int) -> None:
    with pytest.raises(InvalidInput, match="no release"):
        wire.loads(Message, written(plain(say("user", "hi")), version=version))


def test_there_is_a_step_from_every_older_version() -> None:
    assert sorted(wire.UPGRADES) == list(range(1, wire.VERSION))


@pytest.mark.req("LEDGER-2", "LEDGER-3")
@pytest.mark.parametrize("path", sorted(VERSIONS.glob("v*/*.json")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_an_older_release_wrote_stays_readable(path: Path) -> None:
    expected = SAMPLES[path.stem]
    assert wire.loads(type(expected), path.read_bytes()) == expected


def test_every_noun_that_is_kept_has_a_sample() -> None:
    assert {path.stem for path in VERSIONS.glob("v*/*.json")} == set(SAMPLES)
    sampled = {type(value).__name__ for value in SAMPLES.values()}
    assert {kind.__name__ for kind in nouns()} - sampled == NEVER_KEPT


# --- hashes ---


@pytest.mark.req("LEDGER-2")
@given(values(Message))
def test_a_content_hash_is_that_of_the_canonical_json(message: Message) -> None:
    canonical = msgspec.json.encode(plain(message), order="sorted")
    assert wire.content_hash(message) == hashlib.sha256(canonical).digest()


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.randoms())
def test_the_order_of_keys_does_not_change_a_hash(raw: dict[str, Any], random: Any) -> None:
    keys = list(raw)
    random.shuffle(keys)
    shuffled = {key: raw[key] for key in keys}
    first, second = (Message(role="user", blocks=(UnknownBlock(provider="p", raw=r),)) for r in (raw, shuffled))
    assert wire.content_hash(first) == wire.content_hash(second)


@given(values(Message))
def test_another_role_is_another_content(message: Message) -> None:
    roles: list[Any] = ["user", "assistant", "system", "tool"]
    assert len({wire.content_hash(msgspec.structs.replace(message, role=role)) for role in roles}) == 4


@given(st.text())
def test_a_text_hash_is_that_of_its_utf8(text: str) -> None:
    assert wire.text_hash(text) == hashlib.sha256(text.encode()).digest()
