"""What users need to test against ContextInfinity: conformance suites and builders. It needs pytest."""

from __future__ import annotations

import pytest

# Before a suite is imported, so that a broken promise shows what was compared.
pytest.register_assert_rewrite("contextinfinity_testing.stores", "contextinfinity_testing.clients")
