"""Everything that can go wrong, as one tree.

    ContextInfinityError
    ├── SettingsError          a setting is unknown, of the wrong type or out of range
    ├── InvalidInput           a value of the caller is not valid: text with a lone surrogate, a name too long
    │   ├── FileRefused        a file that must not be read: outside the root, binary, too large
    │   ├── TooLarge           larger than the server accepts
    │   ├── TooSlow            a request that took too long to arrive
    │   └── WrongForm          a content type or encoding that the server does not support
    ├── AccessDenied           the caller has no permission
    │   ├── TokenNeeded        no token, or one that is not valid
    │   └── NotYours           the token belongs to another user or organisation
    ├── NotFound               no session, branch, turn or state of that id
    │   └── Gone               it existed and was deleted
    ├── Refused                a conflict with the current state
    │   ├── AlreadyExists      the id or external id is in use
    │   ├── KeyReused          the idempotency key was used for another request
    │   ├── TooMany            the rate limit or the limit of open streams is reached
    │   │   └── SpendingLimitReached  models may cost this user no more today or this month
    │   ├── Ending             the server is shutting down
    │   ├── QueueFull          too many messages wait on this branch
    │   ├── BranchBusy         another turn of this branch is being answered
    │   ├── WrongPhase         the turn's phase does not allow this step
    │   ├── TurnLost           another worker owns the turn; the write was discarded
    │   ├── JobLost            another worker owns the job; the result was discarded
    │   ├── WorkerLost         this worker missed its heartbeats and was declared dead
    │   ├── HeadMoved          the branch head is no longer the state the caller built on
    │   └── OutOfOrder         an earlier turn of the branch must be committed first
    ├── ServerAway             a server cannot be reached, or is not a ContextInfinity server
    ├── ProviderError          a model could not answer; ``kind`` says how it failed
    └── LedgerError            the ledger is not usable
        ├── LedgerBusy         another process held the write lock for too long
        ├── LedgerFull         the disk is full
        ├── LedgerReadOnly     the file or folder cannot be written
        ├── LedgerForeign      the file is not a ledger
        ├── LedgerTooNew       written by a newer release
        ├── LedgerCorrupt      the file is damaged
        ├── LedgerLost         it is missing, empty or replaced by another
        ├── EncryptionKeyMissing  the folder is encrypted, and its key cannot be read
        ├── EncryptionKeyWrong  the folder is encrypted with another key
        ├── LedgerFailed       reading or writing failed (an I/O error)
        │   └── LedgerUnlocked  another SQLite library in this process dropped the locks and deleted the log
        ├── LedgerAway         it is unavailable, and the operation needs it
        ├── SpoolFull          it is unavailable, and its spool is full
        └── LedgerClosed       used after it was closed

An error carries three things: a stable ``code`` for programs, a message that says what happened and
where, and a ``hint`` that says what to do about it. ``str(error)`` is the message and the hint.
"""

from __future__ import annotations

from typing import ClassVar


class ContextInfinityError(Exception):
    """Root of the tree: a message, a hint for the user and a stable code for programs."""

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
    """A value of the caller is not valid."""

    code = "invalid_input"


class FileRefused(InvalidInput, ValueError):
    """A workspace file cannot be read: outside the root, binary, or too large."""

    code = "file_refused"


class TooLarge(InvalidInput):
    """A request or a message is larger than the server accepts."""

    code = "too_large"
    default_hint = "Send less at a time, or raise the limit under [server]."


class TooSlow(InvalidInput):
    """A request took too long to arrive."""

    code = "too_slow"
    default_hint = "Send the complete request again without pauses."


class WrongForm(InvalidInput):
    """The content type or encoding of a request is not supported."""

    code = "wrong_form"


class AccessDenied(ContextInfinityError):
    """The caller has no permission."""

    code = "access_denied"


class TokenNeeded(AccessDenied):
    """The request has no token, or one that is not valid."""

    code = "token_needed"
    default_hint = (
        "Send the header `Authorization: Bearer TOKEN`; for `cix --server` set CIX_TOKEN. "
        "`cix token create` on the server's machine creates one."
    )


class NotYours(AccessDenied):
    """The token belongs to another user or organisation."""

    code = "not_yours"
    default_hint = "A token of scope app may act for other users of its organisation."


class NotFound(ContextInfinityError):
    """There is no object with that id."""

    code = "not_found"


class Gone(NotFound):
    """The object existed and was deleted."""

    code = "gone"


class Refused(ContextInfinityError):
    """The request conflicts with the current state."""

    code = "refused"


class AlreadyExists(Refused):
    """The id or external id is in use."""

    code = "already_exists"


class KeyReused(Refused):
    """The idempotency key was used for another request."""

    code = "key_reused"
    default_hint = "Use a new key for each request; repeat a key only to repeat the same request."


