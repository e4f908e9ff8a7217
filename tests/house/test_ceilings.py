"""Nothing grows past the size at which it can still be read in one go."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import cache

import pytest

from tests.house import repository
from tests.house.rules import Ceilings, function_lengths, over_ceilings, percentile, too_many_lines

CEILINGS = Ceilings()
MEDIAN = 10
NINETY_FIFTH = 45

# Files let off, for as long as it takes to split them. The list only shrinks.
ALLOWED: frozenset[str] = frozenset()

PYTHON = repository.files("src/*.py", "testing/*.py", "benchmarks/*.py", "tests/*.py")
SQL = repository.files("*.sql")


@cache
def over() -> list[str]:
    """Everything in the checkout that is larger than it may be."""
    reports = [
        repository.report(PYTHON, lambda source: over_ceilings(source, CEILINGS)),
        repository.report(SQL, lambda sql: too_many_lines(sql, CEILINGS.file)),
    ]
    return [line for report in reports for line in report.splitlines()]


def test_nothing_is_over_its_ceiling() -> None:
    found = [finding for finding in over() if finding.partition(":")[0] not in ALLOWED]
    assert not found, "\n".join(found)


def test_every_file_let_off_still_needs_it() -> None:
    assert {finding.partition(":")[0] for finding in over()} >= ALLOWED


def test_most_functions_are_short() -> None:
    sources = (path.read_text(encoding="utf-8") for path in repository.files("src/*.py"))
    lengths = [length for source in sources for length in function_lengths(source)]
    assert statistics.median(lengths) <= MEDIAN
    assert percentile(lengths, 0.95) <= NINETY_FIFTH


# The rule itself, on sources made to break it. Each is at its ceiling with n and over it with n + 1.


def lines(count: int) -> str:
    return "x = 1\n" * count


def function(count: int) -> str:
    return "def f():\n" + "    x = 1\n" * (count - 1)


def documented(count: int) -> str:
    return 'def f():\n    """One.\n' + "\n" * (count - 3) + '    """\n'


def coroutine(count: int) -> str:
    return f"@decorator\nasync {function(count)}"


def a_class(count: int) -> str:
    return "class C:\n" + "    x = 1\n" * (count - 1)


def parameters(count: int) -> str:
    names = [f"p{i}" for i in range(count - 2)]
    return f"def f({', '.join(names)}, *, kept=None, **rest): ..."


def method(count: int) -> str:
    names = "".join(f", p{i}" for i in range(count))
    return f"class C:\n    def f(self{names}): ..."


def static_method(count: int) -> str:
    names = ", ".join(f"p{i}" for i in range(count))
    return f"class C:\n    @staticmethod\n    def f({names}): ..."


@pytest.mark.parametrize(
    ("source", "ceiling"),
    [
        (lines, CEILINGS.file),
        (function, CEILINGS.function),
        (documented, CEILINGS.function),
        (coroutine, CEILINGS.function),
        (a_class, CEILINGS.cls),
        (parameters, CEILINGS.parameters),
        (method, CEILINGS.parameters),
        (static_method, CEILINGS.parameters),
    ],
)
def test_one_over_a_ceiling_is_seen(source: Callable[[int], str], ceiling: int) -> None:
    assert not list(over_ceilings(source(ceiling), CEILINGS))
    assert len(list(over_ceilings(source(ceiling + 1), CEILINGS))) == 1


def test_lengths_count_methods_and_nested_functions() -> None:
    source = "class C:\n    def m(self):\n        def inner():\n            pass\n        return inner\n"
    assert sorted(function_lengths(source)) == [2, 4]


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile(range(1, 101), 0.95) == 95
    assert percentile([7], 0.95) == 7
