"""Install clients from their registries, each into its own folder below ``~/.cache/contextinfinity``."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "contextinfinity"


def from_npm(*packages: str) -> Path:
    """Return the folder with the commands of npm packages (``name@version``)."""
    folder = _folder("npm", packages)
    if not folder.exists():
        wanted = dict(package.rsplit("@", 1) for package in packages)
        with TemporaryDirectory(dir=folder.parent) as made:
            (Path(made) / "package.json").write_text(json.dumps({"private": True, "dependencies": wanted}))
            command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
            subprocess.run(command, cwd=made, check=True, stdout=sys.stderr)
            Path(made).rename(folder)
            Path(made).mkdir()
    return folder / "node_modules" / ".bin"


def from_pip(*packages: str) -> Path:
    """Return the folder with the Python and the commands of a virtual environment with these packages."""
    folder = _folder("pip", packages)
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        python = str(folder / "bin" / "python")
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, *packages], check=True, stdout=sys.stderr)
        (folder / "installed").touch()
    return folder / "bin"


def _folder(kind: str, packages: tuple[str, ...]) -> Path:
    CACHE.mkdir(parents=True, exist_ok=True)
    return CACHE / f"{kind}-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:12]}"
