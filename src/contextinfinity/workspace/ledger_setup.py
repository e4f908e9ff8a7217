"""The components of a context manager: the model whose tokens it counts, the fold policy, and a ledger.

Kept, it is the machine's ledger; not kept, one in memory, and nothing is written. The settings count for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

import msgspec
from msgspec.structs import replace

from contextinfinity.engine.folding import Folding
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.errors import InvalidInput
from contextinfinity.settings import AUTO, BUILT_IN, OFFLINE, Compaction, ModelSettings, Settings
from contextinfinity.settings.keys import sections
from contextinfinity.storage.contract import Store

WIRING = "contextinfinity.wiring"
"""Who opens ledgers and models by their settings. It is in a higher layer, so it is named, not imported."""
ANY_MODEL: Literal["openai_chat"] = "openai_chat"
"""The provider under which a model is looked up that the settings do not name: it is known to serve all of them."""
DETECTION_MODEL = "detection_model"
"""What ``detector_model`` of [compaction] is called in a ``compaction_config``, which takes both names."""


@dataclass(frozen=True, kw_only=True)
class LedgerSetup:
    """What one context manager works with; ``helpers`` are the models that may be asked, closed with the ledger."""

    folding: Folding
    model: Model
    helpers: Models

    async def close(self) -> None:
        """Close connections and the ledger."""
        await self.helpers.close()
        await self.folding.store.close()


def open_means(settings: Settings, model_name: str, *, kept: bool) -> LedgerSetup:
    """Open a ledger, the machine's or one in memory, and the model that counts."""
    wiring = import_module(WIRING)
    models: Models = wiring.models_of(settings)
    model, setup = models.named(model_name), wiring.setup_of(settings, models)
    store: Store = wiring.open_store(settings) if kept else wiring.store_in_memory()
    counting = Models(by_name={model_name: model}, default=model_name)  # folds count tokens as this model does
    return LedgerSetup(folding=Folding(store=store, models=counting, setup=setup), model=model, helpers=models)


def settings_for(settings: Settings, model_name: str, config: Mapping[str, object] | None) -> Settings:
    """Add the model, where the settings do not name it, and what ``compaction_config`` says."""
    if not isinstance(model_name, str) or not model_name.strip():
        raise InvalidInput(f"The model_name is {model_name!r}.", hint="Give a model's id, or the NAME of a [models].")
    models = settings.models
    if model_name not in models and model_name != BUILT_IN:
        models = {**models, model_name: ModelSettings(provider=ANY_MODEL, model_id=model_name)}
    return replace(settings, models=models, compaction=_compaction(settings, config))


def _compaction(settings: Settings, config: Mapping[str, object] | None) -> Compaction:
    """Judge a ``compaction_config`` by the rules of [compaction]; what it leaves out is as the settings say."""
    if config is None:
        return replace(settings.compaction, enabled=False)
    if not isinstance(config, Mapping):
        raise InvalidInput(f"compaction_config is of type {type(config).__name__}.", hint="Give a dict, or None.")
    checked = dict(_checked(name, value) for name, value in config.items())
    if len(checked) < len(config):
        raise InvalidInput(f"compaction_config names a detector_model and a {DETECTION_MODEL}.", hint="Name one.")
    detector = checked.get("detector_model", OFFLINE)
    if detector not in (AUTO, OFFLINE, *settings.models):
        known = ", ".join(sorted(settings.models)) or "none"
        raise InvalidInput(
            f"compaction_config names the {DETECTION_MODEL} {detector!r}; the settings know: {known}.",
            hint="Name it under [models], or leave it out.",
        )
    return replace(settings.compaction, **checked)


def _checked(name: str, value: object) -> tuple[str, object]:
    """Return a key of [compaction] and its value."""
    keys = {key.name: key for key in sections()["compaction"]}
    key = keys.get("detector_model" if name == DETECTION_MODEL else name)
    if key is None:
        takes = ", ".join(DETECTION_MODEL if known == "detector_model" else known for known in keys)
        raise InvalidInput(f"compaction_config has a key {name!r}.", hint=f"It takes {takes}.")
    try:
        return key.name, key.read(value)
    except msgspec.ValidationError as error:
        raise InvalidInput(key.complaint(f"compaction_config[{name!r}]", value)) from error
