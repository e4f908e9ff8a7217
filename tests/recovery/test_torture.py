"""kill -9 at every boundary and at random moments: nothing lost, nothing doubled, nothing broken.

The small version of ``python -m benchmarks.torture --trials 10000``, each time with another seed, which a failure
prints. The rest sees the check itself fail, on ledgers that were tampered with.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from benchmarks.torture.inspection import remains, violations
from benchmarks.torture.observations import Fault, Forked, Observations, Pinned, Sending
from benchmarks.torture.plans import labels, sample, schedule
from benchmarks.torture.trial import Child, Watched
from benchmarks.torture.workload import Workload, run_workload
from tests.recovery.doomed import ROOT

WORKS = {"while deleting", "while importing", "while replaying a spool", "while migrating"}


@pytest.mark.timeout(600)  # hundreds of processes, on a machine that may be busy
@pytest.mark.req("TURN-8", "TURN-9", "STREAM-3", "CHATMEM-6", "SAFE-8")
def test_nothing_is_lost_or_doubled_wherever_a_process_is_killed(quick_folder: Path, tmp_path: Path) -> None:
    report, seed = tmp_path / "report.json", random.randrange(2**32)
    planned = {plan.label for plan in sample(seed)}
    options = ["--sample", "--seed", seed, "--starts", 2, "--folder", quick_folder, "--report", report]
    command = [sys.executable, "-m", "benchmarks.torture", *map(str, options)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())
    assert (found["lost"], found["doubled"], found["broken"]) == (0, 0, 0)
    assert found["trials"] == len(sample(seed))
    assert not planned & set(found["unreached"]), "every boundary was somebody's end"
    assert {work: found["by_plan"][work]["trials"] for work in WORKS} == dict.fromkeys(WORKS, 1)
    assert found["acknowledged"] > found["trials"]


def test_every_kind_of_kill_has_its_turn_and_a_seed_gives_the_same_plans() -> None:
    plans = schedule(7, 200, starts=3)
    assert {plan.label for plan in plans} > labels() | WORKS
    assert {plan.label for plan in sample(7)} > WORKS
    assert {plan.label for seed in range(60) for plan in sample(seed)} > labels()
    assert {plan.work for plan in plans if plan.beside} == {"talk", "delete", "import", "replay", "migrate"}
    assert sum(plan.fresh_process for plan in plans) == 3
    assert plans == schedule(7, 200, starts=3)
    assert plans != schedule(8, 200, starts=3)


HANGING = """
import asyncio
from benchmarks.torture.observations import Sending, Reporter, write_stacks_on_signal

async def wait_for_nobody():
    Reporter(1)(Sending("plain one"))
    await asyncio.Event().wait()

