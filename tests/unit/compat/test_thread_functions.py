from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contextinfinity import threads
from contextinfinity.compat.ledger_threads import LedgerThreads
from contextinfinity.errors import InvalidInput, LedgerFailed
from contextinfinity.settings import General, Settings, Storage
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.threads import Turn
from contextinfinity_testing.threads import BACKENDS, unused, using

Q = Turn("user", "Q")


@pytest.fixture(autouse=True)
def back_to_the_default() -> Iterator[None]:
    yield
    threads.use(None)


@pytest.mark.req("THREAD-12")
def test_a_redis_server_that_is_away_is_named_without_its_password() -> None:
    threads.use(Settings(storage=Storage(threads="redis", redis_url="redis://:secret@127.0.0.1:1/0")))
    with pytest.raises(LedgerFailed, match=r"127\.0\.0\.1:1/0 cannot be reached") as away:
        threads.get_thread("a")
    assert "secret" not in str(away.value)


@pytest.mark.req("THREAD-12")
def test_the_backend_can_be_switched_and_each_keeps_its_own(tmp_path: Path) -> None:
    name = unused()
    for backend in BACKENDS:
        with using(backend, tmp_path):
            threads.add_turn(name, Turn("user", backend))
    for backend in BACKENDS:
        with using(backend, tmp_path):
            assert threads.get_history(name) == [Turn("user", backend)]


def test_a_backend_that_was_given_stays_its_givers() -> None:
    log = LedgerThreads(SqliteStore(None))
    threads.use(log)
    threads.add_turn("a", Q)
    threads.use(None)
    assert log.history("a", 20) == [Q]
    log.close()


def test_what_is_opened_when_first_used_is_closed_when_another_is_used(tmp_path: Path) -> None:
    with using("ledger", tmp_path):
        assert list(tmp_path.iterdir()) == []  # nothing is opened before it is needed
        thread = threads.get_or_create_thread("a")
    with pytest.raises(Exception, match="closed"):
        _ = thread.turns


@pytest.mark.req("THREAD-13")
@pytest.mark.parametrize("turn", [Turn("robot", "x"), Turn("", "x"), Turn("user", "\ud800"), Turn("user", None)])  # type: ignore[arg-type]
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_turn_that_could_not_come_back_is_refused(backend: str, turn: Turn, tmp_path: Path) -> None:
    name = unused()
    with using(backend, tmp_path):
        with pytest.raises(InvalidInput):
            threads.add_turn(name, turn)
        assert threads.get_thread(name) is None


@pytest.mark.req("THREAD-5")
@pytest.mark.parametrize("name", ["", "x" * 129, "\ud800"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_id_that_cannot_be_is_refused_and_reads_as_unknown(backend: str, name: str, tmp_path: Path) -> None:
    with using(backend, tmp_path):
        for write in (lambda: threads.add_turn(name, Q), lambda: threads.get_or_create_thread(name)):
            with pytest.raises(InvalidInput, match="1 to 128"):
                write()
        threads.clear_thread(name)
        assert (threads.get_thread(name), threads.get_history(name), threads.identity(name)) == (None, [], None)


SCRIPT = """
import sys
from contextinfinity.threads import Turn, add_turn, get_history
print([turn.content for turn in get_history("a")])
add_turn("a", Turn("user", sys.argv[1]))
"""


@pytest.mark.req("THREAD-1", "THREAD-12")
@pytest.mark.parametrize(("backend", "second"), [("ledger", "['one']"), ("in_process", "[]")])
def test_the_settings_of_the_machine_count_and_a_program_just_ends(backend: str, second: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[general]\ndata_dir = "{tmp_path}"\n[storage]\nthreads = "{backend}"\n', encoding="utf-8")
    env = {**os.environ, "CONTEXTINFINITY_CONFIG": str(config)}
    for said, heard in (("one", "[]"), ("two", second)):
        command = [sys.executable, "-W", "error", "-c", SCRIPT, said]
        done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        assert (done.stdout.strip(), done.stderr) == (heard, "")


def test_settings_are_not_needed_where_a_backend_was_given() -> None:
    threads.use(Settings(general=General(data_dir="nowhere"), storage=Storage(threads="redis")))
    log = LedgerThreads(SqliteStore(None))
    threads.use(log)
    assert threads.get_history("a") == []
    log.close()
