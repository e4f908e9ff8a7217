"""The files of a repository, as git would list them: ignored ones, symbolic links and ``.git`` are left out."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

NEVER = frozenset({".git", ".hg", ".svn", ".contextinfinity", ".ac-dc", "node_modules", "__pycache__"})
NEVER_WITHOUT_PATHSPEC = NEVER | {".venv", "venv", "dist", "build", "target"}
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""A name with one of these is not listed and not opened: a line break in it would forge a line of the prompt."""
MOST_FILES = 100_000
Rules = tuple[Callable[[str], bool | None], ...]


def list_files(root: Path) -> Iterator[tuple[str, int, int]]:
    """Yield (path, modification time in ns, size) of every file, at most 100,000 of them."""
    found = 0
    for path, mtime_ns, size in _walk(str(root), "", _rules_above(root), _skipped()):
        if (found := found + 1) > MOST_FILES:
            log.warning("%s has more than %d files; the others are left out", root, MOST_FILES)
            return
        yield path, mtime_ns, size


def only_listed(root: Path, paths: Iterable[Path]) -> list[str]:
    """Return the names of those files that ``list_files`` does not leave out; a file may be gone.

    A path through a symbolic link is that of the file it leads to; outside the root it is left out.
    """
    real = {path.parent.resolve() / path.name for path in paths if not path.is_symlink()}
    names = {path.relative_to(root).as_posix() for path in real if path.is_relative_to(root)}
    rules_in, skipped = _rules_below(root), _skipped()

    def is_listed(path: str) -> bool:
        parent, _, name = path.rpartition("/")
        rules = rules_in(f"{parent}/" if parent else "")
        return rules is not None and not _is_skipped(name, skipped) and not _ignored(path, rules)

    return sorted(filter(is_listed, names))


def names_in(root: Path, folder: str) -> list[str]:
    """Return the paths of the files and folders (with a slash at the end) that ``list_files`` looks at in a folder."""
    prefix = f"{folder}/" if folder else ""
    rules = _rules_below(root)(prefix)
    if rules is None:
        return []
    return [path for path, _ in _entries(str(root / folder), prefix, rules, _skipped())]


def _rules_below(root: Path) -> Callable[[str], Rules | None]:
    """Return a function of a folder's path, with a slash: the rules that hold in it; None if it is left out."""
    skipped, outer = _skipped(), _rules_above(root)

    @cache
    def rules_in(prefix: str) -> Rules | None:
        rules = outer
        if prefix:
            parent, _, name = prefix[:-1].rpartition("/")
            above = rules_in(f"{parent}/" if parent else "")
            if above is None or _is_skipped(name, skipped) or _ignored(prefix, above):
                return None
            rules = above
        return _with_own_rules(rules, root / prefix, prefix)

    return rules_in


def _walk(folder: str, prefix: str, rules: Rules, skipped: frozenset[str]) -> Iterator[tuple[str, int, int]]:
    rules = _with_own_rules(rules, Path(folder), prefix)
    folders = []
    for path, entry in _entries(folder, prefix, rules, skipped):
        if path.endswith("/"):
            folders.append((entry.path, path))
            continue
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        yield path, found.st_mtime_ns, found.st_size
    for inner, path in folders:
        yield from _walk(inner, path, rules, skipped)


def _entries(folder: str, prefix: str, rules: Rules, skipped: frozenset[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the files and folders of a folder that are not left out, sorted; the path of a folder ends with a slash."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        log.debug("%s cannot be listed: %s", folder, error)
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        path = f"{prefix}{entry.name}/" if is_folder else prefix + entry.name
        is_kind = is_folder or entry.is_file(follow_symlinks=False)
        if is_kind and not _is_skipped(entry.name, skipped) and not _ignored(path, rules):
            yield path, entry


def _is_skipped(name: str, skipped: frozenset[str]) -> bool:
    return name in skipped or UNPRINTABLE.search(name) is not None


def _skipped() -> frozenset[str]:
    return NEVER if _pathspec() is not None else NEVER_WITHOUT_PATHSPEC


def _ignored(path: str, rules: Rules) -> bool:
    """Return whether a path is ignored: the rules of the nearest folder that say something decide."""
    for check in reversed(rules):
        if (decision := check(path)) is not None:
            return decision
    return False


def _rules_above(root: Path) -> Rules:
    """Return the rules of the repository that a folder is a part of; none if it was left out there as a whole."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    rules: Rules = ()
    for folder in reversed(root.parents):
        if folder.is_relative_to(top) and (file := folder / ".gitignore").is_file():
            rules = (*rules, *_rules_of(file, outer=f"{root.relative_to(folder).as_posix()}/"))
    return () if _ignored("", rules) else rules


def _with_own_rules(rules: Rules, folder: Path, prefix: str) -> Rules:
    """Add the rules of a folder's own .gitignore, if it has one."""
    file = folder / ".gitignore"
    return (*rules, *_rules_of(file, cut=len(prefix))) if file.is_file() else rules


def _rules_of(path: Path, *, cut: int = 0, outer: str = "") -> Rules:
    """Read a .gitignore file; its patterns apply to paths without ``cut`` characters of folders, or below ``outer``."""
    module = _pathspec()
    if module is None:
        return ()
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        spec = module.GitIgnoreSpec.from_lines(lines)
    except (OSError, ValueError) as error:
        log.warning("%s is not used: %s", path, error)
        return ()

    def check(name: str) -> bool | None:
        decision: bool | None = spec.check_file(outer + name[cut:]).include
        return decision

    return (check,)


def _pathspec() -> Any:
    try:
        return import_module("pathspec")
    except ImportError:
        return None