write_stacks_on_signal(1)
asyncio.run(wait_for_nobody())
"""


def test_a_process_that_hangs_is_reported_with_the_stacks_of_its_threads_and_tasks() -> None:
    process = subprocess.Popen([sys.executable, "-c", HANGING], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    watched = Watched(Child(process.pid, os.dup(process.stdout.fileno())), None)
    watched.poll()
    watched.kill()
    while b"Stack for <Task" not in watched.data:
        assert watched.poll(), "it was not killed before it wrote its stacks"
    watched.kill()
    end = watched.end()
    process.stdout.close()
    process.returncode = 0  # it was waited for
    assert end.facts == [Sending("plain one")]
    assert end.odd is not None
    assert end.odd.startswith("it hung")
    assert "wait_for_nobody" in end.odd
    assert "most recent call first" in end.odd


# The check itself, on a ledger that is well and then is not.

DONE = "(SELECT id FROM turn WHERE phase = 'Done' AND outcome = 'completed' AND answer IS NOT NULL LIMIT 1)"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Observations]:
    """A data_dir after a workload that ended by itself, and what was acknowledged to it."""
    folder, observed = tmp_path_factory.mktemp("torture") / "data", Observations()
    asyncio.run(run_workload(Workload(folder=str(folder), name="one", seed="eight"), observed.add))
    return folder, observed


@pytest.fixture
def ledger_copy(ended: tuple[Path, Observations], tmp_path: Path) -> Iterator[tuple[Path, apsw.Connection]]:
    """A copy of it whose guards are off."""
    folder = tmp_path / "data"
    shutil.copytree(ended[0], folder)
    connection = apsw.Connection(str(folder / "ledger.db"))
    for kind, name in connection.execute("SELECT type, name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP {kind} {name}")
    yield folder, connection
    connection.close()


def test_a_ledger_that_is_well_has_no_violations(ended: tuple[Path, Observations]) -> None:
    folder, observed = ended
    assert list(violations(folder, observed)) == []
    assert observed.pins
    assert observed.forks
    assert len(observed.ended) == len(observed.accepted) > 5


@pytest.mark.parametrize(
    ("fault", "words", "statement"),
    [
        ("lost", "turn", f"DELETE FROM turn WHERE id = {DONE}"),
        ("lost", "was shown", f"UPDATE turn SET answer = NULL WHERE id = {DONE}"),
        ("lost", "the journals hold", "UPDATE message SET text = substr(text, 1, 2) WHERE role = 'assistant'"),
        ("lost", "Forked", "DELETE FROM branch WHERE parent_id IS NOT NULL"),
        ("lost", "Pinned", "UPDATE state SET pins = NULL"),
        ("broken", "nobody said", "UPDATE message SET text = text || '!' WHERE role = 'user'"),
        ("broken", "was acknowledged as", "UPDATE message SET text = text || '!' WHERE role = 'user'"),
        ("broken", "was never said", "UPDATE message SET text = text || '!' WHERE role = 'assistant'"),
        ("broken", "its end was reported as", f"UPDATE turn SET outcome = 'paused' WHERE id = {DONE}"),
        ("broken", "nobody asked for that", f"UPDATE turn SET outcome = 'paused' WHERE id = {DONE}"),
        ("broken", "nobody stopped it", f"UPDATE turn SET outcome = 'cancelled' WHERE id = {DONE}"),
        ("broken", "as if it counted", f"UPDATE turn SET outcome = 'incomplete' WHERE id = {DONE}"),
        ("broken", "it is called whole", "UPDATE turn SET outcome = 'completed' WHERE phase = 'Failed'"),
        ("broken", "it is not settled", f"UPDATE turn SET phase = 'Indexed' WHERE id = {DONE}"),
        ("broken", "states commit it", f"UPDATE turn SET state_after = NULL WHERE id = {DONE}"),
        ("broken", "steps are open", "UPDATE step SET outcome = NULL"),
        ("broken", "its error is", f"UPDATE turn SET error = '{{}}' WHERE id = {DONE}"),
        ("broken", "chunks are not", f"DELETE FROM chunk WHERE turn_id = {DONE}"),
        ("broken", "does not follow", "UPDATE state SET parent_id = id WHERE state_seq = 2"),
        ("broken", "is not the end of its chain", "UPDATE branch SET head_seq = head_seq - 1"),
        ("broken", "left over: worker", "INSERT INTO worker (id, host, pid, started_at) VALUES ('w', 'here', 1, 0)"),
        (
            "doubled",
            "2 times",
            "UPDATE message SET text = (SELECT min(text) FROM message WHERE role = 'user') WHERE "
            "key IN (SELECT key FROM message WHERE role = 'user' ORDER BY text LIMIT 2)",
        ),
        ("doubled", "the commit of turn", "UPDATE state SET turn_seq = 1, reason = 'turn' WHERE state_seq IN (1, 2)"),
        ("doubled", "the chunk at", "UPDATE chunk SET start = 0 WHERE side = 'user'"),
        ("doubled", "state number", "DROP INDEX state_by_branch; UPDATE state SET state_seq = 1 WHERE state_seq = 2"),
    ],
)
def test_the_check_sees(
    fault: Fault,
    words: str,
    statement: str,
    ended: tuple[Path, Observations],
    ledger_copy: tuple[Path, apsw.Connection],
) -> None:
    folder, connection = ledger_copy
    connection.execute(statement)
    found = [violation.what for violation in violations(folder, ended[1]) if violation.fault == fault]
    assert any(words in what for what in found), found


def test_the_check_sees_a_pin_or_a_fork_nobody_kept(ended: tuple[Path, Observations]) -> None:
    folder, observed = ended
    more = Observations(sent=observed.sent, stopping=observed.stopping, pins=[Pinned("b", "s", 1, "A fact.")])
    more.forks.append(Forked("b", 3))
    assert [violation.fault for violation in violations(folder, more)] == ["lost", "lost"]


def test_the_check_sees_a_deletion_that_left_something(ended: tuple[Path, Observations]) -> None:
    folder, observed = ended
    half = Observations(sent=observed.sent, stopping=observed.stopping, deleting={"gone": "plain one"})
    found = [violation.what for violation in remains(folder, half)]
    assert any("which is deleted" in what for what in found), found
    connection = apsw.Connection(str(folder / "ledger.db"))
    there = connection.execute("SELECT uuid FROM session LIMIT 1").get
    connection.close()
    kept = Observations(sent=observed.sent, stopping=observed.stopping, deleting={there: "x"}, deleted={there})
    assert any("was acknowledged" in violation.what for violation in violations(folder, kept))


@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        ("lost", ("import a 0", "import a 1", "import a 2")),
        ("doubled", ("import a 0",)),
        ("broken", ("import a 1", "import a 0")),
    ],
)
def test_the_check_sees_an_import_that_is_not_as_its_file(
    fault: Fault,
    texts: tuple[str, ...],
    ended: tuple[Path, Observations],
    ledger_copy: tuple[Path, apsw.Connection],
) -> None:
    folder, connection = ledger_copy
    there = ("import a 0", "import a 0") if fault == "doubled" else ("import a 0", "import a 1")
    keys = [key for (key,) in connection.execute("SELECT key FROM message ORDER BY key LIMIT 2")]
    for key, text in zip(keys, there, strict=True):
        connection.execute("UPDATE message SET text = ?, blocks = NULL WHERE key = ?", (text, key))
    ended[1].imports["file"] = texts
    try:
        assert fault in {violation.fault for violation in violations(folder, ended[1]) if "file" in violation.what}
    finally:
        del ended[1].imports["file"]
