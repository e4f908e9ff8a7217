"""The models that the suite needs: one that answers, one that never finishes, one that fails."""

from __future__ import annotations

import json
from pathlib import Path

from contextinfinity.settings import General, ModelSettings, Settings

ANSWERS = "answers"
HANGS = "hangs"
FAILS = "fails"
SHOWN = ("one", " two", " three")
"""What the model that hangs says before it does."""

_SCRIPTS: dict[str, list[dict[str, object]]] = {
    HANGS: [{"pieces": SHOWN, "hang": True}],
    FAILS: [{"error": {"code": "quota", "message": "Out of credit.", "hint": "Wait until tomorrow."}}],
}


def suite_settings(folder: Path) -> Settings:
    """Return the settings of an engine on an empty folder, with a model that repeats its input."""
    models = {ANSWERS: ModelSettings(provider="scripted")}
    for name, replies in _SCRIPTS.items():
        script = folder / f"{name}.json"
        script.write_text(json.dumps(replies), encoding="utf-8")
        models[name] = ModelSettings(provider="scripted", path=str(script))
    return Settings(general=General(data_dir=str(folder), default_model=ANSWERS), models=models)
