"""The ledger can be read as the page says, from Python and with a SQL shell; the figures are on their page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "howto" / "read-the-ledger.md"


def run_the_example(folder: Path) -> str:
    (code,) = re.findall(r"```python\n(import asyncio.*?)```", PAGE.read_text("utf-8"), re.S)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_python_example_runs(tmp_path: Path) -> None:
    assert run_the_example(tmp_path) == "1 Who wrote Faust? → Goethe.\n"


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the sqlite3 shell is not installed")
def test_any_sql_shell_reads_the_ledger(tmp_path: Path) -> None:
    run_the_example(tmp_path)
    (query,) = re.findall(r"`sqlite3 ledger.db '(.*?)'`", PAGE.read_text("utf-8"), re.S)
    done = subprocess.run(
        ["sqlite3", "ledger.db", query.replace("\n", " ")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "Who wrote Faust?|Goethe.\n"


def test_the_figures_are_shown() -> None:
    figures = (DOCS / "benchmarks.md").read_text("utf-8")
    assert figures.count("\n| ") > 10
    assert "Measured on" in figures
