from __future__ import annotations

from pathlib import Path

import pytest

from contextinfinity.workspace.repository import MATCH_TOKENS, Workspace
from contextinfinity.workspace.symbol_search import matching

FILES = {
    "net/retrying.py": "class Backoff: ...\n\ndef retry_request(call): ...\n",
    "net/transport.py": "def send(request):  # without a retry\n    ...\n",
    "tests/test_retrying.py": "def test_retry_request(): ...\n",
    "ui/HTMLView.ts": "export function renderPage(p: Page) {}\n",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    made = Workspace(tmp_path, len)
    made.refresh()
    return made


@pytest.mark.req("FILES-4")
def test_a_question_finds_the_definitions_that_its_words_name(workspace: Workspace) -> None:
    def found(question: str) -> list[str]:
        return [path for path, _ in matching(workspace.symbols.files, question)]

    retried = ["net/retrying.py", "net/transport.py", "tests/test_retrying.py"]
    assert found("where are failed requests retried?") == retried
    assert found("which test retries a request?")[0] == "tests/test_retrying.py"
    assert found("who renders a page?") == ["ui/HTMLView.ts"]
    assert found("where is it?") == found("") == found("zebra") == []
    (path, (definition,)), *_ = matching(workspace.symbols.files, "how is a request retried?")
    assert (path, definition.line, definition.signature) == ("net/retrying.py", 3, "def retry_request(call)")


@pytest.mark.req("FILES-4")
def test_matches_are_named_with_their_lines_within_a_budget_and_not_again_for_open_files(workspace: Workspace) -> None:
    shown = workspace.parts("", "who renders a page?").matches
    assert shown == "ui/HTMLView.ts:1 function renderPage(p: Page)"
    workspace.files.add_file("ui/HTMLView.ts")
    assert workspace.parts("", "who renders a page?").matches == ""
    (workspace.root / "many.py").write_text("".join(f"def zebra_{'x' * 90}_{n}(): ...\n" for n in range(9)))
    (workspace.root / "more.py").write_text("".join(f"def zebra_{'y' * 90}_{n}(): ...\n" for n in range(9)))
    workspace.refresh()
    assert 0 < len(workspace.parts("", "zebra").matches) <= MATCH_TOKENS
