"""The file tree in the prompt: a line per folder with the files in it, within a token budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence


def draw_tree(paths: Sequence[str], count: Callable[[str], int], budget: int) -> str:
    """Write the files of a repository; where they are too many, numbers of files stand for the deepest folders."""
    folders: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders[folder].append(name)
    whole = "\n".join(f"{folder or '.'}/: {' '.join(sorted(names))}" for folder, names in sorted(folders.items()))
    if len(whole) <= budget or count(whole) <= budget:  # a token has at least one character, as a rule
        return whole
    for depth in range(max(folder.count("/") for folder in folders), -1, -1):
        text = _counted(folders, depth)
        if count(text) <= budget:
            return text
    return f"./: {len(paths)} files"


def _counted(folders: dict[str, list[str]], depth: int) -> str:
    """Write numbers of files, folders deeper than ``depth`` added to the one above."""
    totals: dict[str, int] = defaultdict(int)
    for folder, names in folders.items():
        totals["/".join(folder.split("/")[: depth + 1])] += len(names)
    return "\n".join(f"{folder or '.'}/: {number} files" for folder, number in sorted(totals.items()))
