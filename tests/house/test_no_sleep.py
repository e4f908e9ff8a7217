"""Tests wait for states, use the real parts, say why they are skipped, and run on any machine."""

from __future__ import annotations

import pytest

from tests.house import repository
from tests.house.rules import machine_paths, replaced_parts, sleeps, unexplained_skips

TESTS = repository.files("tests/*.py", "testing/*.py")

HERE = "/".join(["", "work", "main"])  # in pieces, or this file would break the rule it tests
HOME = "/".join(["", "root", ".cache"])


def test_no_test_sleeps_for_a_fixed_time() -> None:
    assert not repository.report(TESTS, sleeps)


def test_no_test_is_skipped_without_a_reason() -> None:
    assert not repository.report(TESTS, unexplained_skips)


def test_no_test_replaces_a_part_of_the_product() -> None:
    assert not repository.report(TESTS, replaced_parts)


def test_no_file_names_a_path_of_one_machine() -> None:
    assert not repository.report(repository.files(), machine_paths)


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.sleep(1)",
        "import asyncio\nawait asyncio.sleep(0.01)",
        "import asyncio\nawait asyncio.sleep(delay=2)",
        "import asyncio as aio\nawait aio.sleep(1 / 20)",
        "from time import sleep as nap\nnap(3)",
    ],
)
def test_a_fixed_sleep_is_seen(source: str) -> None:
    assert list(sleeps(source))


@pytest.mark.parametrize(
    "source",
    ["import asyncio\nawait asyncio.sleep(0)", "import time\ntime.sleep(pause)", "clock.sleep(5)", "'time.sleep(1)'"],
)
def test_giving_way_is_no_fixed_sleep(source: str) -> None:
    assert not list(sleeps(source))


@pytest.mark.parametrize(
    "source",
    [
        "import pytest\n@pytest.mark.skip\ndef test_x(): ...",
        "import pytest\n@pytest.mark.skip()\ndef test_x(): ...",
        "import pytest\npytestmark = pytest.mark.skip",
        "from pytest import mark\n@mark.skip\ndef test_x(): ...",
        "import pytest\ndef test_x():\n    pytest.skip()",
    ],
)
def test_an_unexplained_skip_is_seen(source: str) -> None:
    assert len(list(unexplained_skips(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import pytest\n@pytest.mark.skip(reason='no such terminal')\ndef test_x(): ...",
        "import pytest\n@pytest.mark.skip('no such terminal')\ndef test_x(): ...",
        "import pytest\ndef test_x():\n    pytest.skip('no such terminal')",
        "import pytest\n@pytest.mark.skipif(True, reason='no such terminal')\ndef test_x(): ...",
    ],
)
def test_an_explained_skip_is_fine(source: str) -> None:
    assert not list(unexplained_skips(source))


@pytest.mark.parametrize(
    "source",
    [
        "import unittest.mock",
        "from unittest import mock",
        "from unittest.mock import patch",
        "monkeypatch.setattr('contextinfinity.settings.load', None)",
        "from contextinfinity import settings\nmonkeypatch.setattr(settings, 'load', None)",
        "import contextinfinity.settings as s\nmonkeypatch.setattr(s, 'load', None)",
        "from contextinfinity.domain.turn import Turn\nmp.delattr(Turn, 'phase')",
        "import contextinfinity.threads\nmonkeypatch.setitem(contextinfinity.threads.THREADS, 'a', None)",
    ],
)
def test_a_replaced_part_is_seen(source: str) -> None:
    assert len(list(replaced_parts(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import os\nmonkeypatch.setattr(os, 'fsync', None)",
        "monkeypatch.setattr('os.fsync', None)",
        "monkeypatch.setenv('CONTEXTINFINITY_CONFIG', 'x')",
        "from contextinfinity_testing import builders",
    ],
)
def test_a_replaced_part_of_the_machine_is_fine(source: str) -> None:
    assert not list(replaced_parts(source))


@pytest.mark.parametrize("text", [HERE + "/x.py", f"see {HOME}", f'"{HERE}/"', f"one\ntwo ({HERE}/a)\n"])
def test_a_machine_path_is_seen(text: str) -> None:
    assert len(list(machine_paths(text + "/"))) == 1


@pytest.mark.parametrize("text", ["docs" + HERE, "." + HERE, "https://example.org" + HERE, "/workers/x"])
def test_a_path_that_only_looks_alike_is_fine(text: str) -> None:
    assert not list(machine_paths(text + "/"))
