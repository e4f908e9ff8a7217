"""What every backend of ``contextinfinity.threads`` promises, as tests.

A backend proves itself with a few lines::

    class TestMyThreads(ThreadLogSuite):
        @pytest.fixture
        def log(self):
            log = MyThreads()
            yield log
            log.close()

The promises see the backend through its contract only. ``BACKENDS`` names those there are, and ``using`` lets the
functions of ``contextinfinity.threads`` work on one of them for a while.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("contextinfinity_testing.threads.promises", "contextinfinity_testing.threads.crowds")

from contextinfinity_testing.threads.backends import BACKENDS, unused, using, valkey_url  # noqa: E402
from contextinfinity_testing.threads.crowds import CrowdPromises  # noqa: E402
from contextinfinity_testing.threads.promises import LogPromises  # noqa: E402


class ThreadLogSuite(LogPromises, CrowdPromises):
    """Every promise of the contract. Give it a ``log`` fixture."""


__all__ = ["BACKENDS", "CrowdPromises", "LogPromises", "ThreadLogSuite", "unused", "using", "valkey_url"]
