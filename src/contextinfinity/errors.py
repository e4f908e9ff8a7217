"""Everything that can go wrong, as one tree.

    ContextInfinityError
    ├── SettingsError          config.toml or the environment says something we cannot follow
    ├── InvalidInput           the caller's values break a rule: text that is no text, a name too long
    │   ├── FileRefused        a file that must not be read: outside the root, binary, too large
    │   ├── TooLarge           more than a server takes
    │   ├── TooSlow            a request that took too long to arrive
    │   └── WrongForm          a request in a form that a server does not read
    ├── AccessDenied           who asks may not
    │   ├── TokenNeeded        no token, or one that is not valid
    │   └── NotYours           the token stands for somebody else
    ├── NotFound               no session, branch, turn or state of that id
    │   └── Gone               it was there, and was deleted
    ├── Refused                well formed, but not possible as things stand
    │   ├── AlreadyExists      that id or external id is taken
    │   ├── KeyReused          that key named another request before
    │   ├── TooMany            more requests or streams at once than a user may have
    │   ├── Ending             the server is about to end
    │   ├── QueueFull          too many messages wait on this branch
    │   ├── BranchBusy         another turn of this branch is being answered
    │   ├── WrongPhase         the turn's phase does not allow this step
    │   ├── TurnLost           another worker owns the turn by now; what we wanted to write was discarded
    │   ├── JobLost            another worker has the job by now; its end was discarded
    │   ├── WorkerLost         this worker was declared dead while it slept
    │   ├── HeadMoved          the branch head is no longer the state the caller built on
    │   └── OutOfOrder         an earlier turn of the branch has to be committed first
    ├── ServerAway             a server cannot be reached, or is none of ours
    ├── ProviderError          a model could not answer; ``kind`` says how it failed
    └── LedgerError            the store itself cannot go on
        ├── LedgerBusy         another process held the write lock for too long
        ├── LedgerFull         no room on the disk
        ├── LedgerReadOnly     the file or folder cannot be written
        ├── LedgerForeign      the file is not one of ours
        ├── LedgerTooNew       written by a newer release
        ├── LedgerCorrupt      the file is damaged
        ├── LedgerLost         it is missing, empty or another one
        ├── EncryptionKeyMissing  the folder is encrypted, and its key is not where it should be
        ├── EncryptionKeyWrong  the folder is encrypted with another key
        ├── LedgerFailed       the disk refused to read or write
        │   └── LedgerUnlocked  another SQLite library in this process dropped the locks and deleted the log
        ├── LedgerAway         it cannot be reached for now, and this cannot be done without it
        ├── SpoolFull          it cannot be reached for now, and no more can be held for it
        └── LedgerClosed       used after it was closed

An error carries three things: a stable ``code`` for programs, a message that says what happened and
where, and a ``hint`` that says what to do about it. ``str(error)`` is the message and the hint.
"""

from __future__ import annotations

from typing import ClassVar


class ContextInfinityError(Exception):
    """Root of the tree: a message for people, a hint, a code for programs."""

    code: ClassVar[str] = "error"
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        super().__init__(f"{message} {self.hint}".rstrip())


class SettingsError(ContextInfinityError):
    """A setting is unknown, of the wrong type or out of range."""

    code = "settings"


class InvalidInput(ContextInfinityError):
    """A value breaks a rule of the domain."""

    code = "invalid_input"


class FileRefused(InvalidInput, ValueError):
    """A file of a workspace must not be read: outside the root, binary, or too large."""

    code = "file_refused"


class TooLarge(InvalidInput):
    """A request or a message is larger than the server takes."""

    code = "too_large"
    default_hint = "Send less at a time, or raise the limit under [server]."


class TooSlow(InvalidInput):
    """A request took too long to arrive."""

    code = "too_slow"
    default_hint = "Send it again, whole and at once."


class WrongForm(InvalidInput):
    """A request comes in a form that the server does not read."""

    code = "wrong_form"


class AccessDenied(ContextInfinityError):
    """Who asks may not."""

    code = "access_denied"


class TokenNeeded(AccessDenied):
    """The request has no token, or one that is not valid."""

    code = "token_needed"
    default_hint = (
        "Send the header `Authorization: Bearer TOKEN`; for `cix --server` set CIX_TOKEN. "
        "`cix token create` on the server's machine creates one."
    )


class NotYours(AccessDenied):
    """The token stands for another user or organisation."""

    code = "not_yours"
    default_hint = "A token of scope app may act for other users of its organisation."


class NotFound(ContextInfinityError):
    """There is nothing of that id."""

    code = "not_found"


class Gone(NotFound):
    """It was there, and was deleted: it does not come back."""

    code = "gone"


class Refused(ContextInfinityError):
    """Well formed, but not possible as things stand."""

    code = "refused"


class AlreadyExists(Refused):
    """That id or external id is taken."""

    code = "already_exists"


class KeyReused(Refused):
    """That key named another request before."""

    code = "key_reused"
    default_hint = "Take a new key for each request; the same one only to send the same request again."


