"""Find the definitions that a question is about, by the words of their names, paths and files.

A word is rarer, and so weighs more, the fewer files contain it. In the name of a definition it weighs more than in the
path, and there more than elsewhere in the file. Words are compared as the search index does: ``getUser`` has ``user``.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import numpy as np

from contextinfinity.text.content_words import STOP_WORDS
from contextinfinity.text.keywords import terms, terms_of, words
from contextinfinity.workspace.languages import Definition
from contextinfinity.workspace.symbols import FileSymbols

MOST_FILES, MOST_OF_A_FILE = 8, 3
MOST_WORDS = 40
"""How many words of a long message are looked up: its first ones."""
IN_NAME, IN_PATH, IN_TEXT = 3.0, 2.0, 1.0
OF_A_TEST = 0.5
"""Tests repeat the names of what they test: their files weigh less, unless the question is about tests."""
_FORMS = ("", "s", "ed", "ing")


def matching(files: Mapping[str, FileSymbols], question: str) -> list[tuple[str, list[Definition]]]:
    """Return the best matching files, each with its best matching definitions in their order."""
    asked = _asked(question)
    if not asked or not files:
        return []
    in_text = _in_text(files, asked)
    in_path, in_names = dict[str, set[str]](), dict[str, dict[int, set[str]]]()
    for path, file in files.items():
        in_path[path] = _found(path, asked)
        names = "\n".join(one.name for one in file.defines)
        if any(term in names.lower() for term in asked):
            named = {place: _found(one.name, asked) for place, one in enumerate(file.defines)}
            in_names[path] = {place: found for place, found in named.items() if found}
    seen = {path: in_path[path] | in_text[path] | set().union(*in_names.get(path, {}).values()) for path in files}
    weight = {term: math.log(1 + len(files) / (1 + sum(term in found for found in seen.values()))) for term in asked}

    def weigh(found: set[str]) -> float:
        return sum(weight[term] for term in found)

    def score(path: str) -> float:
        best = max((_fit(files[path].defines[place].name, found, weight) for place, found in hits(path)), default=0.0)
        whole = IN_NAME * best + IN_PATH * weigh(in_path[path]) + IN_TEXT * weigh(in_text[path])
        return whole * (OF_A_TEST if "test" in terms(path) and "test" not in asked else 1)

    def hits(path: str) -> list[tuple[int, set[str]]]:
        return list(in_names.get(path, {}).items())

    ranked = sorted((path for path in files if seen[path]), key=lambda path: (-score(path), path))
    found = []
    for path in ranked[:MOST_FILES]:
        defines = files[path].defines
        best = sorted(hits(path), key=lambda hit: (-_fit(defines[hit[0]].name, hit[1], weight), hit[0]))
        found.append((path, [defines[place] for place, _ in sorted(best[:MOST_OF_A_FILE])]))
    return found


def _asked(question: str) -> dict[str, set[str]]:
    """Return the terms of a question, each with the words that stand for it."""
    asked: dict[str, set[str]] = {}
    for word in words(question)[:MOST_WORDS]:
        if word.lower() not in STOP_WORDS:
            for term in terms_of(word):
                if len(term) > 2:
                    asked.setdefault(term, set()).update({word, *(term + form for form in _FORMS)})
    return asked


def _found(name: str, asked: Mapping[str, object]) -> set[str]:
    return asked.keys() & set(terms(name.replace("_", " ").replace("/", " ")))


def _fit(name: str, found: set[str], weight: Mapping[str, float]) -> float:
    """Weigh the words that a name shares with the question; a name that says nothing else fits best."""
    return sum(weight[term] for term in found) * (0.5 + 0.5 * min(1.0, len(found) / max(1, len(set(terms(name))))))


def _in_text(files: Mapping[str, FileSymbols], asked: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return which terms occur among the identifiers and words of each file."""
    used = np.frombuffer(b"".join(file.uses for file in files.values()), dtype=np.uint32)
    users = np.repeat(np.arange(len(files)), [len(file.uses) // 4 for file in files.values()])
    found: list[set[str]] = [set() for _ in files]
    for term, forms in asked.items():
        spelled = {spelling for form in forms for spelling in (form, form.lower(), form.capitalize(), form.upper())}
        hashes = np.array([zlib.crc32(one.encode()) for one in spelled], dtype=np.uint32)
        for number in users[np.isin(used, hashes)].tolist():
            found[number].add(term)
    return dict(zip(files, found, strict=True))
