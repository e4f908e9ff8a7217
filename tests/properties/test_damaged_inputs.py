"""Damaged inputs of strangers are read or refused in words; ``python -m benchmarks.fuzz`` tries far more of them."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from benchmarks.fuzz.fuzzed_parsers import EXPECTED, FuzzTarget, targets
from benchmarks.fuzz.mutation import mutated
from contextinfinity.dialects.openai_responses import reading
from contextinfinity.domain.session import Owner
from contextinfinity.errors import InvalidInput, SettingsError
from contextinfinity.exchange.importer import import_file
from contextinfinity.providers.failures import failure
from contextinfinity.providers.scripted import ScriptedProvider
from contextinfinity.storage.encryption import PLAIN
from contextinfinity.storage.journal.journal_reader import from_line
from contextinfinity.storage.sqlite.store import SqliteStore
from tests.sizes import sized

DEEP = b"[" * 5_000 + b"]" * 5_000


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[FuzzTarget]]:
    with asyncio.Runner() as runner, ExitStack() as stack:
        yield list(targets(tmp_path_factory.mktemp("fuzz"), runner.get_loop(), stack))
    logging.disable(logging.NOTSET)


@pytest.mark.req("API-7", "API-9", "CLI-3", "CONFIG-1", "HISTORY-1", "PROVIDER-2")
def test_every_parser_reads_sound_inputs_and_refuses_damaged_ones_in_words(parsers: list[FuzzTarget]) -> None:
    rng = random.Random(8)
    for target in parsers:
        accepted = 0
        for seed in target.seeds:
            with suppress(*EXPECTED):
                target.read(seed)
                accepted += 1
        assert accepted, f"{target.name} reads none of its sound inputs"
        for _ in range(sized(4, 2_000)):
            data = mutated(rng, rng.choice(target.seeds), target.seeds)
            with suppress(*EXPECTED):
                target.read(data)


@pytest.mark.req("CLI-3")
@pytest.mark.parametrize(
    "conversation",
    [
        {"uuid": "c", "chat_messages": [{"uuid": "m", "sender": sender, "content": [{"type": {}, "text": "hello"}]}]}
        for sender in ("human", "assistant")
    ]
    + [
        {
            "conversationId": "c",
            "messages": [{"messageId": "m", "sender": "User", "content": [{"type": []}], "text": "x"}],
        }
    ],
)
async def test_a_block_whose_type_is_no_text_does_not_end_an_import(
    conversation: dict[str, object], tmp_path: Path
) -> None:
    good = {"uuid": "good", "chat_messages": [{"uuid": "n", "sender": "human", "text": "here I am"}]}
    file = tmp_path / "export.json"
    file.write_text(json.dumps([conversation, good]), "utf-8")
    store = SqliteStore(None)
    imported = await import_file(store, file, owner=Owner())
    await store.close()
    assert sum(one.added for one in imported.sessions) >= 1


@pytest.mark.req("API-7")
@pytest.mark.parametrize("kind", [{}, [], None, 5])
def test_a_part_of_a_response_whose_type_is_no_text_is_refused_with_its_place(kind: object) -> None:
    body = {"model": "m", "input": [{"role": "user", "content": [{"type": kind, "text": "hello"}]}]}
    with pytest.raises(InvalidInput, match=r"input\[0\]\.content\[0\]\.type"):
        reading.read(json.dumps(body).encode())


@pytest.mark.req("STREAM-3")
def test_a_damaged_line_of_a_journal_is_no_entry_however_deep_it_is() -> None:
    assert (
        from_line(
            b'{"ts":"2026-01-01T00:00:00Z","provider":"x","event_type":"t","seq":1,"payload":' + DEEP + b"}", PLAIN
        )
        is None
    )


@pytest.mark.req("PROVIDER-2")
@pytest.mark.parametrize("body", [DEEP.decode(), '{"error": "\ud800"}'], ids=["deep", "surrogate"])
def test_an_error_page_of_a_vendor_is_quoted_however_deep_it_is(body: str) -> None:
    assert failure("acme", 400, body).kind == "bad_request"


@pytest.mark.parametrize("data", [b'["caf\xe9"]', DEEP, b'{"replies": "\xff"}'], ids=["latin", "deep", "bytes"])
def test_a_script_that_is_no_text_is_named(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_bytes(data)
    with pytest.raises(SettingsError, match=r"script\.json cannot be used"):
        ScriptedProvider(path)
