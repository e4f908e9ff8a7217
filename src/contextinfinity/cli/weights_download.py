"""Downloads model weights with a progress display."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from contextinfinity.cli.command_options import CommonOptions, settings_for
from contextinfinity.cli.output import print_notice

if TYPE_CHECKING:
    from contextinfinity.providers.local.weights_file import Progress, WeightsFile


def prepare(options: CommonOptions, model: str | None, *, greet: bool = False, creates: bool = False) -> None:
    """Fetch and load the built-in model if it is the one that answers, and say what to expect of it.

    It is loaded while everything else is opened; the process has one of it, so the engine finds it there. A server has
    its own.
    """
    if options.server is not None:
        return
    from contextinfinity.settings import BUILT_IN

    settings = settings_for(options.config, options.data_dir, creates=creates).settings
    if (model or settings.general.default_model) != BUILT_IN:
        return
    from contextinfinity.providers.local.provider import BUILT_IN_NOTE, built_in_provider, check_runtime
    from contextinfinity.providers.local.weights_file import SMOLLM2, are_there

    check_runtime()
    if not are_there(SMOLLM2, settings.models_dir):
        fetch(SMOLLM2, settings.models_dir)
    built_in_provider(settings).begin(SMOLLM2.model_id)
    if greet:
        print_notice(BUILT_IN_NOTE)


def fetch(weights: WeightsFile, folder: Path) -> Path:
    """Download weights with a progress display."""
    from contextinfinity.providers.local.weights_file import are_there, get, megabytes

    if are_there(weights, folder):
        return get(weights, folder)  # which looks whether they are whole
    print_notice(f"Fetching {weights.model_id} ({megabytes(weights.download)}, once) with pip into {folder} …")
    with _bar(weights) as progress:
        return get(weights, folder, progress)


@contextmanager
def _bar(weights: WeightsFile) -> Iterator[Progress]:
    """Show on a terminal how far it is; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=weights.download)
        yield lambda come: bar.update(task, completed=come)
