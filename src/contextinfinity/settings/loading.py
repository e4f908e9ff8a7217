"""Load the ``Settings`` from a file and the environment, or raise one error that lists every problem.

Precedence: explicit argument > environment variable > config.toml > default.

Environment variables are ``CONTEXTINFINITY_SECTION__KEY`` for every key, and older names for three. An empty variable
is treated as not set. A variable with our prefix that is no setting is an error, as in the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from contextinfinity.errors import SettingsError
from contextinfinity.settings.config_file import ConfigFile, read_config_file, take_file
from contextinfinity.settings.keys import (
    MODELS,
    OLDER_VARIABLES,
    PREFIX,
    SECRETS,
    dotted,
    looks_secret,
    model_keys,
    nearest,
    sections,
    variable,
)
from contextinfinity.settings.sections import General, Settings, whole_path
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


CONFIG_VARIABLE = "CONTEXTINFINITY_CONFIG"
CONFIG_NAME = "config.toml"


class LoadedSettings(Struct, frozen=True, kw_only=True):
    """The settings, the file that was read, and the source of every value."""

    settings: Settings
    file: Path | None
    sources: dict[str, str]

    def effective(self) -> Iterator[tuple[str, object, str]]:
        """Yield every dotted key with its effective value and source, by section."""
        for path in _paths(self.settings):
            value: object = self.settings
            for part in path:
                value = value[part] if isinstance(value, dict) else getattr(value, part)
            if path == ("storage", "url"):
                value = self.settings.ledger_url
            yield dotted(*path), value, self.sources[dotted(*path)]


def load_settings(
    config: Path | None = None, data_dir: Path | None = None, environ: Mapping[str, str] | None = None
) -> LoadedSettings:
    """Load the settings from ``config``, else from the file named in the environment, else from the one in data_dir.

    Raises ``SettingsError`` with one line per problem. Only the file in data_dir may be missing.
    """
    environ = os.environ if environ is None else environ
    here = Path.cwd()
    file = _find_file(config, data_dir, environ, here)
    reading = SettingsReader()
    if file is not None:
        take_file(reading, file)
    take_environment(reading, environ, here)
    if data_dir is not None:
        reading.take(("general", "data_dir"), str(data_dir), place="--data-dir", folder=here)
    elif "general.data_dir" not in reading.places:
        reading.values["general"]["data_dir"] = str(whole_path(General().data_dir, here))
    if (place := reading.places.get("openai.store")) and "openai.client_store" not in reading.places:
        # Who writes store = false means every request; the default leaves it to clients.
        stored = reading.values["openai"].get("store") is not False
        reading.take(("openai", "client_store"), stored, place=place, folder=here)
    reading.check_together()
    if problems := reading.problems():
        raise SettingsError("\n".join(problems))
    settings = reading.settings()
    return LoadedSettings(
        settings=settings, file=file.path if file else None, sources=_sources(settings, reading, file)
    )


def _find_file(config: Path | None, data_dir: Path | None, environ: Mapping[str, str], here: Path) -> ConfigFile | None:
    named = config or environ.get(CONFIG_VARIABLE)
    if not named:
        folder = data_dir or environ.get(variable("general", "data_dir")) or General().data_dir
        return read_config_file(whole_path(folder, here) / CONFIG_NAME)
    path = whole_path(named, here)
    file = read_config_file(path)
    if file is None:
        by = "--config" if config else CONFIG_VARIABLE
        raise SettingsError(f"There is no file {path}.", hint=f"It was named by {by}.")
    return file


def _sources(settings: Settings, reading: SettingsReader, file: ConfigFile | None) -> dict[str, str]:
    """Return the source of every key; for the file only its name and line."""
    folder = f"{file.path.parent}{os.sep}" if file else ""
    keys = [dotted(*path) for path in _paths(settings)]
    return {key: reading.places.get(key, "default").removeprefix(folder) for key in keys}


def _paths(settings: Settings) -> Iterator[tuple[str, ...]]:
    for section, keys in sections().items():
        yield from ((section, key.name) for key in keys)
    for model in settings.models:
        yield from ((MODELS, model, key.name) for key in model_keys())
