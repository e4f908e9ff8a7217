"""The interface between the ledger's operations and a database.

An operation is a plain function over a ``Connection`` and named statements, written once in ``storage/ledger``. A
backend implements ``Database`` (connections, transactions, locking), its dialect of the named statements and
``VectorWrites``. Every call of ``read``, ``look`` or ``write`` is one transaction.

``reads``, ``looks`` and ``writes`` turn an operation into a method of a resource of the ``Store`` contract, which runs
it in a transaction of its own.

A request of a server acts for one owner (``act_for``); a backend with row-level security shows only that owner's rows.
``NO_OWNER``, a request before its authentication, sees no rows. None, the default, is maintenance, which reaches all
rows: jobs, recovery, cleanup, the command line. A task inherits the owner of the task that starts it, so what a request
may start for all owners runs in ``maintenance_context`` or is marked ``for_all_owners``.

Values are what a statement's dialect binds: str, int, float, bytes, None; ids are 16 bytes, times are milliseconds,
lists are JSON text. A statement takes its values by position or by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextvars import Context, ContextVar, copy_context
from copy import copy
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeAlias, TypeVar

from contextinfinity.domain.search import Embedding
from contextinfinity.domain.session import Owner

T = TypeVar("T")

Row: TypeAlias = Any
"""A row as a tuple; the module that calls a statement knows its columns."""

Values: TypeAlias = Sequence[Any] | Mapping[str, Any]


class Connection(Protocol):
    """A connection inside a transaction. It runs statements by name; an unknown name raises ``KeyError``."""

    @property
    def vectors(self) -> VectorWrites:
        """How the backend stores vectors."""
        ...

    @property
    def unindexed(self) -> dict[int, tuple[bytes, str, bool]]:
        """Rows to index before the commit: {row: (session, text, is a new message)}."""
        ...

    def one(self, name: str, values: Values = ()) -> Row | None:
        """Run a statement to its end; return its first row, or None."""
        ...

    def many(self, name: str, values: Values = ()) -> list[Row]:
        """Return all rows."""
        ...

    def each(self, name: str, values: Values = ()) -> Iterator[Row]:
        """Iterate over the rows without reading them all first."""
        ...

    def execute(self, name: str, values: Values = ()) -> None:
        """Run a statement that returns no rows."""
        ...

    def execute_many(self, name: str, rows: Iterable[Values]) -> None:
        """Run a statement that returns no rows once for each of the value sets."""
        ...

    def prefetch(self, *asked: tuple[str, Values]) -> None:
        """Announce statements that are run next, with these values: a remote database needs one round trip for all.

        Each runs when it is announced, or when it is asked for; what happens in between must make no difference.
        """
        ...

    def changes(self) -> int:
        """Return how many rows the last statement inserted, updated or deleted."""
        ...


class VectorWrites(Protocol):
    """Writes of a backend for the vectors of chunks. Both functions run inside the caller's transaction."""

    def put_embeddings(
        self, connection: Connection, session_id: bytes, placed: Iterable[tuple[int, Embedding]], /
    ) -> None:
        """Add the vectors of chunks, by the chunks' keys."""
        ...

    def drop_vectors(self, connection: Connection, chunk_keys: Iterable[int], /) -> None:
        """Delete all vectors of chunks, before the chunks are deleted."""
        ...


class Database(Protocol):
    """Runs ``work(connection)``. An error in ``work`` rolls the transaction back and is raised to the caller."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a read against one snapshot, without blocking the event loop."""
        ...

    async def look(self, work: Callable[[Connection], T]) -> T:
        """Run a small read (a row or a few), on the event loop where the backend can do that."""
        ...

    async def write(self, work: Callable[[Connection], T], *, bulk: bool = False, wipe: bool = False) -> T:
        """Run a write; it is durable when this returns. Pending writes may share one commit (group commit).

        ``bulk``: one of many large writes. ``wipe``: deleted text must not remain in the write-ahead log.
        """
        ...

    async def sweep(self, steps: int) -> bool:
        """Erase the remains of deleted rows, at most this many steps; return whether more can be done now."""
        ...

    async def is_wiped(self) -> bool:
        """Return whether the files contain no deleted text."""
        ...


P = ParamSpec("P")


class StoreResource:
    """The operations of one resource on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def through(self, guard: Callable[[Database], Database]) -> Self:
        """Return this resource on a guarded database."""
        guarded = copy(self)
        guarded._database = guard(self._database)
        return guarded


Verb = Callable[Concatenate[Connection, P], T]
Method = Callable[Concatenate[StoreResource, P], Coroutine[Any, Any, T]]


def reads(verb: Verb[P, T]) -> Method[P, T]:
    """Return a method that runs an operation as a read."""

    @wraps(verb)
    async def method(noun: StoreResource, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await noun._database.read(lambda connection: verb(connection, *args, **kwargs))

    return method


def looks(verb: Verb[P, T]) -> Method[P, T]:
    """Return a method that runs an operation as a small read."""

    @wraps(verb)
    async def method(noun: StoreResource, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await noun._database.look(lambda connection: verb(connection, *args, **kwargs))

    return method


def writes(verb: Verb[P, T], *, bulk: bool = False, wipe: bool = False) -> Method[P, T]:
    """Return a method that runs an operation as a durable write; the options are those of ``Database.write``."""

    @wraps(verb)
    async def method(noun: StoreResource, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await noun._database.write(lambda connection: verb(connection, *args, **kwargs), bulk=bulk, wipe=wipe)

    return method


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


def for_all_owners(work: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a function that works as maintenance, even in a request; its caller goes on for its own owner."""

    @wraps(work)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        before = _acting.set(None)
        try:
            return await work(*args, **kwargs)
        finally:
            _acting.reset(before)

    return run
