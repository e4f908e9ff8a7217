"""All settings, as one frozen value that is read once.

``sections`` declares every key with its default, its range and its meaning. Everything else is derived from these
declarations: the parsing of the file and the environment (``loading``), error messages (``keys``) and the reference
page (``tests/house/settings_page``).
"""

from __future__ import annotations

from contextinfinity.settings.field_types import AUTO, BUILT_IN, MINILM, OFFLINE, STATIC, Preference, Rule
from contextinfinity.settings.loading import LoadedSettings, load_settings
from contextinfinity.settings.sections import (
    Anthropic,
    BudgetSettings,
    Compaction,
    General,
    LibrarianSettings,
    Local,
    MemorySettings,
    ModelSettings,
    OpenAI,
    Retention,
    RetrievalSettings,
    RewriterSettings,
    Router,
    Server,
    Settings,
    Storage,
    Stream,
    Tools,
)

__all__ = [
    "AUTO",
    "BUILT_IN",
    "MINILM",
    "OFFLINE",
    "STATIC",
    "Anthropic",
    "BudgetSettings",
    "Compaction",
    "General",
    "LibrarianSettings",
    "LoadedSettings",
    "Local",
    "MemorySettings",
    "ModelSettings",
    "OpenAI",
    "Preference",
    "Retention",
    "RetrievalSettings",
    "RewriterSettings",
    "Router",
    "Rule",
    "Server",
    "Settings",
    "Storage",
    "Stream",
    "Tools",
    "load_settings",
]
