"""The owner for whom the current task uses the storage.

A request of a server acts for one owner; a backend with row-level security shows only that owner's rows. ``NO_OWNER``,
a request before its authentication, sees no rows. None, the default, is maintenance, which reaches all rows:
jobs, recovery, cleanup, the command line. A task inherits the owner of the task that starts it.
"""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context

from contextinfinity.domain.session import Owner

NO_OWNER = Owner(user_id="", org_id="")

_acting: ContextVar[Owner | None] = ContextVar("acting_owner", default=None)


def acting_owner() -> Owner | None:
    """Return the owner for whom this task acts; None: maintenance."""
    return _acting.get()


def act_for(owner: Owner | None) -> None:
    """Act for this owner from now on, in this task and in those that it starts."""
    _acting.set(owner)


def maintenance_context() -> Context:
    """Return the context for a task that a request starts and that works for all owners."""
    context = copy_context()
    context.run(_acting.set, None)
    return context
