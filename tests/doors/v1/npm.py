"""Packages of npm that tests run, in folders that all checkouts of one machine share."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

OLDEST = 20


def installed(wanted: bytes) -> Path:
    """Return the folder in which a ``package.json`` is installed; without node or a registry the test is skipped."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if int(re.findall(r"\d+", version)[0]) < OLDEST:
        pytest.skip(f"node is {version.strip()}; the packages need {OLDEST}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    folder = cache / "contextinfinity" / f"node-{hashlib.sha256(wanted).hexdigest()[:12]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as made:  # whole or not at all: who is stopped leaves half of it
            _install(Path(made), wanted)
            with suppress(OSError):  # someone was quicker
                (Path(made) / "sdks").rename(folder)
    return folder


def _install(place: Path, wanted: bytes) -> None:
    """Fetch the packages into ``sdks`` below a folder; without a registry in reach there is nothing to try."""
    folder = place / "sdks"
    folder.mkdir()
    (folder / "package.json").write_bytes(wanted)
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=150)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"npm could not install the packages: {error.stderr.strip()[-300:]}")
    except subprocess.TimeoutExpired:
        pytest.skip("npm could not install the packages within 150 seconds")
