"""Binds operations to a database: each resource of the ``Store`` contract is a class whose methods run functions.

An operation is a function whose first parameter is a ``Connection``, so that several can share a transaction.
``reads``, ``looks`` and ``writes`` turn it into a method that runs it in a separate transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from copy import copy
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from contextinfinity.storage.database import Connection, Database

P = ParamSpec("P")
T = TypeVar("T")


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
