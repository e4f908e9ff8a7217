"""Strategies for every noun of the domain, drawn from the types themselves.

A new noun, or a new field of an old one, is covered the moment it is written.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from datetime import UTC, timedelta, timezone
from functools import cache
from types import ModuleType
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from contextinfinity import domain

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
MOMENTS = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7)), timezone(timedelta(hours=5.5))]))


def _is_exported(kind: type) -> bool:
    """Records of an export: their bounds are checked where they are read, and their own tests try the round trip."""
    return kind.__module__ == f"{domain.__name__}.transfer" and not kind.__name__.startswith("Import")


def _modules() -> Iterator[ModuleType]:
    for module in pkgutil.iter_modules(domain.__path__, f"{domain.__name__}."):
        yield importlib.import_module(module.name)


def nouns() -> list[type[msgspec.Struct]]:
    """Every public value the domain defines."""
    return [
        kind
        for module in _modules()
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not name.startswith("_")
        if kind.__module__ == module.__name__ and not _is_exported(kind)
    ]


@cache
def values(kind: Any) -> st.SearchStrategy[Any]:
    """Draw values of a type, all of its fields at random."""
    return _drawn(inspect.type_info(kind))


@cache
def _struct(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Draw a struct. Deferred, since a tool result holds blocks, of which it is one."""
    fields = inspect.type_info(kind).fields  # type: ignore[attr-defined]
    return st.builds(kind, **{field.name: _later(field.type) for field in fields})


def _later(info: inspect.Type) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _drawn(info))


def _drawn(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.StructType(cls=kind):
            return _struct(kind)
        case inspect.UnionType(types=types):
            return st.one_of([_drawn(part) for part in types])
        case inspect.VarTupleType(item_type=item):
            return st.lists(_drawn(item), max_size=2).map(tuple)
        case inspect.TupleType(item_types=items):
            return st.tuples(*(_drawn(item) for item in items))
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_drawn(key), _drawn(value), max_size=2)
        case inspect.LiteralType(values=choices):
            return st.sampled_from(choices)
        case inspect.EnumType(cls=choices):
            return st.sampled_from([*choices])
        case _:
            return _PLAIN[type(info)]


_PLAIN: dict[type[inspect.Type], st.SearchStrategy[Any]] = {
    inspect.AnyType: JSON,
    inspect.NoneType: st.none(),
    inspect.BoolType: st.booleans(),
    inspect.IntType: st.integers(),
    inspect.FloatType: st.floats(allow_nan=False, allow_infinity=False),
    inspect.StrType: st.text(max_size=10),
    inspect.BytesType: st.binary(max_size=10),
    inspect.DateTimeType: MOMENTS,
}
