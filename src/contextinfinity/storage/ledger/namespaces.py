"""Vector namespaces, one per embedder, and the chunks that have no vector in them yet."""

from __future__ import annotations

from typing import NamedTuple

from contextinfinity.domain.search import Chunk, Namespace
from contextinfinity.storage.database import Connection
from contextinfinity.storage.invariants import check_namespace, row_limit
from contextinfinity.storage.ledger.chunks import chunk_of
from contextinfinity.storage.ledger.rows import must

_LOOKED_OVER = 1024  # chunks that one write checks to advance the progress mark


class Space(NamedTuple):
    """A row of the namespace table."""

    key: int
    name: str
    dim: int
    state: str
    placed: int
    filled: int
    generation: str | None

    def shown(self) -> Namespace:
        """Return the public form."""
        return Namespace(name=self.name, dim=self.dim, state=self.state, placed=self.placed)  # type: ignore[arg-type]


def spaces(connection: Connection) -> list[Space]:
    """Return all namespaces, the current one first."""
    return [Space(*row) for row in connection.many("select_namespaces")]


def find_space(connection: Connection, name: str) -> Space | None:
    """Return one namespace by name."""
    row = connection.one("select_namespace", (name,))
    return None if row is None else Space(*row)


def must_space(connection: Connection, name: str) -> Space:
    """Return one namespace by name. Raises ``NotFound`` if it is unknown."""
    return must(find_space(connection, name), "namespace", name)  # type: ignore[no-any-return]


def open_space(connection: Connection, name: str, dim: int) -> Space:
    """Return a namespace, creating it if needed; the first is current, an old one is filled again."""
    known = find_space(connection, name)
    check_namespace(name, dim, None if known is None else known.dim)
    if known is None:
        connection.execute("insert_namespace", (name, dim))
    elif known.state == "old":
        connection.execute("refill_namespace", (known.key,))
    else:
        return known
    return must_space(connection, name)


def note_filled(connection: Connection, space: Space) -> None:
    """Advance the progress mark past chunks that have a vector, a bounded number per write."""
    values = {"namespace": space.key, "filled": space.filled, "limit": _LOOKED_OVER}
    filled = space.filled
    for key, has_one in connection.each("select_placed", values):
        if not has_one:
            break
        filled = key
    if filled != space.filled:
        connection.execute("set_filled", {"key": space.key, "filled": filled})


def switch_to(connection: Connection, namespace: str) -> bool:
    """Make a namespace current; return False if a chunk has no vector in it."""
    space = must_space(connection, namespace)
    if connection.one("select_unplaced", {"namespace": space.key, "filled": space.filled, "limit": 1}):
        return False
    connection.execute("retire_namespaces", (space.key,))
    connection.execute("make_current", (space.key,))
    return True


def list_namespaces(connection: Connection) -> tuple[Namespace, ...]:
    """Return all namespaces, the current one first."""
    return tuple(space.shown() for space in spaces(connection))


def open_namespace(connection: Connection, name: str, dim: int) -> Namespace:
    """Return the namespace with that name, creating it if needed."""
    return open_space(connection, name, dim).shown()


def list_unplaced(connection: Connection, namespace: str, *, limit: int = 256) -> tuple[Chunk, ...]:
    """Return chunks without a vector in the namespace, oldest first."""
    space = must_space(connection, namespace)
    values = {"namespace": space.key, "filled": space.filled, "limit": row_limit(limit)}
    found = (chunk_of(connection, chunk_id) for (chunk_id,) in connection.many("select_unplaced", values))
    return tuple(chunk for chunk in found if chunk is not None)
