from __future__ import annotations

import os
from pathlib import Path

import pytest

from contextinfinity import FileContext
from contextinfinity.errors import FileRefused
from contextinfinity.workspace.files import fenced


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "repo" / "src").mkdir(parents=True)
    (tmp_path / "repo" / "src" / "a.py").write_text("print('a')\n")
    (tmp_path / "repo" / "b.md").write_text("# B")
    (tmp_path / "secret.txt").write_text("outside")
    return tmp_path / "repo"


@pytest.mark.req("FILES-1")
def test_a_file_is_added_with_given_content_or_from_disk(root: Path) -> None:
    files = FileContext(root)
    assert files.add_file("src/a.py")
    assert files.add_file("not/on/disk.py", "x = 1\n")
    assert files.get_content("src/a.py") == "print('a')\n"
    assert files.get_content("not/on/disk.py") == "x = 1\n"
    assert files.get_files() == ["not/on/disk.py", "src/a.py"]


@pytest.mark.req("FILES-1")
@pytest.mark.parametrize("missing", ["none.py", "src/a.py/deeper", "src/none/b.py"])
def test_adding_a_file_that_is_missing_returns_false(root: Path, missing: str) -> None:
    assert FileContext(root).add_file(missing) is False


@pytest.mark.req("FILES-1")
def test_files_can_be_asked_for_removed_and_cleared(root: Path) -> None:
    files = FileContext(root)
    files.add_file("src/a.py")
    files.add_file("b.md")
    assert files.get_files() == ["b.md", "src/a.py"]
    assert (files.has_file("b.md"), files.has_file("c.md"), files.has_file("../b.md")) == (True, False, False)
    assert (files.remove_file("b.md"), files.remove_file("b.md")) == (True, False)
    assert files.get_content("b.md") is None
    files.clear()
    assert files.get_files() == []


@pytest.mark.req("FILES-1")
@pytest.mark.parametrize("path", ["\\src\\a.py", "/src/a.py/", "src//a.py", "./src/a.py", "src\\a.py"])
def test_a_path_is_the_same_file_however_it_is_written(root: Path, path: str) -> None:
    files = FileContext(root)
    assert files.add_file(path)
    assert files.add_file(root / "src" / "a.py")
    assert files.get_files() == ["src/a.py"]


@pytest.mark.req("FILES-1")
@pytest.mark.parametrize("path", ["../secret.txt", "src/../../secret.txt", "src\\..\\b.md", "src/../b.md", "..", ""])
def test_a_path_with_two_dots_or_none_is_refused(root: Path, path: str) -> None:
    files = FileContext(root)
    with pytest.raises(FileRefused):
        files.add_file(path)
    with pytest.raises(FileRefused):
        files.add_file(path, "content")
    assert files.get_files() == []


@pytest.mark.req("FILES-1")
def test_two_dots_inside_a_name_are_a_name(root: Path) -> None:
    assert FileContext(root).add_file("a..b.py", "x")


@pytest.mark.req("FILES-1")
def test_a_symbolic_link_does_not_lead_outside(root: Path) -> None:
    (root / "link").symlink_to("../secret.txt")
    (root / "folder").symlink_to("..")
    (root / "inside").symlink_to("src/a.py")
    files = FileContext(root)
    for path in ("link", "folder/secret.txt"):
        with pytest.raises(FileRefused, match="outside"):
            files.add_file(path)
    assert files.add_file("inside")


@pytest.mark.req("FILES-1", "API-8")
@pytest.mark.parametrize(
    "path",
    [
        *(".contextinfinity/users/a/history.jsonl", ".git/config", ".GIT/config", "sub/.ac-dc/h.jsonl"),
        *("link/a/history.jsonl", "one"),
    ],
)
def test_the_folders_that_are_never_listed_are_never_opened(root: Path, path: str) -> None:
    for kept in (".contextinfinity/users/a/history.jsonl", ".git/config", ".GIT/config", "sub/.ac-dc/h.jsonl"):
        (root / kept).parent.mkdir(parents=True, exist_ok=True)
        (root / kept).write_text("what another user said")
    (root / "link").symlink_to(".contextinfinity/users")
    (root / "one").symlink_to(".contextinfinity/users/a/history.jsonl")
    files = FileContext(root)
    with pytest.raises(FileRefused, match="not opened"):
        files.add_file(path)
    assert files.get_files() == []


