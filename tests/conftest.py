"""What all tests share: a real ledger in a folder of its own."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from contextinfinity.providers.local.weights_file import MINILM, SMOLLM2, get
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.text import tokens
from tests.ledgers import BACKEND, open_store
from tests.sizes import PROOF, sized
from tests.times import FolderTimes

HERE = Path(__file__).parent
MOST_OPEN = 300
"""Open files and connections of a worker between two tests; there are about 70 at the end."""
DESCRIPTORS = Path("/dev/fd")
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - only a folder of our own inside it is used
MODELS = Path(os.environ.get("CONTEXTINFINITY_LOCAL__MODELS_DIR") or "~/.cache/contextinfinity/models").expanduser()

# A busy machine draws slowly, which is no failure. ``make test`` draws the same examples each time, so that a failure
# is due to the change being tested; ``make proof`` draws many more, at random.
settings.register_profile(
    "house",
    deadline=None,
    max_examples=sized(20, 2_000),
    derandomize=not PROOF,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the folders of tests in memory where there is room, and print the time per folder at the end.

    Tests make thousands of durable commits: on a disk most of a run is waiting for it. Tests that need a disk that
    fails or loses power bring their own. A background shell starts its commands with SIGINT ignored, which processes
    inherit: tests that send one to a process of theirs need the default.
    """
    # Where MiniLM's weights are, every engine with default settings would load them: tests of it name it.
    os.environ.setdefault("CONTEXTINFINITY_RETRIEVAL__EMBEDDING_MODEL", "static")
    gc.disable()  # until everything is collected: a fifth of the time of collection
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # with xdist: in the process that collects the reports
        config.pluginmanager.register(FolderTimes())
        if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > 4 * 2**30:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import a share of the test modules before the others, a different one in each worker.

    In a fresh checkout pytest rewrites the assertions of every module, which takes as long as importing all of them.
    Workers that go through the modules in the same order all do it; here each module is rewritten by one of them.
    """
    worker: dict[str, Any] = getattr(session.config, "workerinput", {})
    if not worker or [Path(place).name for place in session.config.args] != session.config.getini("testpaths"):
        return  # one process, or only some of the tests
    modules = sorted(HERE.rglob("test_*.py"))
    for path in modules[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        if (folder := str(path.parent)) not in sys.path:
            sys.path.insert(0, folder)
        with suppress(Exception, pytest.skip.Exception):  # which pytest reports when it collects the module
            import_module(path.stem)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test after which a process has far too many files and connections open, and say what they are."""
    yield
    if len([*DESCRIPTORS.iterdir()]) > MOST_OPEN:
        gc.collect()  # which closes those of cycles that are no longer used
    if len(opened := [*DESCRIPTORS.iterdir()]) > MOST_OPEN:
        places = Counter(re.sub(r"[0-9]+", "N", str(one.readlink())) for one in opened if one.is_symlink())
        threads = [thread.name for thread in threading.enumerate()]
        pytest.fail(f"{len(opened)} files are open after {item.nodeid}: {places.most_common(20)}; threads: {threads}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests of the SQLite file where ledgers are in PostgreSQL."""
    if os.environ.get(BACKEND) != "postgresql":
        return
    for item in items:
        if (mark := item.get_closest_marker("sqlite_file")) is not None:
            item.add_marker(pytest.mark.skip(reason=f"about the SQLite file: {mark.args[0]}"))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten what a long text would be called: test names are printed, and sent between processes."""
    return f"{val[:60]!r}…{len(val)}" if isinstance(val, str | bytes) and len(val) > 100 else None


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of later garbage collections: a million objects that never die.

    Tests create short-lived cycles all the time; collecting less often saves a twentieth of a run.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


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
    return tmp_path / "ledger.db"


@pytest.fixture
async def ledger(ledger_path: Path) -> AsyncIterator[SqliteStore]:
    store = open_store(ledger_path)
    yield store
    await store.close()
