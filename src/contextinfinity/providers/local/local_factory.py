"""Create providers of local models from the settings, and describe the built-in one."""

from __future__ import annotations

from pathlib import Path

from contextinfinity.domain.message import Json
from contextinfinity.errors import SettingsError
from contextinfinity.providers.contract import Provider
from contextinfinity.providers.factory import overrides
from contextinfinity.providers.local.gguf import ModelFile
from contextinfinity.providers.local.provider import LocalProvider, LocalRunSettings
from contextinfinity.providers.local.weights_file import SMOLLM2, megabytes
from contextinfinity.settings import ModelSettings, Settings

BUILT_IN_NOTE = (
    f"The built-in model, {SMOLLM2.model_id}, is a small one for demonstration: it shows how this works and knows "
    "little. Name a better one under [models] in config.toml."
)
BUILT_IN_OPTIONS: Json = {"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1}
"""The authors' recommendation, with a small repetition penalty."""
BUILT_IN_WINDOW = 4096
"""Half of its window: a longer prompt takes too long on a small machine."""
BUILT_IN_ANSWER = 512
"""The maximum number of answer tokens: longer answers are rarely useful."""


def local_provider(name: str, model: ModelSettings, settings: Settings) -> Provider:
    """Return the provider of a gguf file; nothing is loaded yet. Raises ``SettingsError`` if it has no path."""
    if model.path is None:
        raise SettingsError(f"models.{name} is a local model without a path.", hint="Name its gguf file with path.")
    return LocalProvider(ModelFile(Path(model.path)), _running(settings, overrides=overrides(model)))


def built_in_provider(settings: Settings) -> LocalProvider:
    """Return the provider of the built-in model; its weights may be missing."""
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
