"""Load the ``Settings`` from a file and the environment, or raise one error that lists every problem.

Precedence: explicit argument > environment variable > config.toml > default.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from contextinfinity.errors import SettingsError
from contextinfinity.settings.config_file import ConfigFile, read_config_file, take_file
from contextinfinity.settings.environment import take_environment
from contextinfinity.settings.keys import MODELS, dotted, model_keys, sections, variable
from contextinfinity.settings.sections import General, Settings, whole_path
from contextinfinity.settings.settings_reader import SettingsReader

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
