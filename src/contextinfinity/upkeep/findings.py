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

_RESTORE = "Restore the newest backup that is well; `cix show ID --json` saves what can still be read."
_DERIVED = "Nothing that was said is affected: `cix reindex` rebuilds it."


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


def _lost(one: str, many: str) -> FindingKind:
    return FindingKind("broken", one, many, _RESTORE)


KINDS: dict[str, FindingKind] = {
    # The file as such.
    "ledger_foreign": _lost("The file is not a ledger, or it is encrypted.", "{} files are not ledgers."),
    "ledger_too_new": FindingKind(
        "broken",
        "The ledger was written by a newer release.",
        "{} ledgers were written by a newer release.",
        "Upgrade ContextInfinity; the file was left as it is.",
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
        "There is no ledger, but there is something that a ledger left behind.",
        "There is no ledger, but there are {} things that a ledger left behind.",
        "Check storage.url and whether its disk is there; or copy a backup to the ledger's place.",
    ),
    "ledger_lost": FindingKind(
        "broken",
        "The ledger is missing, empty, or not the one that was here.",
        "The ledger is missing, empty, or not the one that was here.",
        "Put the file back, or copy a backup to its place while nothing runs; to go on with what is there now, or with "
        "an empty ledger, start once with --begin-new.",
    ),
    "file_damaged": _lost("SQLite finds the file damaged.", "SQLite finds the file damaged in {} places."),
    "schema_tables": _lost(
        "A table is not as the migrations make it.", "{} tables are not as the migrations make them."
    ),
    "schema_derived": FindingKind(
        "broken",
        "An index, view or trigger is missing or differs.",
        "{} indexes, views or triggers are missing or differ.",
        "If a repair leaves it, rows contradict it: mend what else is found first.",
        "Makes indexes, views and triggers as the migrations do.",
    ),
    "schema_foreign": FindingKind(
        "warning",
        "The ledger holds something that is not ours.",
        "The ledger holds {} things that are not ours.",
        "Drop it if you did not put it there yourself.",
    ),
    "schema_older": FindingKind(
        "warning",
        "The ledger has the schema of an older release; its contents were not looked at.",
        "{} ledgers have the schema of an older release.",
        "The next start brings it up to date; then run `cix doctor` again.",
        "Brings the ledger to the schema of this release.",
    ),
    "schema_gap": _lost("A migration was passed over.", "{} migrations were passed over."),
    "id_length": _lost("An id does not have 16 bytes.", "{} ids do not have 16 bytes."),
    # What was said.
    "message_hash": _lost("A message is not what its hash says.", "{} messages are not what their hashes say."),
    "text_hash": _lost(
        "A summary, system text or list of pins is not what its hash says.",
        "{} summaries, system texts or lists of pins are not what their hashes say.",
    ),
    "blob_hash": _lost("A blob is not what its hash says.", "{} blobs are not what their hashes say."),
    "blob_lost": _lost(
        "A message shows a blob that is lost, or not noted to be in use.",
        "Messages show {} blobs that are lost, or not noted to be in use.",
    ),
    "content_unreadable": _lost(
        "A plan, step, error, metadata, fold candidate or list of pins cannot be read.",
        "{} plans, parts of steps, errors, metadata, fold candidates or lists of pins cannot be read.",
    ),
    "response_unreadable": _lost("A raw reply cannot be unpacked.", "{} raw replies cannot be unpacked."),
    "chunk_hash": FindingKind(
        "broken",
        "A chunk is not what its hash says.",
        "{} chunks are not what their hashes say.",
        "If its message is well too, `cix reindex` rebuilds it; else restore a backup.",
    ),
    # Branches and their states.
    "head_missing": _lost("The head of a branch is lost.", "The heads of {} branches are lost."),
    "head_number": _lost(
        "A branch gives its head another number than it has.", "{} branches give their heads other numbers."
    ),
    "head_foreign": _lost("The head of a branch is not its own.", "The heads of {} branches are not their own."),
    "head_behind": _lost("A branch has states after its head.", "{} branches have states after their heads."),
    "base_missing": _lost(
        "The state that a branch starts from is lost.", "The states that {} branches start from are lost."
    ),
    "parent_missing": _lost(
        "The branch that a branch comes from is lost, too short, or begins later.",
        "The branches that {} branches come from are lost, too short, or begin later.",
    ),
    "branch_circle": _lost("A branch is its own ancestor.", "{} branches are their own ancestors."),
    "active_branch_missing": _lost(
        "The active branch of a session is lost.", "The active branches of {} sessions are lost."
    ),
    "turn_gap": _lost("A branch has a gap in its turns.", "There are {} gaps in the turns of branches."),
    "state_gap": _lost(
        "A state does not follow from the one before it.", "{} states do not follow from those before them."
    ),
    "covers_too_far": _lost("A state covers turns that are not there.", "{} states cover turns that are not there."),
    "state_back": _lost("A state goes back behind the one before it.", "{} states go back behind those before them."),
    "state_orphan": _lost(
        "A state has lost its branch or the state before it.",
        "{} states have lost their branch or the state before them.",
    ),
    "state_without_text": _lost(
        "A state has lost its summary or its pins.", "{} states have lost their summaries or pins."
    ),
    # Turns and what belongs to them.
    "turn_phase": _lost("A turn is in a phase it cannot be in.", "{} turns are in phases they cannot be in."),
    "turns_open": FindingKind(
        "broken",
        "On a branch more than one turn is being answered.",
        "On {} branches more than one turn is being answered.",
        "End all processes that use the ledger and start one: recovery ends the turns that nobody answers.",
    ),
    "turn_without_step": _lost(
        "A turn is being answered without a step.", "{} turns are being answered without a step."
    ),
    "turn_without_owner": _lost("A turn is being answered by nobody.", "{} turns are being answered by nobody."),
    "turn_without_outcome": _lost(
        "A turn has an answer and does not say how it ended.", "{} turns have answers and do not say how they ended."
    ),
    "turn_without_message": _lost(
        "A turn has lost its question or its answer.", "{} turns have lost their question or answer."
    ),
    "turn_without_state": _lost("A turn has lost its state.", "{} turns have lost their states."),
    "turn_without_branch": _lost("A turn has lost its branch.", "{} turns have lost their branch."),
    "commit_foreign": _lost(
        "A turn was committed by a state that is not its own.",
        "{} turns were committed by states that are not their own.",
    ),
    "message_role": _lost(
        "A question or answer was said by the wrong side.", "The questions or answers of {} turns have the wrong side."
    ),
    "message_shared": _lost("A message is used more than once.", "{} messages are used more than once."),
    "message_orphan": _lost("A message has lost its session.", "{} messages have lost their sessions."),
    "message_unused": FindingKind(
        "warning",
        "A message belongs to no turn.",
        "{} messages belong to no turn.",
        "It harms nothing, but its turn may be lost: see what else is found.",
    ),
    "step_orphan": _lost("A step has lost its turn or its plan.", "{} steps have lost their turn or plan."),
    "plan_orphan": _lost("A plan has lost its turn or its step.", "{} plans have lost their turn or step."),
    "response_orphan": _lost("A raw reply has lost its step.", "{} raw replies have lost their step."),
    "chunk_orphan": FindingKind(
        "broken", "A chunk has lost its message.", "{} chunks have lost their messages.", _DERIVED
    ),
    "vector_orphan": FindingKind(
        "broken", "A vector has lost its chunk.", "{} vectors have lost their chunks.", _DERIVED
    ),
    "vector_size": FindingKind("broken", "A vector has the wrong size.", "{} vectors have the wrong size.", _DERIVED),
    "keyword_missing": FindingKind(
        "warning",
        "A turn is not found by its words.",
        "{} turns are not found by their words.",
        _DERIVED,
        "Puts the turns among those that are to be cut; their words come with it.",
    ),
    "keyword_orphan": FindingKind(
        "warning", "Words have lost their message.", "{} words have lost their message.", _DERIVED
    ),
    "keyword_count": FindingKind(
        "warning",
        "The index counts itself wrong.",
        "The index counts itself wrong in {} ways.",
        "It only tells how far the index goes.",
        "Counts the index again.",
    ),
    "blob_use_orphan": _lost(
        "A note that a message shows a blob has lost the message.",
        "{} notes that a message shows a blob have lost the message.",
    ),
    "reference_broken": _lost("A row refers to one that is lost.", "{} rows refer to ones that are lost."),
    "deletion_left": FindingKind(
        "warning",
        "A deletion was begun more than a day ago and never ended.",
        "{} deletions were begun more than a day ago and never ended.",
        "While it stands, nothing guards what was said in its session: delete the session again.",
    ),
    # Work.
    "job_orphan": _lost("A job has lost its branch or turn.", "{} jobs have lost their branch or turn."),
    "job_foreign": _lost(
        "A job is on another branch than its turn.", "{} jobs are on other branches than their turns."
    ),
    "job_failed": FindingKind(
        "warning",
        "A job was given up.",
        "{} jobs were given up.",
        "See its error, mend the cause, then repair: it is tried again.",
        "Queues jobs that were given up again.",
    ),
    "job_stuck": FindingKind(
        "info",
        "A job is run by nobody.",
        "{} jobs are run by nobody.",
        "Nothing: the next start of an engine takes it over.",
        "Queues jobs of dead workers again.",
    ),
    "job_missing": FindingKind(
        "broken",
        "A turn waits for a job that is not there.",
        "Turns wait for {} jobs that are not there.",
        "Without it the turn stays as it is for ever.",
        "Queues the jobs that turns wait for.",
    ),
    "job_needless": FindingKind(
        "warning",
        "A job waits for a turn that has no use for it.",
        "{} jobs wait for turns that have no use for them.",
        "It would fail, and harm nothing.",
        "Removes jobs that turns have no use for.",
    ),
    "worker_dead": FindingKind(
        "info",
        "A worker is registered and dead.",
        "{} workers are registered and dead.",
        "Nothing: the next start of an engine removes it and finishes its turns.",
        "Removes dead workers; their unfinished turns are left to recovery.",
    ),
    "lock_stray": FindingKind(
        "warning",
        "A lock belongs to no worker.",
        "{} locks belong to no worker.",
        "A process died while it started; it harms nothing.",
        "Removes locks that nobody holds and no worker has.",
    ),
    # What waits for the ledger.
    "spool_waiting": FindingKind(
        "warning",
        "What was said while the ledger was away waits to be written into it.",
        "What was said in {} processes while the ledger was away waits to be written into it.",
        "The next start of an engine brings it in: `cix sessions` is enough.",
    ),
    "spool_refused": FindingKind(
        "broken",
        "The ledger did not take all that was said while it was away.",
        "The ledger did not take all that was said in {} processes while it was away.",
        "Its last line says why, the others hold what was said. Remove the file when it is not needed.",
    ),
    # Streams.
    "journal_torn": FindingKind(
        "warning",
        "A journal ends in the middle of a line.",
        "{} journals end in the middle of a line.",
        "A crash tore it; what stands before is whole.",
        "Keeps a copy in backups and cuts off what is torn.",
    ),
    "journal_stray": FindingKind(
        "warning",
        "A journal is of no step.",
        "{} journals are of no step.",
        "Its step is not in this ledger: another ledger's, or lost.",
        "Moves journals of no step to backups.",
    ),
    "journal_unfinished": FindingKind(
        "warning",
        "A journal has no end, though its step is over.",
        "{} journals have no end, though their steps are over.",
        "The ledger has the answer; the journal would never be removed.",
        "Moves journals of steps that are over to backups.",
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
        "The settings cannot be followed; the defaults were used instead.",
        "The settings cannot be followed; the defaults were used instead.",
        "Mend the file or the environment; `cix config` shows what is in force.",
    ),
    "data_dir_unusable": FindingKind(
        "broken",
        "The data_dir is not a folder.",
        "{} folders are no folders.",
        "Move away what stands in its place, or choose another data_dir.",
    ),
    "permissions_open": FindingKind(
        "warning",
        "A file or folder can be read by other users.",
        "{} files or folders can be read by other users.",
        "Only their owner should have access to them.",
        "Takes access away from everybody but the owner.",
    ),
    "disk_low": FindingKind(
        "warning",
        "There is little room on the disk.",
        "There is little room on {} disks.",
        "Free some room: a full disk stops every conversation.",
    ),
    "backup_damaged": FindingKind(
        "warning",
        "A backup is not a whole ledger.",
        "{} backups are not whole ledgers.",
        "Do not rely on it; delete it and make a new one.",
    ),
    "backup_partial": FindingKind(
        "warning",
        "A backup was never finished.",
        "{} backups were never finished.",
        "Whoever made it was stopped; it is of no use.",
        "Removes unfinished backups that nobody works on.",
    ),
    "backup_failed": FindingKind(
        "broken",
        "No backup could be made, so nothing was repaired.",
        "No backup could be made, so nothing was repaired.",
        "Make room for a copy of the ledger in the backups folder and make that folder writable.",
    ),
}
