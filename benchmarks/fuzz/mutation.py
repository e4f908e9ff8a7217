"""Damage a valid input: its structure if it is JSON, else its bytes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

DEEP = 3_000
"""Levels of nesting, more than a recursive reader survives."""
WORDS = (
    *("", "\x00", "\ud800", "\u2028", "‮", "a\u0300" * 50, "x" * 70_000, "%s%n", "../../etc/passwd", "C:\\nul", "-1"),
    *("data:image/png;base64,AAAA", "data:,", "https://[::1", "2026-13-45T99:99:99Z", "9999-12-31T23:59:59Z", "1e999"),
    *("system", "assistant", "tool", "user", "text", "image", "tool_use", "tool_result", "function", "reasoning"),
    *("00000000-0000-0000-0000-000000000000", "resp_x", "conv_x", "new", "null", "true", "<script>", "' OR 1=1 --"),
)
NUMBERS = (0, 1, -1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400, 0.1, -0.0, 1e308, 5e-324)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"": ""}, [None], float("nan"), float("inf"))
TOKENS = (
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n\n",
    b'"',
    b"\\u",
    b"\\ud800",
    b"{",
    b"]",
    b"1e999",
    b"data: ",
)
Place = tuple[Any, Any]
"""A container with a key or an index."""


def mutated(rng: random.Random, seed: bytes, others: list[bytes]) -> bytes:
    """Return a damaged copy of an input; parts of others may be put in."""
    if rng.random() < 0.75 and (value := _decoded(seed)) is not None:
        data = _encoded(rng, _restructured(rng, value))
        if rng.random() < 0.85:
            return data
    else:
        data = seed
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        data = _scratched(rng, data, rng.choice(others))
    return data


def value_mutated(rng: random.Random, value: Any) -> Any:
    """Return a damaged copy of a JSON value."""
    return _restructured(rng, value)


def _decoded(seed: bytes) -> Any:
    try:
        return json.loads(seed)
    except ValueError:
        return None


def _encoded(rng: random.Random, value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=rng.random() < 0.7, indent=rng.choice((None, None, 1)))
    if rng.random() < 0.02:
        text = text.replace("null", "[" * DEEP + "]" * DEEP, 1)
    return text.encode("utf-8", "surrogatepass")


def _restructured(rng: random.Random, value: Any) -> Any:
    root = [copy.deepcopy(value)]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        places = list(_places(root))
        _change(rng, *rng.choice(places), places)
    return root[0]


def _places(container: Any) -> Iterator[Place]:
    for key in list(container) if isinstance(container, dict) else range(len(container)):
        yield container, key
        if isinstance(container[key], dict | list):
            yield from _places(container[key])


def _change(rng: random.Random, container: Any, key: Any, places: list[Place]) -> None:
    match rng.randrange(8):
        case 0 | 1 | 2:
            container[key] = copy.deepcopy(rng.choice((rng.choice(WORDS), rng.choice(NUMBERS), rng.choice(OTHERS))))
        case 3:
            container[key] = rng.choice(
                ([container[key]], {"type": container[key]}, {rng.choice(WORDS): container[key]})
            )
        case 4 if isinstance(container, dict):
            del container[key]
        case 5 if isinstance(container, dict):
            container[rng.choice(WORDS)] = copy.deepcopy(container[key])
        case 6 if isinstance(container, list) and len(container) < 1_000:
            container.extend(copy.deepcopy([container[key]] * rng.choice((1, 2, 40))))
        case _:
            other, name = rng.choice(places)
            container[key] = copy.deepcopy(other[name])


def _scratched(rng: random.Random, data: bytes, other: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice((1, 1, 4, 50, 5_000)))
    match rng.randrange(6):
        case 0:
            return data[:start]
        case 1:
            return data[:start] + data[end:]
        case 2:
            return data[:start] + data[start:end] * 2 + data[end:]
        case 3:
            return data[:start] + rng.choice(TOKENS) * rng.choice((1, 1, 3, 2_000)) + data[start:]
        case 4:
            return data[:start] + other[rng.randrange(len(other) + 1) :]
        case _:
            return data[:start] + rng.randbytes(end - start) + data[end:]
