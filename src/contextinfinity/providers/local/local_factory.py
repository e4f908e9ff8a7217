"""From the settings to providers of models on this machine, and what is said of the one that is built in."""

from __future__ import annotations

from pathlib import Path

from contextinfinity.domain.message import Json
from contextinfinity.errors import SettingsError
from contextinfinity.providers.contract import Provider
from contextinfinity.providers.factory import overrides
from contextinfinity.providers.local.model_file import ModelFile
from contextinfinity.providers.local.provider import LocalProvider, LocalRunSettings
from contextinfinity.providers.local.weights_file import SMOLLM2, megabytes
from contextinfinity.settings import ModelSettings, Settings

BUILT_IN_NOTE = (
    f"The built-in model, {SMOLLM2.model_id}, is a small one for demonstration: it shows how this works and knows "
    "little. Name a better one under [models] in config.toml."
)
BUILT_IN_OPTIONS: Json = {"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1}
"""What its makers advise, and a little against saying the same again."""
BUILT_IN_WINDOW = 4096
"""Half of what it was made for: a longer prompt would take a small machine too long to read."""
BUILT_IN_ANSWER = 512
"""The most tokens of an answer: what it says after that is rarely worth waiting for."""


def local_provider(name: str, model: ModelSettings, settings: Settings) -> Provider:
    """Open the provider of a gguf file; nothing is loaded yet."""
    if model.path is None:
        raise SettingsError(
            f"models.{name} is a model on this machine, and has no path.", hint="Name its gguf file with path."
        )
    return LocalProvider(ModelFile(Path(model.path)), _running(settings, overrides=overrides(model)))


def built_in_provider(settings: Settings) -> LocalProvider:
    """Open the provider of the built-in model; its weights may not be there yet."""
    running = _running(
        settings,
        window=BUILT_IN_WINDOW,
        overrides={"max_output_tokens": BUILT_IN_ANSWER},
        missing=f"`cix model get` fetches them ({megabytes(SMOLLM2.download)}); or name another model under [models].",
    )
    return LocalProvider(ModelFile(settings.models_dir / SMOLLM2.file), running)


def _running(settings: Settings, **more: object) -> LocalRunSettings:
    local = settings.local
    return LocalRunSettings(threads=local.threads, idle_seconds=local.unload_minutes * 60, **more)  # type: ignore[arg-type]