class TooMany(Refused):
    """The rate limit or the limit of open streams is reached; ``retry_after``: seconds to wait."""

    code = "too_many"
    default_hint = "Wait a moment, or raise the limit under [server]."

    def __init__(self, message: str, *, retry_after: float = 1.0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class SpendingLimitReached(TooMany):
    """Models may cost this user no more today or this month."""

    code = "spending_limit"
    default_hint = "Wait for the next day or month (UTC), or raise the limit under [general]."


class Ending(Refused):
    """The server is shutting down before the answer is complete."""

    code = "ending"
    default_hint = "Send it again in a moment; with the same Idempotency-Key it is processed once."


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
    """Another worker owns the turn; nothing was written."""

    code = "turn_lost"


class JobLost(Refused):
    """Another worker owns the job, or it is done; nothing was written."""

    code = "job_lost"


class WorkerLost(Refused):
    """This worker missed its heartbeats and was declared dead; other workers own its turns."""

    code = "worker_lost"
    default_hint = "Register again as a new worker."


class HeadMoved(Refused):
    """The branch head is no longer the state the caller built on; ``head`` is what it is now."""

    code = "head_moved"
    default_hint = "Read the head again and rebase on it."

    def __init__(self, message: str, *, head: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.head = head


class OutOfOrder(Refused):
    """An earlier turn of the branch must be committed first."""

    code = "out_of_order"


class ServerAway(ContextInfinityError):
    """A server cannot be reached, or is not a ContextInfinity server."""

    code = "server_away"
    default_hint = "Start it with `cix serve`, or check the address after --server."


class ProviderError(ContextInfinityError):
    """A model could not answer; ``kind`` says how it failed: ``size``, ``authentication``, ``quota`` and so on.

    ``retryable``: the same request may succeed later; ``retry_after``: the provider asked to wait that many seconds.
    ``window``: of a rejected size, the token limit that the provider named, 0 if it named none; None: the error is
    not about the window. ``upstream``: the vendor's own error, for clients that know its format: status, type, code,
    param, message, retry_after; for a size limit of this engine: tokens, limit, tools.
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
        self.upstream: dict[str, str | float | None] = {}
        self.retryable = retryable
        self.retry_after = retry_after


class LedgerError(ContextInfinityError):
    """The ledger is not usable."""

    code = "ledger"


class LedgerBusy(LedgerError):
    """Another process held the write lock for too long."""

    code = "ledger_busy"
    default_hint = "Nothing was written; try again, or end the process that holds the ledger."


class LedgerFull(LedgerError):
    """The disk is full."""

    code = "ledger_full"
    default_hint = "Nothing was written; free some disk space and try again."


class LedgerReadOnly(LedgerError):
    """The file or its folder cannot be written."""

    code = "ledger_read_only"
    default_hint = "Make the folder and the file writable for this user, or choose another data_dir."


class LedgerForeign(LedgerError):
    """The file is not a ledger."""

    code = "ledger_foreign"
    default_hint = "Choose another data_dir or storage.url; the file was left as it is."


class LedgerTooNew(LedgerError):
    """Written by a newer release than this one."""

    code = "ledger_too_new"
    default_hint = "Upgrade ContextInfinity; the file was not changed."


class LedgerCorrupt(LedgerError):
    """The file is damaged."""

    code = "ledger_corrupt"
    default_hint = "Run `cix doctor`, and restore a backup if it cannot repair the file."


class LedgerLost(LedgerError):
    """The ledger of this data_dir is missing, empty or replaced by another."""

    code = "ledger_lost"
    default_hint = (
        "Run `cix doctor`; put the file back or copy a backup to its place while nothing runs. "
        "To continue with the current file, or with an empty ledger, use --begin-new once."
    )


class EncryptionKeyMissing(LedgerError):
    """The data_dir is encrypted, and its key cannot be read."""

    code = "encryption_key_missing"
    default_hint = "Provide the key; nothing was changed."


class EncryptionKeyWrong(LedgerError):
    """The data_dir is encrypted with another key than the one that was found."""

    code = "encryption_key_wrong"
    default_hint = (
        "Set CIX_ENCRYPTION_KEY to the key that it was encrypted with, or put that key back in its place. "
        "Nothing was changed."
    )


class LedgerFailed(LedgerError):
    """Reading or writing the ledger failed with an I/O error."""

    code = "ledger_failed"
    # Not "nothing was written": when the flush of a commit fails, a later opening may find the commit in the log.
    default_hint = "Check the disk, then run `cix doctor`; the interrupted write is either complete or absent."


class LedgerUnlocked(LedgerFailed):
    """Another SQLite library in this process dropped the locks on the ledger and deleted its log."""

    code = "ledger_unlocked"
    default_hint = (
        "Restart this process to write what it holds in memory. Read the ledger from another process, or through "
        "contextinfinity."
    )


class LedgerAway(LedgerError):
    """The ledger is unavailable, and the operation needs it."""

    code = "ledger_away"
    default_hint = "Nothing was changed; try again in a moment. Conversations continue meanwhile."


class SpoolFull(LedgerError):
    """The ledger is unavailable, and its spool is full."""

    code = "spool_full"
    default_hint = "The message was not accepted; try again when the ledger is back, or raise storage.spool_mb."


class LedgerClosed(LedgerError):
    """The ledger was used after it was closed."""

    code = "ledger_closed"
    default_hint = "Open it again."
