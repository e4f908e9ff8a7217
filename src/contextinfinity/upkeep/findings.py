"""All findings of ``cix doctor`` and their texts.

A ``FindingKind`` holds the severity of a code, its meaning, what the user should do and, if a safe repair exists, what
the repair does. ``KINDS`` is the complete list; tests compare the documentation with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["broken", "warning", "info"]
"""``info``: a crash left it, it harms nothing, and the next start of an engine clears it up by itself."""

PLACES = 5
"""The number of locations listed per finding."""

_RESTORE = "Restore the newest intact backup; `cix show ID --json` saves what can still be read."
_DERIVED = "No conversation is affected; `cix reindex` rebuilds it."


class Finding(Struct, frozen=True, kw_only=True):
    """One finding: ``what`` describes it, ``where`` lists the first locations, ``repair`` what --repair would do."""

    code: str
    severity: Severity
    what: str
    where: str
    count: int = 1
    repair: str | None = None
    advice: str = ""


class Repaired(Struct, frozen=True, kw_only=True):
    """One kind of finding that was repaired."""

    code: str
    what: str
    count: int


class FindingKind(Struct, frozen=True):
    """The texts of a code: singular, plural with a count, and what to do."""

    severity: Severity
    one: str
    many: str
    advice: str
    repair: str | None = None


def found(code: str, places: Sequence[str], count: int | None = None, *, what: str | None = None) -> Finding:
    """Return a finding with its text and locations."""
    kind, number = KINDS[code], len(places) if count is None else count
    rest = f"; and {number - PLACES:,} more" if number > PLACES else ""
    return Finding(
        code=code,
        severity=kind.severity,
        what=what or (kind.one if number == 1 else kind.many.format(f"{number:,}")),
        where="; ".join(places[:PLACES]) + rest,
        count=number,
        repair=kind.repair,
        advice=kind.advice,
    )


def repaired(counts: Iterable[tuple[str, int]]) -> tuple[Repaired, ...]:
    """Return descriptions of the repairs."""
    return tuple(Repaired(code=code, what=KINDS[code].repair or "", count=count) for code, count in counts if count)


def _loss_finding(one: str, many: str) -> FindingKind:
    return FindingKind("broken", one, many, _RESTORE)


KINDS: dict[str, FindingKind] = {
    # The file as such.
    "ledger_foreign": _loss_finding("The file is not a ledger, or it is encrypted.", "{} files are not ledgers."),
    "ledger_too_new": FindingKind(
        "broken",
        "The ledger was written by a newer release.",
        "{} ledgers were written by a newer release.",
        "Upgrade ContextInfinity; the file was not changed.",
    ),
    "ledger_unreadable": FindingKind(
        "broken",
        "The ledger cannot be opened.",
        "{} ledgers cannot be opened.",
        "Make the file and its folder readable and writable for this user, and check the disk.",
    ),
    "ledger_unsupported": FindingKind(
        "broken",
        "The ledger is a PostgreSQL database: doctor can only examine a SQLite file.",
        "{} ledgers are PostgreSQL databases: doctor can only examine a SQLite file.",
        "Use PostgreSQL's own tools (pg_amcheck, pg_dump) to check and back up the database.",
    ),
    "ledger_missing": FindingKind(
        "broken",
        "There is no ledger, but there is a file that belongs to one.",
        "There is no ledger, but there are {} files that belong to one.",
        "Check storage.url and whether its disk is mounted, or restore a backup.",
    ),
    "ledger_lost": FindingKind(
        "broken",
        "The ledger is missing, empty, or not the ledger of this data_dir.",
        "The ledger is missing, empty, or not the ledger of this data_dir.",
        "Put the file back, or copy a backup to its place while nothing runs; to go on with what is there now, or with "
        "an empty ledger, start once with --begin-new.",
    ),
    "file_damaged": _loss_finding("SQLite finds the file damaged.", "SQLite finds the file damaged in {} places."),
    "schema_tables": _loss_finding("A table differs from the schema.", "{} tables differ from the schema."),
    "schema_derived": FindingKind(
        "broken",
        "An index, view or trigger is missing or differs.",
        "{} indexes, views or triggers are missing or differ.",
        "If a repair does not create it, rows violate it: repair the other findings first.",
        "Creates indexes, views and triggers as the schema defines them.",
    ),
    "schema_foreign": FindingKind(
        "warning",
        "The ledger contains a table, index, view or trigger of another program.",
        "The ledger contains {} tables, indexes, views or triggers of other programs.",
        "Drop it if you did not put it there yourself.",
    ),
    "schema_older": FindingKind(
        "warning",
        "The ledger has the schema of an older release; its contents were not checked.",
        "{} ledgers have the schema of an older release.",
        "The next start migrates it; then run `cix doctor` again.",
        "Migrates the ledger to the schema of this release.",
    ),
    "schema_gap": _loss_finding("A migration was skipped.", "{} migrations were skipped."),
    "id_length": _loss_finding("An id does not have 16 bytes.", "{} ids do not have 16 bytes."),
    # What was said.
    "message_hash": _loss_finding("A message does not match its hash.", "{} messages do not match their hashes."),
    "text_hash": _loss_finding(
        "A summary, system text or list of pins does not match its hash.",
        "{} summaries, system texts or lists of pins do not match their hashes.",
    ),
    "blob_hash": _loss_finding("A blob does not match its hash.", "{} blobs do not match their hashes."),
    "blob_lost": _loss_finding(
        "A message refers to a blob that is missing or not recorded as used.",
        "Messages refer to {} blobs that are missing or not recorded as used.",
    ),
    "content_unreadable": _loss_finding(
        "A plan, step, error, metadata, fold candidate or list of pins cannot be read.",
        "{} plans, parts of steps, errors, metadata, fold candidates or lists of pins cannot be read.",
    ),
    "response_unreadable": _loss_finding(
        "A raw provider response cannot be decompressed.", "{} raw provider responses cannot be decompressed."
    ),
    "chunk_hash": FindingKind(
        "broken",
        "A chunk does not match its hash.",
        "{} chunks do not match their hashes.",
        "If its message is intact, `cix reindex` rebuilds it; otherwise restore a backup.",
    ),
    # Branches and their states.
    "head_missing": _loss_finding(
        "The head state of a branch is missing.", "The head states of {} branches are missing."
    ),
    "head_number": _loss_finding(
        "A branch records a wrong number for its head state.", "{} branches record wrong numbers for their head states."
    ),
    "head_foreign": _loss_finding(
        "The head state of a branch belongs to another branch.",
        "The head states of {} branches belong to other branches.",
    ),
    "head_behind": _loss_finding("A branch has states after its head.", "{} branches have states after their heads."),
    "base_missing": _loss_finding(
        "The state that a branch starts from is missing.", "The states that {} branches start from are missing."
    ),
    "parent_missing": _loss_finding(
        "The parent of a branch is missing, too short, or begins later.",
        "The parents of {} branches are missing, too short, or begin later.",
    ),
    "branch_circle": _loss_finding("A branch is its own ancestor.", "{} branches are their own ancestors."),
    "active_branch_missing": _loss_finding(
        "The active branch of a session is missing.", "The active branches of {} sessions are missing."
    ),
    "turn_gap": _loss_finding("A branch has a gap in its turns.", "There are {} gaps in the turns of branches."),
    "state_gap": _loss_finding(
        "A state does not follow the previous one.", "{} states do not follow the previous ones."
    ),
    "covers_too_far": _loss_finding(
        "The summary of a state covers turns that do not exist.",
        "The summaries of {} states cover turns that do not exist.",
    ),
    "state_back": _loss_finding(
        "A state covers fewer turns than the previous one.", "{} states cover fewer turns than the previous ones."
    ),
    "state_orphan": _loss_finding(
        "The branch or the parent of a state is missing.",
        "The branches or parents of {} states are missing.",
    ),
    "state_without_text": _loss_finding(
        "The summary or the pins of a state are missing.", "The summaries or pins of {} states are missing."
    ),
    # Turns and what belongs to them.
    "turn_phase": _loss_finding(
        "A turn is in a phase that its data contradicts.", "{} turns are in phases that their data contradicts."
    ),
    "turns_open": FindingKind(
        "broken",
        "On a branch more than one turn is being answered.",
        "On {} branches more than one turn is being answered.",
        "End all processes that use the ledger and start one: recovery ends the turns without a live worker.",
    ),
    "turn_without_step": _loss_finding(
        "A turn is being answered without a step.", "{} turns are being answered without a step."
    ),
    "turn_without_owner": _loss_finding(
        "A turn is being answered without a live worker.", "{} turns are being answered without live workers."
    ),
    "turn_without_outcome": _loss_finding(
        "A turn has an answer but no outcome.", "{} turns have answers but no outcomes."
    ),
    "turn_without_message": _loss_finding(
        "The question or answer of a turn is missing.", "The questions or answers of {} turns are missing."
    ),
    "turn_without_state": _loss_finding("The state of a turn is missing.", "The states of {} turns are missing."),
    "turn_without_branch": _loss_finding("The branch of a turn is missing.", "The branches of {} turns are missing."),
    "commit_foreign": _loss_finding(
        "A turn was committed by the state of another turn.",
        "{} turns were committed by the states of other turns.",
    ),
    "message_role": _loss_finding(
        "A question or answer has the wrong role.", "The questions or answers of {} turns have the wrong role."
    ),
    "message_shared": _loss_finding("A message is used more than once.", "{} messages are used more than once."),
    "message_orphan": _loss_finding("The session of a message is missing.", "The sessions of {} messages are missing."),
    "message_unused": FindingKind(
        "warning",
        "A message belongs to no turn.",
        "{} messages belong to no turn.",
        "It is harmless, but its turn may be missing: see the other findings.",
    ),
    "step_orphan": _loss_finding(
        "The turn or the plan of a step is missing.", "The turns or plans of {} steps are missing."
    ),
    "plan_orphan": _loss_finding(
        "The turn or the step of a plan is missing.", "The turns or steps of {} plans are missing."
    ),
    "response_orphan": _loss_finding(
        "The step of a raw provider response is missing.", "The steps of {} raw provider responses are missing."
    ),
    "chunk_orphan": FindingKind(
        "broken", "The message of a chunk is missing.", "The messages of {} chunks are missing.", _DERIVED
    ),
    "vector_orphan": FindingKind(
        "broken", "The chunk of a vector is missing.", "The chunks of {} vectors are missing.", _DERIVED
    ),
    "vector_size": FindingKind("broken", "A vector has the wrong size.", "{} vectors have the wrong size.", _DERIVED),
    "keyword_missing": FindingKind(
        "warning",
        "A turn is missing in the keyword index.",
        "{} turns are missing in the keyword index.",
        _DERIVED,
        "Queues the turns for indexing.",
    ),
    "keyword_orphan": FindingKind(
        "warning", "A keyword entry has no message.", "{} keyword entries have no message.", _DERIVED
    ),
    "keyword_count": FindingKind(
        "warning",
        "A counter of the index is wrong.",
        "{} counters of the index are wrong.",
        "It affects only the reported progress of the index.",
        "Counts the index again.",
    ),
    "blob_use_orphan": _loss_finding(
        "A blob reference has no message.",
        "{} blob references have no message.",
    ),
    "reference_broken": _loss_finding("A row refers to a missing row.", "{} rows refer to missing rows."),
    "deletion_left": FindingKind(
        "warning",
        "A deletion was begun more than a day ago and never ended.",
        "{} deletions were begun more than a day ago and never ended.",
        "Delete the session again to finish the deletion.",
    ),
    # Work.
    "job_orphan": _loss_finding(
        "The branch or turn of a job is missing.", "The branches or turns of {} jobs are missing."
    ),
    "job_foreign": _loss_finding(
        "A job is on another branch than its turn.", "{} jobs are on other branches than their turns."
    ),
    "job_failed": FindingKind(
        "warning",
        "A job failed permanently.",
        "{} jobs failed permanently.",
        "Read its error, fix the cause, then repair to try it again.",
        "Queues failed jobs again.",
    ),
    "job_stuck": FindingKind(
        "info",
        "A job is running without a live worker.",
        "{} jobs are running without live workers.",
        "No action needed: the next start of an engine takes it over.",
        "Queues jobs of dead workers again.",
    ),
    "job_missing": FindingKind(
        "broken",
        "A turn waits for a job that does not exist.",
        "Turns wait for {} jobs that do not exist.",
        "Without the job the turn never gets further.",
        "Queues the jobs that turns wait for.",
    ),
    "job_needless": FindingKind(
        "warning",
        "A job is queued for a turn that does not need it.",
        "{} jobs are queued for turns that do not need them.",
        "It is harmless: it would fail.",
        "Removes unneeded jobs.",
    ),
    "worker_dead": FindingKind(
        "info",
        "A worker is registered and dead.",
        "{} workers are registered and dead.",
        "No action needed: the next start of an engine removes it and recovers its turns.",
        "Removes dead workers; their unfinished turns are left to recovery.",
    ),
    "lock_stray": FindingKind(
        "warning",
        "A lock belongs to no worker.",
        "{} locks belong to no worker.",
        "A process died during its start; the file is harmless.",
        "Removes lock files without a process and without a worker.",
    ),
    # What waits for the ledger.
    "spool_waiting": FindingKind(
        "warning",
        "A spool of messages accepted while the ledger was unavailable is not replayed yet.",
        "{} spools of messages accepted while the ledger was unavailable are not replayed yet.",
        "The next start of an engine replays it: `cix sessions` is enough.",
    ),
    "spool_refused": FindingKind(
        "broken",
        "The ledger did not accept everything in a spool.",
        "The ledger did not accept everything in {} spools.",
        "Its last line has the reason, the others the messages. Remove the file when it is not needed.",
    ),
    # Streams.
    "journal_torn": FindingKind(
        "warning",
        "A journal ends in the middle of a line.",
        "{} journals end in the middle of a line.",
        "A crash interrupted the write; the lines before are complete.",
        "Keeps a copy in backups and removes the incomplete line.",
    ),
    "journal_stray": FindingKind(
        "warning",
        "A journal belongs to no step.",
        "{} journals belong to no step.",
        "Its step is missing in this ledger; it may belong to another ledger.",
        "Moves journals without a step to backups.",
    ),
    "journal_unfinished": FindingKind(
        "warning",
        "A journal has no end although its step has ended.",
        "{} journals have no end although their steps have ended.",
        "The ledger has the answer; without a repair the journal is never removed.",
        "Moves journals of ended steps to backups.",
    ),
    "journal_unreadable": FindingKind(
        "broken",
        "A journal cannot be read.",
        "{} journals cannot be read.",
        "Make it a file that this user can read, or move it away.",
    ),
    # The machine.
    "config_wrong": FindingKind(
        "broken",
        "The settings are not valid; the defaults were used instead.",
        "The settings are not valid; the defaults were used instead.",
        "Correct the file or the environment; `cix config` shows the values in effect.",
    ),
    "data_dir_unusable": FindingKind(
        "broken",
        "The data_dir is not a folder.",
        "{} data_dirs are not folders.",
        "Move the file at that path away, or choose another data_dir.",
    ),
    "permissions_open": FindingKind(
        "warning",
        "A file or folder can be read by other users.",
        "{} files or folders can be read by other users.",
        "Only their owner should have access to them.",
        "Removes access of all users except the owner.",
    ),
    "disk_low": FindingKind(
        "warning",
        "There is little disk space.",
        "There is little space on {} disks.",
        "Free some disk space: a full disk stops every conversation.",
    ),
    "backup_damaged": FindingKind(
        "warning",
        "A backup is not a complete ledger.",
        "{} backups are not complete ledgers.",
        "Do not rely on it; delete it and make a new one.",
    ),
    "backup_partial": FindingKind(
        "warning",
        "A backup was never finished.",
        "{} backups were never finished.",
        "The process that made it was stopped; the file is useless.",
        "Removes unfinished backups that no process is writing.",
    ),
    "backup_failed": FindingKind(
        "broken",
        "No backup could be made, so nothing was repaired.",
        "No backup could be made, so nothing was repaired.",
        "Free space for a copy of the ledger in the backups folder and make that folder writable.",
    ),
}
