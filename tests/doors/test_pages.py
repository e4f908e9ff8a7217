"""Every Python block and every console block of README, tutorials, how-tos and reference pages runs as it is written.

The blocks of a page share one data folder with a scripted model and, for Python, one namespace. ``console`` blocks hold
commands of ``cix``; what cannot run here (installation, other machines, changes of the code) is in blocks of other
languages, which ``tests/house/test_docs.py`` checks.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.doors.cix import ECHO, Cix
from tests.doors.server import Server
from tests.ledgers import place_ledger

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:8765"
MODELS = "".join(f'[models.{name}]\nprovider = "scripted"\n' for name in ("sonnet", "gpt"))
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.M | re.S)
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*/*.md")]
    if {language for _, language, _ in BLOCK.findall(page.read_text("utf-8"))} & {"python", "console"}
)


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Read the blocks of a page as (language, text)."""
    for indent, language, text in BLOCK.findall(page.read_text("utf-8")):
        yield language, "\n".join(line.removeprefix(indent) for line in text.splitlines())


def commands(block: str) -> list[list[str]]:
    """Read the commands of a console block; every one is of ``cix``."""
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    parted = [shlex.split(line, comments=True) for line in lines if line]
    assert all(words[0] == "cix" for words in parted), block
    return [words[1:] for words in parted]


def compiled(block: str) -> CodeType:
    code: CodeType = compile(block, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


@pytest.fixture
def served(page: Path, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The data folder of a page, with the models that pages name, and where it is served if the page says so."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    if ADDRESS not in page.read_text("utf-8"):
        (folder / "config.toml").write_text(ECHO + MODELS, encoding="utf-8")
        place_ledger(folder / "ledger.db")
        yield folder, ADDRESS
        return
    server = Server(folder, MODELS)
    yield folder, server.url
    server.stop()


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
async def test_the_blocks_of_a_page_run(
    page: Path, served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = served
    cix = Cix(folder)
    monkeypatch.setenv("CONTEXTINFINITY_GENERAL__DATA_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for language, text in blocks(page):
        if language == "python":
            code = compiled(text.replace(ADDRESS, url))
            running = await asyncio.to_thread(eval, code, names)  # a thread: a block may run a loop of its own
            if inspect.isawaitable(running):
                await running
        elif language == "console":
            for arguments in commands(text):
                done = await asyncio.to_thread(cix, *arguments)
                assert done.exit_code == 0, (arguments, done.stderr)


def test_a_command_of_another_program_is_seen() -> None:
    with pytest.raises(AssertionError):
        commands("$ make run")
    assert commands('$ cix ask "Who?"  # a comment\n') == [["ask", "Who?"]]


def test_a_block_is_found_within_a_list(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("1. So:\n\n   ```console\n   $ cix doctor\n   ```\n")
    assert list(blocks(tmp_path / "page.md")) == [("console", "$ cix doctor")]
