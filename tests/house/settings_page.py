"""Generate the reference page of all settings from the declarations."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from msgspec import Struct

from contextinfinity.settings.keys import (
    MODELS,
    OLDER_VARIABLES,
    Key,
    dotted,
    keys_of,
    section_classes,
    shown,
    variable,
)
from contextinfinity.settings.sections import ModelSettings

_OPENING = """\
# Configuration

<!-- Made by `python -m tests.house.pages`; change the declarations, not this page. -->

No setting is required: every setting below has a default. `cix config` shows the values in effect and the source of
each.

**The file** is `config.toml`, in TOML. The first of these is used: the path given with `--config`, the path in
`$CONTEXTINFINITY_CONFIG`, `config.toml` in the data folder. The data folder is taken from `--data-dir`, else from the
environment, else from the file, else it is the default.

**The environment** takes precedence over the file. The variable of a key is `CONTEXTINFINITY_SECTION__KEY`, with
two underscores between section and key, as in
`{example}`; the variable of a model's key is
`CONTEXTINFINITY_MODELS__NAME__KEY`, where every character of the name that is not a letter or digit becomes an
underscore. An empty variable is treated as not set. Three settings may also be set by an older variable name:

{older}

**Invalid settings are errors**: an unknown section, key or variable, a value of the wrong type or out of range. The
message names the file, the line, the key, the value and the allowed values.

**Paths** may begin with `~`. A relative path is relative to the folder of the file, or to the current folder if it
is set in a variable.

**Models** have names that you choose. Two are predefined: `built-in` is a small demonstration model, whose weights
`cix model get` downloads and which never writes summaries, memories or rewrites; `offline` means rules without a model.

**API keys** are not allowed here. Name the environment variable that holds a key with `api_key_env`.
"""


def reference() -> str:
    """Return the page in Markdown."""
    older = "\n".join(f"- `{name}` for `{dotted(*path)}`" for name, path in OLDER_VARIABLES.items())
    parts = [_OPENING.format(example=variable("budget", "safety_margin_tokens"), older=older)]
    for name, cls in section_classes().items():
        parts.append("\n".join(_section(name, cls)))
    parts.append("\n".join(_section(f"{MODELS}.NAME", ModelSettings)))
    return "\n".join(parts)


def _section(name: str, cls: type[Struct], level: str = "##") -> Iterator[str]:
    yield f"{level} {name if level == '###' else f'[{name}]'}\n"
    yield f"{inspect.getdoc(cls)}\n"
    keys = keys_of(cls)
    yield "| key | default | allowed | meaning |"
    yield "| --- | --- | --- | --- |"
    for key in keys:
        yield f"| `{key.name}` | {_default(key)} | {key.allowed} | {key.meaning} |"
    yield ""
    for declared in dict.fromkeys(key.tables for key in keys if key.tables):
        headers = [_header(name, key) for key in keys if key.tables is declared]
        yield from _section(" · ".join(headers), declared, level="###")


def _header(section: str, key: Key) -> str:
    return f"[[{section}.{key.name}]]" if isinstance(key.default, tuple) else f"[{section}.{key.name}.NAME]"


def _default(key: Key) -> str:
    if key.required:
        return "must be given"
    return "not set" if key.default is None else "none" if key.default in ((), {}) else f"`{shown(key.default)}`"
