"""Results are cut evenly, and only as far as needed."""

from __future__ import annotations

import msgspec
import pytest

from contextinfinity.mcp_server.mcp_tools import LARGEST, bounded

pytestmark = pytest.mark.req("API-9")


def test_what_fits_is_left_as_it_is() -> None:
    result = {"turns": ["a" * 5_000] * 11, "none": None, "number": 1.5}
    assert bounded(result) is result


@pytest.mark.parametrize(
    "result",
    [
        {"text": "a" * 10**6},
        {"texts": ["東" * 5_000] * 50},
        {"messages": [{"role": "user", "blocks": [{"text": "\x01" * 9}] * 60}] * 5_000},
        {"arguments": {f"{number}" * 50: "a" for number in range(10_000)}},
        {"nested": [[["a" * 300] * 60] * 60] * 60},
    ],
)
def test_what_is_too_large_is_cut_and_says_so(result: dict[str, object]) -> None:
    written = msgspec.json.encode(bounded(result))
    assert LARGEST / 200 < len(written) <= LARGEST
    assert b"cut at character" in written or b"entries left out" in written


def test_the_newest_entries_of_a_long_list_are_kept() -> None:
    shown = bounded({"messages": [f"{number} " + "a" * 100 for number in range(5_000)]})
    assert isinstance(shown, dict)
    messages = shown["messages"]
    assert isinstance(messages, list)
    assert messages[0] == "[4,950 earlier entries left out]"
    assert str(messages[-1]).startswith("4999 ")
