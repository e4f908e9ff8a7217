"""The declarations of ``sections`` as data: the keys, their types, and their descriptions.

``Key.read`` validates every value, whatever its source; ``Key.allowed`` describes the same rule in words, for messages
and the reference. A key has three spellings: its path ``("budget", "pins")``, the dotted ``budget.pins`` that users
see, and the environment variable ``CONTEXTINFINITY_BUDGET__PINS``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct, inspect, structs

from contextinfinity.settings.sections import ModelSettings, Settings

MODELS = "models"
PREFIX = "CONTEXTINFINITY_"
# The names from document D; our own name for the same key takes precedence.
OLDER_VARIABLES = {
    "CONVERSATION_HISTORY_LIMIT": ("retention", "history_limit"),
    "CONVERSATION_TTL_HOURS": ("retention", "conversation_ttl_hours"),
    "CLEANUP_INTERVAL_HOURS": ("retention", "cleanup_interval_hours"),
}
SECRETS = "keys are not allowed in the settings; name the environment variable that holds it with api_key_env"
_LONGEST_IN_A_MESSAGE = 60


class Key(Struct, frozen=True, kw_only=True):
    """One declared setting."""

    name: str
    type: Any
    default: Any
    required: bool
    meaning: str
    allowed: str
    model_or: str | tuple[str, ...] | None
    is_path: bool
    hidden: bool
    tables: type[Struct] | None = None
    """The class that declares the keys of its tables, if it holds tables in a list or by name."""

    def read(self, value: object, *, is_text: bool = False) -> object:
        """Convert a value to the key's type, or raise ``msgspec.ValidationError``.

        ``is_text`` also accepts "12" as a number, "true" as a boolean and JSON as a table: environment variables are
        text.
        """
        try:
            return msgspec.convert(value, self.type, strict=not is_text)
        except (msgspec.ValidationError, UnicodeError) as error:
            if is_text and isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
                return self._from_json(value)
            raise msgspec.ValidationError(str(error)) from error

    def _from_json(self, text: str) -> object:
        try:
            return msgspec.json.decode(text, type=self.type)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise msgspec.ValidationError(str(error)) from error

    def complaint(self, path: str, value: object) -> str:
        """Describe what is wrong with a value, without repeating a secret."""
        what = "has a value that is not repeated here" if self.hidden else f"is {clipped(shown(value))}"
        return f"{path} {what}; it must be {self.allowed}."


def plain(text: object) -> object:
    """Decode the JSON of an environment variable; return other text unchanged."""
    try:
        return msgspec.json.decode(text) if isinstance(text, str) else text
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


@cache
def sections() -> dict[str, tuple[Key, ...]]:
    """Return all sections except ``models`` with their keys, in declaration order."""
    return {name: keys_of(cls) for name, cls in section_classes().items()}


@cache
def section_classes() -> dict[str, type[Struct]]:
    """Return the class that declares each section."""
    return {field.name: field.type for field in structs.fields(Settings) if field.name != MODELS}


@cache
def model_keys() -> tuple[Key, ...]:
    """Return the keys of every [models.NAME]."""
    return keys_of(ModelSettings)


def keys_of(cls: type[Struct]) -> tuple[Key, ...]:
    """Return the keys that a section class declares."""
    return tuple(_key(field) for field in structs.fields(cls))


def _key(field: structs.FieldInfo) -> Key:
    kind = inspect.type_info(field.type)
    notes = _notes(kind)
    return Key(
        name=field.name,
        type=field.type,
        default=_default(field),
        required=field.required,
        meaning=notes["description"],
        allowed=notes.get("form") or _in_words(kind),
        model_or=notes.get("model_or"),
        is_path=notes.get("path", False),
        hidden=notes.get("hidden", False),
        tables=_tables(kind),
    )


def _default(field: structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.required else field.default


def _tables(kind: inspect.Type) -> type[Struct] | None:
    match kind:
        case inspect.Metadata():
            return _tables(kind.type)
        case inspect.VarTupleType(item_type=inspect.StructType(cls=cls)):
            return cls
        case inspect.DictType(value_type=inspect.StructType(cls=cls)):
            return cls
    return None


def _notes(kind: inspect.Type) -> dict[str, Any]:
    """Collect the ``Meta`` notes at any depth: those of an optional key are one level down."""
    match kind:
        case inspect.Metadata():
            return {**_notes(kind.type), **(kind.extra_json_schema or {}), **(kind.extra or {})}
        case inspect.UnionType():
            return {name: note for part in kind.types for name, note in _notes(part).items()}
        case _:
            return {}


def _in_words(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata():
            return _in_words(kind.type)
        case inspect.UnionType():
            return alternatives(_in_words(part) for part in kind.types if not isinstance(part, inspect.NoneType))
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"an integer {_range(kind)}"
        case inspect.FloatType():
            return f"a number {_range(kind)}"
        case inspect.LiteralType():
            return alternatives(f'"{choice}"' for choice in kind.values)
    raise TypeError(f"a setting of {kind} needs a description")


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.gt is not None:
        return f"above {kind.gt:,} and up to {kind.le:,}"
    return f"from {kind.ge:,} to {kind.le:,}"


def alternatives(words: Iterable[str]) -> str:
    """Join words as ``a, b or c``."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def dotted(*path: str) -> str:
    """Return the dotted form of a key; parts are quoted where TOML requires it."""
    return ".".join(part if re.fullmatch(r"[\w-]+", part, re.ASCII) else shown(part) for part in path)


def variable(*path: str) -> str:
    """Return the environment variable of a key; characters that are not allowed become underscores."""
    return PREFIX + "__".join(re.sub(r"[^A-Z0-9]", "_", part.upper()) for part in path)


def shown(value: object) -> str:
    """Format a value as TOML in one line, with passwords masked."""
    match value:
        case None:
            return "not set"
        case bool():
            return "true" if value else "false"
        case str():
            # An environment variable may contain bytes that are not valid UTF-8.
            text = value.encode("utf-8", "backslashreplace").decode()
            return json.dumps(masked(text), ensure_ascii=False)
        case dict():
            return "a table"
        case list() | tuple():
            return "an array"
        case int() if value.bit_length() > 256:  # Python limits the length of printed integers
            return "a number of more than 70 digits"
        case _:
            return str(value)


def clipped(text: str) -> str:
    """Cut a text to the maximum length in a message."""
    return text if len(text) <= _LONGEST_IN_A_MESSAGE else f"{text[: _LONGEST_IN_A_MESSAGE - 1]}…"


def masked(text: str) -> str:
    """Mask the password in a URL; rather mask too much than too little."""
    text = re.sub(r"(://[^:/?#]*:).*@", r"\1***@", text, flags=re.DOTALL)
    return re.sub(r"([?&][^=&]*password=)[^&]*", r"\1***", text)


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return the name that was probably meant, if any."""
    return get_close_matches(clipped(name), list(names), n=1)


def looks_secret(name: str) -> bool:
    """Return whether a key of this name would hold a secret."""
    return re.sub(r"[^a-z]", "", name.lower()).endswith("apikey")
