"""What all tests share: a real ledger in a folder of its own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contextinfinity.providers.local.weights import MINILM, SMOLLM2, get
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.text import tokens
from tests.ledgers import place_ledger

MODELS = Path(os.environ.get("CONTEXTINFINITY_LOCAL__MODELS_DIR") or "~/.cache/contextinfinity/models").expanduser()


@pytest.fixture(scope="session")
def built_in_weights() -> Path:
    """The weights of the built-in model, in a folder that all checkouts share."""
    return get(SMOLLM2, MODELS)


@pytest.fixture(scope="session")
def minilm_files() -> tuple[Path, Path]:
    """The weights and the tokenizer of MiniLM, in the same folder."""
    return get(MINILM, MODELS), MODELS / MINILM.beside[0].file


@pytest.fixture(autouse=True)
def nothing_learned() -> None:
    """Counters are shared by all engines of a process, and learn; tests must not."""
    tokens.forget()


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    """An empty ledger, already migrated."""
    return place_ledger(tmp_path / "ledger.db")


@pytest.fixture
async def ledger(ledger_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(ledger_path)
    yield store
    await store.close()
