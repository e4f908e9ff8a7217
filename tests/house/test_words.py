"""Plain English: words and phrases that are archaic, vague or personify the program do not come back.

``archaic_words.txt`` lists them. The test looks in docstrings, comments and texts of the package, in docstrings and
comments of the tests and benchmarks, whose texts are what people say, and in all pages.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.house import repository
from tests.house.rules import nodes, parsed

WORDS = (Path(__file__).with_name("archaic_words.txt")).read_text(encoding="utf-8").split("\n")
ARCHAIC = re.compile(rf"\b(?:{'|'.join(re.escape(word) for word in WORDS if word)})\b", re.I)

# Language rules, which contain words that people use, and pages whose wording is given. The list only shrinks.
ALLOWED = {
    "docs/explanation/summaries.md",
    "docs/requirements.md",
    "src/contextinfinity/memory/claims.py",
    "src/contextinfinity/text/orders.py",
    "src/contextinfinity/text/polarity.py",
}


def prose(source: str, *, with_texts: bool = True) -> Iterator[str]:
    """Yield the comments and docstrings of a module, and its other texts."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in nodes(parsed(source)):
        text = node if with_texts else node.value if isinstance(node, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            yield text.value


def archaic_in(path: Path) -> list[str]:
    """Return the archaic words of a file."""
    text = path.read_text(encoding="utf-8")
    if not ARCHAIC.search(" ".join(text.split())):  # most files: no need to parse them
        return []
    is_package = path.is_relative_to(repository.SRC) or not path.is_relative_to(repository.ROOT)
    texts = prose(text, with_texts=is_package) if path.suffix == ".py" else [text]
    return [found[0].lower() for each in texts for found in ARCHAIC.finditer(" ".join(each.split()))]


def test_texts_and_pages_use_plain_words() -> None:
    files = repository.files("src/*.py", "src/*.js", "testing/*", "tests/*.py", "benchmarks/*.py", "*.md")
    found = {repository.name(path): words for path in files if (words := archaic_in(path))}
    assert {name: words for name, words in found.items() if name not in ALLOWED} == {}
    assert set(found) == ALLOWED, "a file that needs no exception any more leaves the list"


def test_an_archaic_word_is_found_in_comments_docstrings_and_texts(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""Whoever waits."""\n\nTEXT = "It is\\n told."  # mend it\nnobody = 1\n', encoding="utf-8")
    assert sorted(archaic_in(module)) == ["is told", "mend", "whoever"]
