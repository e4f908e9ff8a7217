"""Ways to break a ledger, one or more for every finding: a hand past all our code, flipped bytes, false files.

``healthy`` makes a data_dir with something of everything in it; each ``Break`` takes such a folder and spoils it.
Its connection has triggers, checks and foreign keys switched off, so that a break leaves the schema as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import ImageBlock, Message, TextBlock, blob_source, say
from contextinfinity.domain.search import Embedding
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.turn import Exchange, NewTurn, Phase
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.ledger.rows import unpack
from contextinfinity.storage.sqlite.identity import mark_of
from contextinfinity.storage.sqlite.migrate import migrate, migrations
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import (
    WORKER,
    answer_turn,
    asked_back,
    broken_off,
    exchange,
    failed_turn,
    new_branch,
    new_turn,
    slice_of,
    turn_in,
)
from tests.ledgers import open_store

BAD_CONFIG = "[server]\nport = 'many'\n"


async def healthy(folder: Path) -> None:
    """Fill a data_dir: sessions, forks, pins, a fold, imports, blobs, chunks and a turn in every phase."""
    store = open_store(folder / "ledger.db")
    branch = await new_branch(store, NewSession(title="A talk", system="Be brief."))
    await store.turns.record(branch.id, [exchange(f"old {number}", "yes") for number in range(5)])
    turn = await answer_turn(store, branch.id, "What is the code word?", "The code word is heron.")
    vector = Embedding(model="tiny", dim=2, values=bytes(6))
    await store.chunks.index(turn.id, [slice_of("What is the code word?", "code word", embedding=vector)])
    head = await store.states.pin(branch.id, "The lake is deep.")
    fold = StateDraft(branch_id=branch.id, reason="fold", summary="They spoke of herons.", covers_turn_seq=3)
    await store.states.commit(fold, expected_head=head.id)
    await failed_turn(store, branch.id, "Hello?")
    await picture(store, branch.id)
    fork = await store.branches.fork(branch.id, at=2, label="aside")
    await store.turns.record(fork.id, [exchange("on the fork", "indeed")])
    await store.branches.rollback(fork.id, to=1)
    log = await new_branch(store)
    for role in ("assistant", "user", "assistant", "system"):
        await store.turns.log(log.id, say(role, f"the {role}'s"))
    for phase in Phase:
        await turn_in(store, (await new_branch(store)).id, phase)
    question = await store.turns.accept(new_turn((await new_branch(store)).id, "It"))
    await store.turns.prepare(question.id, WORKER)
    await store.turns.finalise(question.id, WORKER, asked_back())
    await store.close()


async def picture(store: SqliteStore, branch_id: str) -> None:
    """Return an image whose bytes are in the ledger."""
    sha256 = await store.contents.keep_blob(b"pixels", "image/png")
    image = ImageBlock(media_type="image/png", source=blob_source(sha256))
    message = Message(role="user", blocks=(TextBlock(text="Look:"), image))
    turn = await store.turns.accept(NewTurn(branch_id=branch_id, message=message, owner=WORKER))
    await store.turns.fail(turn.id, WORKER, broken_off())
    await store.turns.record(branch_id, [Exchange(message=message, answer=say("assistant", "A heron."))])


def vandal(folder: Path) -> apsw.Connection:
    """Open the ledger without triggers, checks and foreign keys."""
    connection = apsw.Connection(str(folder / "ledger.db"))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF")
    return connection


def sql(*statements: str) -> Callable[[Path], None]:
    """Break a ledger with SQL; a statement that changes nothing is a mistake of the test."""

    def act(folder: Path) -> None:
        with closing(vandal(folder)) as connection:
            for statement in statements:
                connection.execute(statement)
                assert connection.changes() or statement.startswith(("DROP", "CREATE", "ALTER", "PRAGMA")), statement

    return act


def flip(words: bytes, instead: bytes) -> Callable[[Path], None]:
    """Change bytes in the file itself."""

    def act(folder: Path) -> None:
        path = folder / "ledger.db"
        data = path.read_bytes()
        assert words in data
        path.write_bytes(data.replace(words, instead))

    return act


def write(name: str, content: str | bytes = b"") -> Callable[[Path], None]:
    """Write a file in the data_dir, readable by its owner only as ours are."""

    def act(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o600)

    return act


def damage_a_page(folder: Path) -> None:
    with closing(vandal(folder)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'turn_by_created_at'").get
        size = connection.execute("PRAGMA page_size").get
    with (folder / "ledger.db").open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * 64)


def folder_in_its_place(folder: Path) -> None:
    (folder / "ledger.db").unlink()
    (folder / "ledger.db").mkdir(mode=0o700)


def remove_ledger(folder: Path) -> None:
    """Leave a data_dir as an earlier release would that has lost its ledger."""
    (folder / "ledger.db").unlink()
    mark_of(folder / "ledger.db").unlink()


def only_a_journal_left(folder: Path) -> None:
    remove_ledger(folder)
    write(f"streams/{new_id()}.jsonl")(folder)


def database_of_another_program(folder: Path) -> None:
    remove_ledger(folder)
    with closing(apsw.Connection(str(folder / "ledger.db"))) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def older_schema(folder: Path) -> None:
    remove_ledger(folder)
    write("ledger.db")(folder)
    with closing(apsw.Connection(str(folder / "ledger.db"))) as connection:
        migrate(connection, "an older ledger", migrations()[:2])


def file_for_folder(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.write_text("a file where the folder should be")


def step(folder: Path, *, over: bool) -> str:
    """Return the id of a step that has ended, or of one that has not."""
    with closing(vandal(folder)) as connection:
        return unpack(connection.execute(f"SELECT id FROM step WHERE (outcome IS NOT NULL) = {over} LIMIT 1").get)


def journal(*, over: bool, ended: bool, tail: bytes = b"") -> Callable[[Path], None]:
    """Leave a journal of a step, with or without an end, and something torn behind it."""

    def act(folder: Path) -> None:
        step_id = step(folder, over=over)
        journals = JournalFolder(folder / "streams")
        opened = journals.open(step_id, "scripted")
        opened.append("delta", {"text": "The code"})
        if ended:
            opened.end(None)
        journals.close()
        with (folder / "streams" / f"{step_id}.jsonl").open("ab") as file:
            file.write(tail)

    return act


def unreadable_journal(folder: Path) -> None:
    (folder / "streams" / f"{new_id()}.jsonl").mkdir(mode=0o700)


def open_doors(folder: Path) -> None:
    folder.chmod(0o755)
    (folder / "ledger.db").chmod(0o644)
    write("streams/note.txt", "x")(folder)
    (folder / "streams" / "note.txt").chmod(0o640)


def half_a_backup(folder: Path) -> None:
    data = (folder / "ledger.db").read_bytes()
    write("backups/ledger-20240101T000000.000Z.db", data[: len(data) // 2])(folder)


def leave_alone(folder: Path) -> None:
    """It is the disk that is to blame."""


def no_place_for_backups(folder: Path) -> None:
    sql(FAILED_JOB)(folder)
    write("backups", "a file where the folder should be")(folder)


class Break(NamedTuple):
    """What is found, in which words, after which act."""

    code: str
    what: str
    act: Callable[[Path], None]
    least_free: int = 0
    repairing: bool = False


OTHER = "randomblob(16)"
HERON = "(SELECT branch_id FROM turn WHERE phase = 'Done' ORDER BY turn_seq DESC LIMIT 1)"
FAILED_JOB = "UPDATE job SET state = 'failed', last_error = 'no such model' WHERE id = 1"
IN_PHASE = "(SELECT id FROM turn WHERE phase = '{}' AND turn_seq = 1)"
FIRST_STATE = f"(SELECT id FROM state WHERE state_seq = 0 AND branch_id = {HERON})"
ASIDE = "(SELECT id FROM branch WHERE label = 'aside')"
PINS = "key = (SELECT pins FROM state WHERE reason = 'pin')"

UNREADABLE = [
    "UPDATE plan SET body = 'garbage'",
    'UPDATE plan SET body = \'{"v":1,"is":[]}\' WHERE step_index = -1',
    "UPDATE plan SET body = CAST(x'7b2276223a312c226973223a7b2266726f6e74223a22ff227d7d' AS TEXT)",
    'UPDATE step SET outcome = \'{"is":{"type":"completed"}}\' WHERE outcome IS NOT NULL',
    "UPDATE step SET items = '[]' WHERE items IS NOT NULL",
    "UPDATE step SET inputs = '{'",
    'INSERT INTO fold_candidate SELECT id, session_id, \'{"v":1,"is":{}}\', 0 FROM branch',
    'UPDATE turn SET error = \'{"v":1,"is":null}\' WHERE error IS NOT NULL',
    "UPDATE turn SET metadata = 'none' WHERE turn_seq = 4",
    f"UPDATE text SET body = '{{\"a\":1}}' WHERE {PINS}",
    f"UPDATE text SET body = '[\"a\",1]' WHERE {PINS}",
    f"UPDATE text SET body = 'a' WHERE {PINS}",
]
"""Garbage in every column that holds JSON."""

BREAKS = [
    Break("ledger_lost", "is not a ledger any more", write("ledger.db", "Dear diary, " * 100)),
    Break("ledger_lost", "is not a ledger any more", sql("DROP VIEW turns", "PRAGMA application_id = 7")),
    Break("ledger_foreign", "is a database of another program", database_of_another_program),
    Break("ledger_too_new", "has schema 999", sql("INSERT INTO schema_version VALUES (999, 'future', 0)")),
    Break("ledger_unreadable", "could not be read or written", folder_in_its_place),
    Break(
        "ledger_unsupported",
        "is a PostgreSQL database",
        write("config.toml", "[storage]\nurl = 'postgresql://a:b@h/d'"),
    ),
    Break("ledger_lost", "is empty, but this data_dir had one", write("ledger.db", b"")),
    Break("ledger_missing", "There is no ledger, but there is a file", only_a_journal_left),
    Break("file_damaged", "SQLite finds the file damaged", damage_a_page),
    Break("file_damaged", "does not say which schema it has", sql("DELETE FROM schema_version")),
    Break("file_damaged", "does not say which schema it has", sql("DROP TABLE schema_version")),
    Break("schema_tables", "A table differs", sql("ALTER TABLE retrieval ADD COLUMN more TEXT")),
    Break("schema_tables", "A table differs", sql("DROP TABLE vector", "DROP VIEW chunks")),
    Break("schema_derived", "An index, view or trigger is missing", sql("DROP INDEX turn_by_created_at")),
    Break("schema_derived", "An index, view or trigger is missing", sql("DROP TRIGGER message_is_immutable")),
    Break(
        "schema_derived", "An index, view or trigger is missing", sql("DROP VIEW jobs", "CREATE VIEW jobs AS SELECT 1")
    ),
    Break("schema_foreign", "of another program", sql("CREATE TABLE theirs (x)")),
    Break("schema_older", "schema of an older release", older_schema),
    Break("schema_gap", "A migration was skipped", sql("DELETE FROM schema_version WHERE version = 2")),
    *(
        Break("id_length", "An id does not have 16 bytes", sql(f"UPDATE {table} SET id = x'ff' WHERE id = {which}"))
        for table, which in (
            *((name, f"(SELECT min(id) FROM {name})") for name in ("session", "state", "turn", "step")),
            ("branch", ASIDE),
        )
    ),
    *(Break("content_unreadable", "cannot be read", sql(statement)) for statement in UNREADABLE),
    Break("response_unreadable", "cannot be decompressed", sql("UPDATE response SET body = x'00'")),
    Break(
        "response_unreadable", "be decompressed", sql("UPDATE response SET body = substr(body, 1, length(body) - 5)")
    ),
    Break("blob_lost", "2 blobs that are missing", sql("DELETE FROM blob", "DELETE FROM blob_use")),
    Break("blob_lost", "2 blobs that are missing", sql("DELETE FROM blob")),
    Break(
        "blob_lost",
        "A message refers to a blob",
        sql("DELETE FROM blob_use WHERE message_key = (SELECT max(message_key) FROM blob_use)"),
    ),
    Break("message_hash", "A message does not match its hash", flip(b"word is heron", b"word is egret")),
    Break("message_hash", "A message does not match its hash", flip(b"word is heron", b"word is \xff\xfe\xfd\xfc\xfb")),
    Break("message_hash", "2 messages do not match", sql("UPDATE message SET blocks = '{' WHERE blocks IS NOT NULL")),
    Break("text_hash", "A summary, system text", flip(b"They spoke of herons.", b"They spoke of egrets.")),
    Break("blob_hash", "A blob does not match its hash", sql("UPDATE blob SET body = x'00'")),
    Break("chunk_hash", "A chunk does not match its hash", sql("UPDATE chunk SET start = start + 1")),
    Break(
        "head_missing",
        "The head state of a branch is missing",
        sql(f"UPDATE branch SET head_state = {OTHER} WHERE id = {HERON}"),
    ),
    Break(
        "head_number",
        "records a wrong number for its head state",
        sql(f"UPDATE branch SET head_seq = head_seq + 1 WHERE id = {HERON}"),
    ),
    Break(
        "head_foreign",
        "The head state of a branch belongs",
        sql(f"UPDATE branch SET head_state = (SELECT id FROM state WHERE branch_id <> {HERON}) WHERE id = {HERON}"),
    ),
    Break(
        "head_behind",
        "A branch has states after its head",
        sql(
            "UPDATE branch SET head_seq = head_seq - 1, "
            f"head_state = (SELECT parent_id FROM state WHERE id = head_state) WHERE id = {HERON}"
        ),
    ),
    Break(
        "base_missing",
        "The state that a branch starts from is missing",
        sql(f"UPDATE branch SET base_state = {OTHER} WHERE label = 'aside'"),
    ),
    Break(
        "parent_missing",
        "The parent of a branch",
        sql(f"UPDATE branch SET parent_id = {OTHER} WHERE label = 'aside'"),
    ),
    Break("parent_missing", "too short", sql("UPDATE branch SET fork_seq = 99 WHERE label = 'aside'")),
    Break(
        "parent_missing",
        "begins later",
        sql(f"UPDATE branch SET parent_id = {ASIDE} WHERE parent_id IS NOT NULL AND label IS NULL"),
    ),
    Break(
        "branch_circle", "A branch is its own ancestor", sql("UPDATE branch SET parent_id = id WHERE label = 'aside'")
    ),
    Break(
        "branch_circle",
        "2 branches are their own ancestors",
        sql(f"UPDATE branch SET parent_id = {ASIDE} WHERE id = {HERON}"),
    ),
    Break(
        "active_branch_missing",
        "The active branch of a session is missing",
        sql(f"UPDATE session SET active_branch = {OTHER} WHERE system > 0"),
    ),
    Break("turn_gap", "A branch has a gap in its turns", sql("DELETE FROM turn WHERE turn_seq = 4")),
    Break(
        "turn_gap", "A branch has a gap in its turns", sql(f"UPDATE branch SET last_turn_seq = 99 WHERE id = {HERON}")
    ),
    Break(
        "state_gap", "A state does not follow", sql(f"DELETE FROM state WHERE state_seq = 2 AND branch_id = {HERON}")
    ),
    Break(
        "state_gap",
        "A state does not follow",
        sql(
            f"UPDATE state SET parent_id = (SELECT base_state FROM branch WHERE id = {HERON}) "
            f"WHERE state_seq = 3 AND branch_id = {HERON}"
        ),
    ),
    Break(
        "covers_too_far",
        "The summary of a state covers turns",
        sql("UPDATE state SET covers_turn_seq = 99 WHERE reason = 'fold'"),
    ),
    Break("state_back", "covers fewer turns", sql("UPDATE state SET turn_seq = 0 WHERE reason = 'pin'")),
    Break(
        "state_back",
        "covers fewer turns",
        sql("UPDATE state SET covers_turn_seq = 2 WHERE reason = 'record' AND covers_turn_seq = 3"),
    ),
    Break(
        "state_orphan",
        "The branch or the parent of a state is missing",
        sql(f"UPDATE state SET parent_id = {OTHER} WHERE reason = 'fold'"),
    ),
    Break(
        "state_without_text",
        "The summary or the pins of a state are missing",
        sql("UPDATE state SET summary = 999 WHERE reason = 'fold'"),
    ),
    Break("turn_phase", "A turn is in a phase", sql("UPDATE turn SET phase = 'Accepted' WHERE turn_seq = 4")),
    Break("turn_phase", "A turn is in a phase", sql("UPDATE turn SET phase = 'Dreaming' WHERE turn_seq = 4")),
    Break(
        "turns_open",
        "On a branch more than one turn",
        sql(
            "DROP INDEX one_open_turn",
            "UPDATE turn SET phase = 'Responding', state_after = NULL WHERE turn_seq IN (3, 4)",
        ),
    ),
    Break(
        "turn_without_step",
        "A turn is being answered without a step",
        sql(*(f"DELETE FROM {table} WHERE turn_id = {IN_PHASE.format('Responding')}" for table in ("step", "plan"))),
    ),
    *(
        Break(
            "turn_without_owner", "without a live worker", sql(f"UPDATE turn SET owner = NULL WHERE phase = '{phase}'")
        )
        for phase in ("ContextPrepared", "Responding")
    ),
    Break(
        "turn_without_outcome",
        "has an answer but no outcome",
        sql("UPDATE turn SET outcome = NULL WHERE turn_seq = 4"),
    ),
    Break(
        "commit_foreign",
        "committed by the state of another turn",
        sql(f"UPDATE turn SET state_after = (SELECT id FROM state WHERE branch_id = {ASIDE}) WHERE turn_seq = 4"),
    ),
    Break(
        "commit_foreign",
        "committed by the state of another turn",
        sql(f"UPDATE turn SET state_after = {FIRST_STATE} WHERE turn_seq = 4"),
    ),
    Break(
        "message_role",
        "has the wrong role",
        sql("UPDATE turn SET user_message = answer, answer = user_message WHERE turn_seq = 4"),
    ),
    Break(
        "message_role",
        "has the wrong role",
        sql("UPDATE message SET role = 'tool' WHERE key = (SELECT answer FROM turn WHERE turn_seq = 4)"),
    ),
    Break(
        "message_role",
        "has the wrong role",
        sql("UPDATE message SET role = 'assistant' WHERE text = 'the user''s'"),
    ),
    Break(
        "message_shared",
        "A message is used more than once",
        sql("UPDATE turn SET answer = (SELECT answer FROM turn WHERE turn_seq = 5) WHERE turn_seq = 4"),
    ),
    Break(
        "message_shared",
        "A message is used more than once",
        sql("UPDATE turn SET answer = user_message WHERE turn_seq = 4"),
    ),
    Break(
        "message_orphan",
        "The session of a message is missing",
        sql(f"UPDATE message SET session_id = {OTHER} WHERE key = 1"),
    ),
    Break(
        "turn_without_message",
        "The question or answer of a turn is missing",
        sql("DELETE FROM message WHERE key = (SELECT answer FROM turn WHERE turn_seq = 4)"),
    ),
    Break(
        "turn_without_state",
        "The state of a turn is missing",
        sql(f"UPDATE turn SET state_before = {OTHER} WHERE turn_seq = 4"),
    ),
    Break(
        "turn_without_branch",
        "The branch of a turn is missing",
        sql(f"UPDATE turn SET branch_id = {OTHER} WHERE turn_seq = 9"),
    ),
    Break(
        "message_unused",
        "A message belongs to no turn",
        sql(
            "INSERT INTO message (session_id, role, text, content_hash) "
            "SELECT session_id, role, text, content_hash FROM message WHERE key = 1"
        ),
    ),
    Break(
        "step_orphan",
        "The turn or the plan of a step is missing",
        sql("DELETE FROM plan WHERE turn_id = (SELECT turn_id FROM step LIMIT 1)"),
    ),
    Break(
        "plan_orphan",
        "The turn or the step of a plan is missing",
        sql("DELETE FROM step WHERE id = (SELECT id FROM step LIMIT 1)"),
    ),
    Break(
        "response_orphan",
        "The step of a raw provider response is missing",
        sql(f"UPDATE response SET step_id = {OTHER} WHERE rowid = 1"),
    ),
    Break("chunk_orphan", "The message of a chunk is missing", sql(f"UPDATE chunk SET turn_id = {OTHER}")),
    Break("vector_orphan", "The chunk of a vector is missing", sql("UPDATE vector SET chunk_key = 99")),
    Break("vector_size", "A vector has the wrong size", sql("UPDATE loose_vector SET body = x'00'")),
    Break(
        "keyword_missing",
        "A turn is missing in the keyword index",
        sql(
            "DELETE FROM keyword_docsize WHERE id = (SELECT 4 * min(question) FROM uncut)",
            "DELETE FROM uncut WHERE question = (SELECT min(question) FROM uncut)",
            "UPDATE word_state SET indexed = indexed - 1",
        ),
    ),
    Break(
        "keyword_orphan",
        "A keyword entry has no message",
        sql("INSERT INTO keyword (rowid, words) VALUES (4 * 999 + 1, 'heron')"),
    ),
    Break("keyword_count", "A counter of the index is wrong", sql("UPDATE word_state SET indexed = indexed + 1")),
    Break("deletion_left", "A deletion was begun", sql(f"INSERT INTO deletion VALUES ({OTHER}, 'asked for', 0)")),
    Break(
        "blob_use_orphan",
        "A blob reference has no message",
        sql("UPDATE blob_use SET message_key = 99 WHERE message_key = (SELECT min(message_key) FROM blob_use)"),
    ),
    Break("reference_broken", "A row refers to a missing row", sql("UPDATE session SET system = 99 WHERE system > 0")),
    Break(
        "reference_broken",
        "A row refers to a missing row",
        sql(f'INSERT INTO fold_candidate VALUES ({OTHER}, {OTHER}, \'{{"v":1,"is":{{"summary":""}}}}\', 0)'),
    ),
    Break(
        "job_orphan", "The branch or turn of a job is missing", sql(f"UPDATE job SET branch_id = {OTHER} WHERE id = 1")
    ),
    Break("job_foreign", "A job is on another branch", sql(f"UPDATE job SET branch_id = {ASIDE} WHERE id = 1")),
    Break("job_failed", "A job failed permanently", sql(FAILED_JOB)),
    Break(
        "job_stuck",
        "A job is running without a live worker",
        sql("UPDATE job SET state = 'running', owner = 'gone' WHERE id = 1"),
    ),
    Break(
        "job_stuck",
        "A job is running without a live worker",
        sql("UPDATE job SET state = 'running', owner = NULL WHERE id = 1"),
    ),
    Break(
        "job_missing",
        "A turn waits for a job",
        sql(f"DELETE FROM job WHERE turn_id = {IN_PHASE.format('ResponseFinalized')}"),
    ),
    Break(
        "job_missing",
        "Turns wait for 2 jobs",
        sql(f"DELETE FROM job WHERE turn_id = {IN_PHASE.format('StateCommitted')}"),
    ),
    Break(
        "job_missing", "A turn waits for a job", sql(f"DELETE FROM job WHERE turn_id = {IN_PHASE.format('Indexed')}")
    ),
    Break(
        "job_needless",
        "A job is queued for a turn that does not need it",
        sql(f"UPDATE job SET turn_id = {IN_PHASE.format('Failed')} WHERE id = 1"),
    ),
    Break(
        "worker_dead",
        "A worker is registered and dead",
        sql("INSERT INTO worker (id, host, pid, started_at) VALUES ('gone', 'here', 1, 0)"),
    ),
    Break("lock_stray", "A lock belongs to no worker", write("workers/gone.lock")),
    Break(
        "spool_waiting",
        "A spool of messages accepted while the ledger was unavailable",
        write("ledger.db-spool/gone.spool"),
    ),
    Break("spool_refused", "The ledger did not accept everything", write("ledger.db-spool/gone.refused")),
    Break("journal_torn", "A journal ends in the middle", journal(over=True, ended=True, tail=b'{"ts"')),
    Break("journal_torn", "A journal ends in the middle", journal(over=False, ended=False, tail=b"\0\0\n\0")),
    Break("journal_stray", "A journal belongs to no step", write(f"streams/{new_id()}.jsonl", b'{"ts"')),
    Break("journal_unfinished", "A journal has no end", journal(over=True, ended=False)),
    Break("journal_unreadable", "A journal cannot be read", unreadable_journal),
    Break("config_wrong", "The settings are not valid", write("config.toml", BAD_CONFIG)),
    Break("data_dir_unusable", "The data_dir is not a folder", file_for_folder),
    Break("permissions_open", "3 files or folders can be read", open_doors),
    Break("disk_low", "There is little disk space", leave_alone, least_free=2**62),
    Break("backup_damaged", "A backup is not a complete ledger", half_a_backup),
    Break("backup_partial", "A backup was never finished", write("backups/ledger-x.db.partial", "half")),
    Break("backup_failed", "No backup could be made", no_place_for_backups, repairing=True),
]
