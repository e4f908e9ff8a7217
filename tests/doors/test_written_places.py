"""Words of a conversation are written to the data_dir and to a workspace's own folder, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.doors.cix import ECHO

WORDS = "The heliotrope password is xylophone."
CHAT = f"{WORDS}\n/search heliotrope\n/context\n/pin heliotrope\n"


@pytest.mark.req("SAFE-3")
def test_words_are_written_to_the_data_dir_and_the_folder_of_the_workspace_alone(tmp_path: Path) -> None:
    data, project = tmp_path / "data", tmp_path / "project"
    for folder in ("data", "project", "home", "tmp"):
        (tmp_path / folder).mkdir()
    (data / "config.toml").write_text(ECHO, encoding="utf-8")
    home = {name: str(tmp_path / "home") for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path / "tmp"), "TERM": "dumb", **home}
    command = [sys.executable, "-m", "contextinfinity"]
    for arguments, stdin in ((["ask", "--workspace", ".", WORDS], ""), (["chat", "--session", "last"], CHAT)):
        whole = [*command, *arguments, "--data-dir", str(data)]
        done = subprocess.run(whole, env=environment, cwd=project, input=stdin, capture_output=True, text=True)
        assert (done.returncode, "xylophone" in done.stdout) == (0, True), done.stderr
    holding = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file() and holds_words(path)}
    assert {path.parts[0] for path in holding} == {"data", "project"}
    (own,) = {path.parts[1] for path in holding if path.parts[0] == "project"}
    assert (project / own / ".gitignore").read_text(encoding="utf-8").split() == ["*"]


def holds_words(path: Path) -> bool:
    """Return whether a file holds words of the conversation."""
    return b"xylophone" in path.read_bytes()
