"""The file tree in the prompt: a line per folder with the files in it, within a token budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence


def draw_tree(paths: Sequence[str], count: Callable[[str], int], budget: int) -> str:
    """Write the files of a repository; where they are too many, numbers of files stand for the deepest folders.

    Numbers come first for the deepest folders, then for all; then the deepest folders are added to those above them.
    """
    folders: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders[folder].append(name)
    deepest = max((_depth(folder) for folder in folders), default=0)
    for named in range(deepest, -2, -1):
        text = _drawn(folders, named, deepest)
        if len(text) <= budget or (len(text) <= 12 * budget and count(text) <= budget):  # names have short tokens
            return text
    for shown in range(deepest - 1, -1, -1):
        text = _drawn(folders, -1, shown)
        if count(text) <= budget:
            return text
    return f"./: {len(paths)} files"


def _drawn(folders: Mapping[str, Sequence[str]], named: int, shown: int) -> str:
    """Name the files in folders up to a depth, and count those below; folders deeper than ``shown`` are added up."""
    totals: dict[str, int] = defaultdict(int)
    for folder, names in folders.items():
        totals["/".join(folder.split("/")[:shown])] += len(names)
    return "\n".join(
        f"{folder or '.'}/: {' '.join(sorted(folders[folder]))}"
        if _depth(folder) <= named and folder in folders
        else f"{folder or '.'}/: {number} files"
        for folder, number in sorted(totals.items())
    )


def _depth(folder: str) -> int:
    return folder.count("/") + 1 if folder else 0
