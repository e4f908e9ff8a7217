"""What is loaded before the workbench draws its first picture."""

from __future__ import annotations

import subprocess
import sys

LOADED = """\
import sys
import contextinfinity.cli.tui_command
import contextinfinity.cli.engine_thread
import contextinfinity.cli.weights_download
import contextinfinity.tui.workbench_app
print(*sys.modules)
"""
LATER = {"numpy", "apsw", "httpx", "httpx2", "markdown_it", "pygments", "contextinfinity.engine.engine"}


def test_the_first_picture_waits_for_no_engine() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert "contextinfinity.tui.workbench_app" in done.stdout.split()
    assert not LATER & set(done.stdout.split())
