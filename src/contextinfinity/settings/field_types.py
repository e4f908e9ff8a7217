"""Types that several settings share.

The bounds in the ``Meta`` of a type decide what is accepted; ``extra`` holds the rest:

    form      what is allowed, in words, if a pattern would not be understood
    model_or  the value names a [models.NAME], or is this word or one of these; of a list, each of its values
    path      a relative path starts from the folder of the file it is in
    hidden    never repeat the value in a message: users may paste a key here by mistake
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

BUILT_IN = "built-in"
MINILM = "minilm"
STATIC = "static"
OFFLINE = "offline"
AUTO = "auto"
SQLITE = "sqlite:///"

Tokens = Annotated[int, Meta(ge=0, le=1_000_000)]
Table = Annotated[dict[str, Any], Meta(extra={"form": "a table", "hidden": True})]
Tables = Annotated[tuple[dict[str, Any], ...], Meta(extra={"form": "a list of tables", "hidden": True})]
Text = Annotated[str, Meta(min_length=1, extra={"form": "a string that is not empty"})]
Names = Annotated[tuple[Text, ...], Meta(extra={"form": "a list of names"})]
Patterns = Annotated[tuple[str, ...], Meta(extra={"form": "a list of regular expressions"})]
EntryPoint = Annotated[
    str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", extra={"form": 'a function, written as "module:function"'})
]
Price = Annotated[float, Meta(ge=0, le=1_000_000)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Hours = Annotated[float, Meta(gt=0, le=87_600)]
FilePath = Annotated[str, Meta(pattern=r"^[^\x00]+$", extra={"form": "a path", "path": True})]
EnvironmentName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", extra={"form": "the name of an environment variable", "hidden": True}),
]
ChatModel = Annotated[Text, Meta(extra={"form": f'"{BUILT_IN}" or the NAME of a [models.NAME]', "model_or": BUILT_IN})]
Models = Annotated[
    tuple[Text, ...],
    Meta(extra={"form": f'a list of the NAMEs of [models.NAME], "{BUILT_IN}" among them', "model_or": BUILT_IN}),
]
HelperModel = Annotated[
    Text,
    Meta(
        extra={
            "form": f'"{AUTO}", "{OFFLINE}" or the NAME of a [models.NAME]',
            "model_or": (AUTO, OFFLINE),
        }
    ),
]
WebUrl = Annotated[
    str, Meta(pattern=r"^https?://[^/]", extra={"form": "an address that begins with http:// or https://"})
]
StoreUrl = Annotated[
    str,
    Meta(
        pattern=r"^(sqlite:///|postgresql://)[^\x00]+$",
        extra={"form": "an address that begins with sqlite:/// or postgresql://"},
    ),
]
PostgresUrl = Annotated[
    str, Meta(pattern=r"^postgresql://[^\x00]+$", extra={"form": "an address that begins with postgresql://"})
]
RedisUrl = Annotated[
    str,
    Meta(
        pattern=r"^(redis|rediss|unix)://.",
        extra={"form": "an address that begins with redis://, rediss:// or unix://"},
    ),
]
