"""``cix setup``: a vendor is connected, tested, and its key is written nowhere."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from contextinfinity_testing.vendors import FakeVendors
from tests.doors.cix import Cix

KEY = "sk-zygomorphic-0123456789"


@pytest.fixture
def vendors() -> Iterator[FakeVendors]:
    """Vendors that take one key, in a thread of their own."""
    there, loop = FakeVendors(key=KEY), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(there.__aenter__(), loop).result(30)
    yield there
    asyncio.run_coroutine_threadsafe(there.__aexit__(None, None, None), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


@pytest.mark.req("CLI-1", "SAFE-1")
def test_a_vendor_is_set_up_with_a_key_that_works_and_is_written_nowhere(
    cix: Cix, vendors: FakeVendors, monkeypatch: pytest.MonkeyPatch
) -> None:
    (config := cix.folder / "config.toml").unlink()
    monkeypatch.setenv("OPENAI_API_KEY", "")
    how = ("setup", "--vendor", "openai", "--model-id", "gpt-5.4", "--base-url", vendors.openai_url)
    assert "OPENAI_API_KEY is not set" in cix(*how).stderr
    refused = cix(*how, "--key-stdin", stdin="sk-wrong-0123456789\n")
    assert (refused.exit_code, "Nothing was written" in refused.stderr, config.exists()) == (1, True, False)
    monkeypatch.setenv("OPENAI_API_KEY", "")
    done = cix(*how, "--key-stdin", stdin=f"{KEY}\n")
    assert "answers" in done.stderr, done.stderr
    assert config.stat().st_mode & 0o777 == 0o600
    assert KEY not in "".join(file.read_text(errors="replace") for file in cix.folder.rglob("*") if file.is_file())
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert cix.ask("hello")["model"] == "gpt-5.4"
    assert "already" in cix(*how).stderr


@pytest.mark.req("CLI-1")
def test_a_setup_keeps_what_is_in_the_file_and_asks_nothing_without_a_terminal(
    cix: Cix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    before = (config := cix.folder / "config.toml").read_text("utf-8")
    assert "--vendor" in cix("setup").stderr
    assert "no vendor" in cix("setup", "--vendor", "nobody").stderr
    done = cix.json("setup", "--vendor", "anthropic", "--model-id", "claude-sonnet-5", "--name", "claude", "--no-test")
    assert (done["model"], done["tested"]) == ("claude", False)
    assert before.strip() in config.read_text("utf-8")
    assert "claude" in [model["name"] for model in cix.json("model", "list")["models"]]
