"""Where the house rules find what they look at: the files git knows, or would take in."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"


@cache
def files(*patterns: str) -> tuple[Path, ...]:
    """Files of the checkout that match one of git's pathspecs, new ones included, ignored ones not."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = (ROOT / name for name in listing.split("\0") if name)
    return tuple(sorted(path for path in found if path.is_file()))


def name(path: Path) -> str:
    """The path as people write it: from the root of the checkout."""
    return path.relative_to(ROOT).as_posix()


def text(path: Path) -> str | None:
    """Return the file's text; None if it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def report(paths: Iterable[Path], rule: Callable[[str], Iterable[str]]) -> str:
    """What the rule finds in the files, one ``file:line: finding`` a line; empty when all is well."""
    return "\n".join(f"{name(path)}:{finding}" for path in paths for finding in rule(text(path) or ""))
