"""Load the redactors that the settings name: built-in detectors, entry points, regular expressions, a function."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

from contextinfinity.errors import SettingsError

if TYPE_CHECKING:
    from contextinfinity.prompt.redact import Redactor
    from contextinfinity.settings.sections import General

GROUP = "contextinfinity.redactors"
"""The entry point group of installed redactors."""


def load_redactor(general: General) -> Redactor | None:
    """Return one redactor for all that the settings name; None if they name none.

    Raises ``SettingsError`` if one cannot be loaded: nothing is sent without it.
    """
    from contextinfinity.prompt.redact import all_of, by_patterns

    found = [_named(name) for name in general.redact]
    if general.redact_patterns:
        try:
            found.append(by_patterns(general.redact_patterns))
        except re.error as error:
            raise SettingsError(
                f"general.redact_patterns: {error.pattern!r} is not a regular expression: {error}."
            ) from error
    if general.redact_with is not None:
        module, _, name = general.redact_with.partition(":")
        try:
            found.append(getattr(import_module(module), name))
        except (ImportError, AttributeError) as error:
            raise SettingsError(f"general.redact_with: {general.redact_with} cannot be loaded: {error}.") from error
    return all_of(found) if found else None


def _named(name: str) -> Redactor:
    from importlib.metadata import entry_points

    from contextinfinity.prompt.redact import DETECTORS

    if name in DETECTORS:
        return DETECTORS[name]
    installed = entry_points(group=GROUP)
    if name not in installed.names:
        known = ", ".join(sorted({*DETECTORS, *installed.names}))
        raise SettingsError(f"general.redact: there is no redactor {name}.", hint=f"Use one of: {known}.")
    try:
        redactor: Redactor = installed[name].load()
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"general.redact: {name} cannot be loaded: {error}.") from error
    return redactor
