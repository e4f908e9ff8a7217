"""Whether OpenAI keeps the responses of requests that clients of ``/v1`` send."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextinfinity.settings import load_settings


@pytest.mark.req("PROVIDER-4")
@pytest.mark.parametrize(
    ("lines", "allowed"),
    [
        ("", True),
        ("store = false", False),
        ("store = true", True),
        ("store = false\nclient_store = true", True),
        ("store = true\nclient_store = false", False),
        ("client_store = false", False),
    ],
)
def test_store_that_is_written_as_false_holds_for_clients_too(tmp_path: Path, lines: str, allowed: bool) -> None:
    (tmp_path / "config.toml").write_text(f"[openai]\n{lines}", encoding="utf-8")
    loaded = load_settings(data_dir=tmp_path, environ={})
    assert loaded.settings.openai.client_store is allowed
    named = next((number for number, line in enumerate(lines.splitlines(), 2) if "client" in line), 2)
    assert loaded.sources["openai.client_store"] == (f"config.toml:{named}" if lines else "default")
