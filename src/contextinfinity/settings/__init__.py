"""Everything a person can set, as one frozen value that is read once.

``sections`` declares every key with its default, its range and its meaning. All else derives from those
declarations: what the file and the environment may say (``loading``), the words of an error message
(``keys``) and the page of the manual (``reference``).
"""

from __future__ import annotations

from contextinfinity.settings.forms import AUTO, BUILT_IN, MINILM, OFFLINE, STATIC
from contextinfinity.settings.loading import LoadedSettings, load_settings
from contextinfinity.settings.rules import Preference, Rule
from contextinfinity.settings.sections import (
    Anthropic,
    Budget,
    Compaction,
    General,
    Librarian,
    Local,
    Memory,
    ModelSettings,
    OpenAI,
    Retention,
    Retrieval,
    Rewriter,
    Router,
    Settings,
    Storage,
    Stream,
    Tools,
)
from contextinfinity.settings.server import Server

__all__ = [
    "AUTO",
    "BUILT_IN",
    "MINILM",
    "OFFLINE",
    "STATIC",
    "Anthropic",
    "Budget",
    "Compaction",
    "General",
    "Librarian",
    "LoadedSettings",
    "Local",
    "Memory",
    "ModelSettings",
    "OpenAI",
    "Preference",
    "Retention",
    "Retrieval",
    "Rewriter",
    "Router",
    "Rule",
    "Server",
    "Settings",
    "Storage",
    "Stream",
    "Tools",
    "load_settings",
]
