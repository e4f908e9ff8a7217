"""Environment variables: ``CONTEXTINFINITY_SECTION__KEY`` for every key, and older names for three.

An empty variable is treated as not set. A variable with our prefix that is no setting is an error, as in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from contextinfinity.settings.keys import (
    MODELS,
    OLDER_VARIABLES,
    PREFIX,
    SECRETS,
    looks_secret,
    model_keys,
    nearest,
    sections,
    variable,
)
from contextinfinity.settings.settings_reader import SettingsReader

_MODEL_PREFIX = variable(MODELS, "")

Known = dict[str, tuple[str, ...]]


def take_environment(reading: SettingsReader, environ: Mapping[str, str], folder: Path) -> None:
    """Pass all our variables to the reader; called after the file, whose models they may change."""
    known = OLDER_VARIABLES | _variables(reading.models)
    older = [name for name in OLDER_VARIABLES if name in environ]
    ours = sorted(name for name in environ if name.startswith(PREFIX))
    for name in older + ours:  # the last value wins
        path = known.get(name) or _new_model(name)
        if path is None:
            _refuse(name, known, reading)
        elif environ[name] and (path[0] != MODELS or _is_one_model(path[1], name, reading)):
            reading.take(path, environ[name], place=name, folder=folder, is_text=True)


def _is_one_model(model: str, name: str, reading: SettingsReader) -> bool:
    twins = [other for other in reading.models if variable(other) == variable(model)]
    if len(twins) > 1:
        reading.complain(name, f"this could mean any of the models {', '.join(twins)}; set it in the file.")
        return False
    return reading.declare_model(model, name)


def _variables(models: Iterable[str]) -> Known:
    paths: list[tuple[str, ...]] = [(section, key.name) for section, keys in sections().items() for key in keys]
    paths += [(MODELS, model, key.name) for model in models for key in model_keys()]
    return {variable(*path): path for path in paths}


def _new_model(name: str) -> tuple[str, ...] | None:
    """Parse MODELS__NAME__KEY of a model that is not in the file."""
    owner, _, key = name.lower().rpartition("__")
    prefix = _MODEL_PREFIX.lower()
    if not owner.startswith(prefix) or all(key != known.name for known in model_keys()):
        return None
    return (MODELS, owner.removeprefix(prefix), key)


def _refuse(name: str, known: Known, reading: SettingsReader) -> None:
    near: str | None
    if "__" in name:
        if looks_secret(name):
            reading.complain(name, f"this is refused: {SECRETS}.")
            return
        ours = {each.removeprefix(PREFIX): each for each in known}  # the common prefix would make all names similar
        near = next((ours[key] for key in nearest(name.removeprefix(PREFIX), ours)), None)
    else:
        # A name with single underscores may belong to another program (Kubernetes makes such names),
        # but a misspelled setting must be reported.
        near = next((ours for ours in known if name in (ours.replace("__", "_"), ours.replace("GENERAL__", ""))), None)
        if near is None:
            return
    reading.complain(name, "there is no such setting" + (f"; did you mean {near}?" if near else "."))