@pytest.mark.req("FILES-1")
def test_an_open_file_that_becomes_a_link_to_a_closed_folder_leaves_the_context(root: Path) -> None:
    (root / ".contextinfinity").mkdir()
    (root / ".contextinfinity" / "history.jsonl").write_text("what another user said")
    files = FileContext(root)
    files.add_file("b.md")
    (root / "b.md").unlink()
    (root / "b.md").symlink_to(".contextinfinity/history.jsonl")
    assert files.refresh() == ["b.md"]
    assert files.get_files() == []


@pytest.mark.req("FILES-1")
def test_what_is_no_text_file_is_refused(root: Path) -> None:
    (root / "image.bin").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    (root / "large.txt").write_bytes(b"x" * 101)
    os.mkfifo(root / "pipe")
    files = FileContext(root, max_bytes=100)
    for path, reason in {"image.bin": "binary", "large.txt": "larger than 100", "pipe": "regular", "src": "."}.items():
        with pytest.raises(FileRefused, match=reason):
            files.add_file(path)
    for content in ("nul \x00", "x" * 101, "\ud800"):
        with pytest.raises(FileRefused):
            files.add_file("given.txt", content)
    assert files.get_files() == []


@pytest.mark.req("FILES-1")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "shift_jis"])
def test_the_encoding_of_a_file_is_found(root: Path, encoding: str) -> None:
    text = "これは日本語の文章です。" * 20 if encoding == "shift_jis" else "Größe: naïve café, übermäßig schön. " * 8
    (root / "text.txt").write_bytes(text.encode(encoding))
    files = FileContext(root)
    files.add_file("text.txt")
    assert files.get_content("text.txt") == text


@pytest.mark.req("FILES-1")
def test_files_are_written_sorted_with_path_and_fence_and_a_blank_line_between(root: Path) -> None:
    files = FileContext(root)
    files.add_file("src/a.py")
    files.add_file("b.md")
    assert files.format_for_prompt() == "b.md\n```\n# B\n```\n\nsrc/a.py\n```\nprint('a')\n```"
    assert FileContext(root).format_for_prompt() == ""


@pytest.mark.req("FILES-1")
@pytest.mark.parametrize(
    "content", ["```\ncode\n```\n", "  ````text\n", "a ``` b\n", "`````\n```\n", "x\r```\rforged\n"]
)
def test_a_fence_is_longer_than_any_fence_in_the_file(content: str) -> None:
    lines = fenced("a.md", content).split("\n")
    assert lines[1] == lines[-1]
    assert "\n".join(lines[2:-1]) + "\n" == content
    assert lines[1] not in content


@pytest.mark.req("FILES-1")
def test_tokens_are_counted_per_file_and_in_all(root: Path) -> None:
    files = FileContext(root)
    files.add_file("src/a.py")
    files.add_file("b.md")
    by_file = files.get_tokens_by_file(len)
    assert by_file.keys() == {"b.md", "src/a.py"}
    assert all(tokens > 0 for tokens in by_file.values())
    assert files.count_tokens(len) == sum(by_file.values())


@pytest.mark.req("FILES-1")
def test_a_file_that_changes_on_disk_is_read_again_and_one_that_goes_leaves(root: Path) -> None:
    files = FileContext(root)
    for path in ("src/a.py", "b.md"):
        files.add_file(path)
    files.add_file("given.py", "as given")
    assert files.refresh() == []
    (root / "src" / "a.py").write_text("print('changed')\n")
    (root / "b.md").unlink()
    assert files.refresh() == ["b.md", "src/a.py"]
    assert files.get_content("src/a.py") == "print('changed')\n"
    assert files.get_files() == ["given.py", "src/a.py"]


@pytest.mark.req("FILES-1")
def test_a_file_that_becomes_a_link_to_the_outside_leaves_the_context(root: Path) -> None:
    files = FileContext(root)
    files.add_file("b.md")
    (root / "b.md").unlink()
    (root / "b.md").symlink_to("../secret.txt")
    assert files.refresh() == ["b.md"]
    assert files.get_files() == []
