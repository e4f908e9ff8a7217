"""Conformance tests for backends of ``contextinfinity.threads``.

To test a backend, subclass the suite::

    class TestMyThreads(ThreadLogSuite):
        @pytest.fixture
        def log(self):
            log = MyThreads()
            yield log
            log.close()

The tests use the backend through its contract only. ``BACKENDS`` lists the backends; ``using`` makes the
functions of ``contextinfinity.threads`` use one of them within a block.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("contextinfinity_testing.threads.promises", "contextinfinity_testing.threads.crowds")

from contextinfinity_testing.threads.backends import BACKENDS, unused, using, valkey_url  # noqa: E402
from contextinfinity_testing.threads.crowds import CrowdPromises  # noqa: E402
from contextinfinity_testing.threads.promises import LogPromises  # noqa: E402


class ThreadLogSuite(LogPromises, CrowdPromises):
    """All tests of the contract. A subclass defines the fixture ``log``."""


__all__ = ["BACKENDS", "CrowdPromises", "LogPromises", "ThreadLogSuite", "unused", "using", "valkey_url"]
