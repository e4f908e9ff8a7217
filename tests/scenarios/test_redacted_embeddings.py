"""Texts that a client sends to be embedded, which are not part of a conversation."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextinfinity.client.local import LocalClient
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.settings.sections import General, RetrievalSettings
from contextinfinity.wiring import open_engine
from contextinfinity_testing.vendors import FakeVendors


@pytest.mark.req("SAFE-1", "API-12")
async def test_texts_that_a_client_sends_to_be_embedded_leave_without_their_secrets(
    vendors: FakeVendors, tmp_path: Path
) -> None:
    remote = ModelSettings(provider="openai", model_id="text-embedding-3-small", base_url=vendors.openai_url)
    settings = Settings(
        general=General(data_dir=str(tmp_path), redact_patterns=(r"sk-\w+",)),
        retrieval=RetrievalSettings(embedding_model="remote"),
        models={"remote": remote},
    )
    async with open_engine(settings) as engine:
        name, rows = await LocalClient(engine).drop_in.embed(("My key is sk-12345.", "The heron."))
    assert (name.startswith("openai/"), len(rows)) == (True, 2)
    sent = [text for request in vendors.requests for text in request.body["input"]]
    assert sent == ["My key is [redacted].", "The heron."]