class TooMany(Refused):
    """More requests or streams at once than one user may have; ``retry_after``: seconds to wait."""

    code = "too_many"
    default_hint = "Wait a moment, or raise the limit under [server]."

    def __init__(self, message: str, *, retry_after: float = 1.0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class Ending(Refused):
    """The server is about to end, and the answer is not there yet."""

    code = "ending"
    default_hint = "Ask again in a moment; with the same Idempotency-Key nothing is said twice."


class QueueFull(Refused):
    """Too many messages wait on this branch; ``running`` is the turn they wait for, ``retry_after`` in seconds."""

    code = "queue_full"
    default_hint = "Wait for an answer, or send to another branch."

    def __init__(self, message: str, *, running: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.running = running
        self.retry_after = 1.0


class BranchBusy(Refused):
    """Another turn of this branch is being answered."""

    code = "branch_busy"
    default_hint = "It is answered as soon as the running turn is final."


class WrongPhase(Refused):
    """The turn's phase does not allow this step."""

    code = "wrong_phase"


class TurnLost(Refused):
    """Another worker owns the turn by now; nothing was written."""

    code = "turn_lost"


class JobLost(Refused):
    """Another worker has the job by now, or it is done; nothing was written."""

    code = "job_lost"


class WorkerLost(Refused):
    """This worker was declared dead while it slept; its turns belong to others."""

    code = "worker_lost"
    default_hint = "Enter again as a new worker."


class HeadMoved(Refused):
    """The branch head is no longer the state the caller built on; ``head`` is what it is now."""

    code = "head_moved"
    default_hint = "Read the head again and rebase on it."

    def __init__(self, message: str, *, head: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.head = head


class OutOfOrder(Refused):
    """An earlier turn of the branch has to be committed first."""

    code = "out_of_order"


class ServerAway(ContextInfinityError):
    """A server cannot be reached, or what answers there is none of ours."""

    code = "server_away"
    default_hint = "Start it with `cix serve`, or check the address after --server."


class ProviderError(ContextInfinityError):
    """A model could not answer; ``kind`` says how it failed: ``size``, ``authentication``, ``quota`` and so on.

    ``retryable``: the same request may succeed later; ``retry_after``: the provider asked to wait that many seconds.
    ``window``: of a rejected size, the token limit that the provider named, 0 if it named none; None: nothing was said
    about the model's window. ``upstream``: what the vendor itself said, for clients that know it: status, type, code,
    message, retry_after; of a size rejection of ours: tokens, limit, tools.
    """

    code = "provider"

    def __init__(
        self,
        message: str,
        *,
        kind: str = "provider",
        hint: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.window = window
        self.upstream: dict[str, str | float] = {}
        self.retryable = retryable
        self.retry_after = retry_after


class LedgerError(ContextInfinityError):
    """The store itself cannot go on."""

    code = "ledger"


class LedgerBusy(LedgerError):
    """Another process held the write lock for too long."""

    code = "ledger_busy"
    default_hint = "Nothing was written; try again, or end the process that holds the ledger."


class LedgerFull(LedgerError):
    """There is no room on the disk."""

    code = "ledger_full"
    default_hint = "Nothing was written; free some room and try again."


class LedgerReadOnly(LedgerError):
    """The file or its folder cannot be written."""

    code = "ledger_read_only"
    default_hint = "Make the folder and the file writable for this user, or choose another data_dir."


class LedgerForeign(LedgerError):
    """The file is not one of ours."""

    code = "ledger_foreign"
    default_hint = "Choose another data_dir or storage.url; the file was left as it is."


class LedgerTooNew(LedgerError):
    """Written by a newer release than this one."""

    code = "ledger_too_new"
    default_hint = "Upgrade ContextInfinity; the file was left as it is."


class LedgerCorrupt(LedgerError):
    """The file is damaged."""

    code = "ledger_corrupt"
    default_hint = "Run `cix doctor`, and restore a backup if it cannot repair the file."


class LedgerLost(LedgerError):
    """The ledger of this data_dir is missing, empty or replaced by another."""

    code = "ledger_lost"
    default_hint = (
        "Run `cix doctor`; put the file back or copy a backup to its place while nothing runs. "
        "To go on with what is there now, or with an empty ledger, use --begin-new once."
    )


class EncryptionKeyMissing(LedgerError):
    """The data_dir is encrypted, and its key cannot be read."""

    code = "encryption_key_missing"
    default_hint = "Provide the key; nothing was changed."


class EncryptionKeyWrong(LedgerError):
    """The data_dir is encrypted with another key than the one that was found."""

    code = "encryption_key_wrong"
    default_hint = (
        "Set CIX_ENCRYPTION_KEY to the key that it was encrypted with, or put that key back to its place. "
        "Nothing was changed."
    )


class LedgerFailed(LedgerError):
    """The disk refused to read or write."""

    code = "ledger_failed"
    # Not "nothing was written": when the flush of a commit fails, a later opening may find the commit in the log.
    default_hint = "Check the disk, then run `cix doctor`; what was being written is there whole or not at all."


class LedgerUnlocked(LedgerFailed):
    """Another SQLite library in this process dropped the locks on the ledger and deleted its log."""

    code = "ledger_unlocked"
    default_hint = (
        "Restart this process: what it holds is written then. Read the ledger from another process, or through "
        "contextinfinity."
    )


class LedgerAway(LedgerError):
    """The ledger cannot be reached for now, and this cannot be done without it."""

    code = "ledger_away"
    default_hint = "Nothing was changed; try again in a moment. Talking goes on meanwhile."


class SpoolFull(LedgerError):
    """The ledger cannot be reached for now, and no more can be held for it."""

    code = "spool_full"
    default_hint = "Nothing was taken on; try again when the ledger is back, or raise storage.spool_mb."


class LedgerClosed(LedgerError):
    """Used after it was closed."""

    code = "ledger_closed"
    default_hint = "Open it again."
