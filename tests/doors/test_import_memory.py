"""A large export is imported in bounded memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doors.cix import Cix

MOST_MEGABYTES = 700
"""A conversation is held as a whole, with the batch before it; everything else is read and written piece by piece."""


def write_export(file: Path, size: int) -> int:
    """Write a ChatGPT export of about that many bytes; return how many conversations it has."""
    mapping: dict[str, object] = {"root": {"id": "root", "message": None, "parent": None, "children": ["0"]}}
    for number in range(2000):
        role = "assistant" if number % 2 else "user"
        content = {"content_type": "text", "parts": [f"message {number} " + "gnomon heron sundial " * 60]}
        message = {"author": {"role": role}, "create_time": 1.7e9 + number, "content": content, "recipient": "all"}
        parent = f"{number - 1}" if number else "root"
        mapping[f"{number}"] = {"id": f"{number}", "message": message, "parent": parent, "children": []}
    text = json.dumps({"title": "Long", "mapping": mapping, "current_node": "1999", "conversation_id": "CONVERSATION"})
    count = max(size // len(text), 1)
    with file.open("w") as stream:
        stream.write("[")
        stream.writelines(
            ("," if number else "") + text.replace("CONVERSATION", f"c{number}") for number in range(count)
        )
        stream.write("]")
    return count


@pytest.mark.req("CLI-3")
@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_an_import_of_two_gigabytes_takes_bounded_memory(cix: Cix, tmp_path: Path) -> None:
    count = write_export(file := tmp_path / "conversations.json", 2 << 30)
    run = [sys.executable, "-m", "contextinfinity", "import", str(file), "--data-dir", str(cix.folder), "--json"]
    done = subprocess.run(run, capture_output=True, check=True)
    imported = json.loads(done.stdout)["sessions"]
    assert len(imported) == count
    assert {one["added"] for one in imported} == {2000}
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024 < MOST_MEGABYTES
