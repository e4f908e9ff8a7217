"""Shadow mode answers from the first backend and reports every read that the second answers otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from msgspec import convert

import contextinfinity
from contextinfinity import threads
from contextinfinity.cli.main import app
from contextinfinity.compat.ledger_threads import RedisThreads
from contextinfinity.compat.shadow_threads import read_report
from contextinfinity.compat.threads import IN_PROCESS
from contextinfinity.errors import LedgerCorrupt
from contextinfinity.settings import General, Settings, Storage
from contextinfinity.threads import Turn
from contextinfinity_testing.threads import unused, valkey_url

pytestmark = pytest.mark.req("THREAD-12")

Q, A = Turn("user", "Where do herons nest?"), Turn("assistant", "In reeds.")


@pytest.fixture
def report(tmp_path: Path) -> Iterator[Path]:
    storage = Storage(threads="ledger", threads_shadow="redis", redis_url=valkey_url())
    threads.use(Settings(general=General(data_dir=str(tmp_path)), storage=storage))
    yield tmp_path / "threads-shadow.jsonl"
    threads.use(None)


def test_both_get_every_turn_and_nothing_is_reported_while_they_agree(report: Path) -> None:
    name = unused()
    threads.get_or_create_thread(name)
    threads.add_turn(name, Q)
    threads.add_turn(name, A)
    assert threads.get_history(name) == [Q, A] == RedisThreads(valkey_url()).history(name, 20)
    threads.clear_thread(name)
    assert threads.get_history(name) == []
    assert read_report(report) == ()


def test_a_turn_that_only_one_has_is_reported_without_its_words(report: Path) -> None:
    name = unused()
    threads.add_turn(name, Q)
    RedisThreads(valkey_url()).add(name, A)
    assert threads.get_history(name) == [Q]
    (difference,) = read_report(report)
    assert (difference.verb, difference.thread_id) == ("history", name)
    assert (difference.turns, difference.shadow_turns, difference.first_difference) == (1, 2, 1)
    assert "reeds" not in report.read_text()


@pytest.mark.req("SAFE-4")
@pytest.mark.parametrize(("main", "other"), [("ledger", "redis"), ("redis", "ledger"), ("in_process", "ledger")])
async def test_a_deletion_reaches_the_copy_in_the_other_backend(tmp_path: Path, main: str, other: str) -> None:
    storage = convert({"threads": main, "threads_shadow": other, "redis_url": valkey_url()}, Storage)
    settings = Settings(general=General(data_dir=str(tmp_path)), storage=storage)
    name, kept = unused(), unused()
    threads.use(settings)
    try:
        for turn in (Q, A, Turn("user", "And in winter?")):
            threads.add_turn(name, turn)
        threads.add_turn(kept, Q)
        copy = IN_PROCESS if main == "in_process" else RedisThreads(valkey_url())
        async with contextinfinity.open(settings) as engine:
            session = await engine.session(name)
            (first, _) = await engine.store.turns.history(session.active_branch)
            await engine.deleting.turn(first)
            assert copy.history(name, 20) == [Turn("user", "And in winter?")]
            await engine.delete(name)
        assert (copy.history(name, 20), copy.history(kept, 20)) == ([], [Q])
    finally:
        threads.use(None)


def test_the_report_command_shows_the_differences_and_fails(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> int:
        with pytest.raises(SystemExit) as ended:
            app(["shadow-report", "--data-dir", str(report.parent), *words], prog_name="cix")
        return int(ended.value.code or 0)

    assert run() == 0
    assert "No read or write" in capsys.readouterr().err
    name = unused()
    threads.add_turn(name, Q)
    RedisThreads(valkey_url()).add(name, A)
    threads.get_history(name)
    assert run() == 1
    shown = capsys.readouterr()
    assert "1 and 2 turns, from turn 2 on" in " ".join(shown.out.split())
    assert "1 differences in 1 conversations" in shown.err
    assert run("--json") == 1
    assert [each["thread_id"] for each in json.loads(capsys.readouterr().out)] == [name]


def test_a_thread_that_only_one_has_is_reported(report: Path) -> None:
    name = unused()
    RedisThreads(valkey_url()).add(name, A)
    assert threads.get_thread(name) is None
    assert [difference.verb for difference in read_report(report)] == ["get"]


def test_a_second_backend_that_is_away_costs_no_request(tmp_path: Path) -> None:
    storage = Storage(threads="ledger", threads_shadow="redis", redis_url="redis://127.0.0.1:1/0")
    threads.use(Settings(general=General(data_dir=str(tmp_path)), storage=storage))
    threads.add_turn("a", Q)
    assert threads.get_history("a") == [Q]
    threads.use(None)
    report = read_report(tmp_path / "threads-shadow.jsonl")
    assert [difference.verb for difference in report] == ["add", "history"]
    assert all("cannot be reached" in (difference.error or "") for difference in report)


def test_a_thread_of_a_later_form_is_left_as_it_is() -> None:
    name, log = unused(), RedisThreads(valkey_url())
    client = redis.Redis.from_url(valkey_url())
    client.rpush(f"contextinfinity:thread:{name}", '{"v":2,"id":"x"}')
    with pytest.raises(LedgerCorrupt, match="version 2"):
        log.history(name, 20)
    assert client.lrange(f"contextinfinity:thread:{name}", 0, -1) == [b'{"v":2,"id":"x"}']
