"""The line finder must agree with the real parser on every key, in whatever way the key is written."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.settings.config_file import KeyPath, key_lines

pytestmark = pytest.mark.req("CONFIG-1")


def test_sections_and_keys_are_found_on_their_lines() -> None:
    assert key_lines("# note\n[budget]\n\nflush = 1 # why\n  [models.gpt] # mine\nx = 2\n") == {
        ("budget",): 2,
        ("budget", "flush"): 4,
        ("models",): 5,
        ("models", "gpt"): 5,
        ("models", "gpt", "x"): 6,
    }


def test_dotted_and_quoted_keys_are_found_under_the_name_they_spell() -> None:
    text = "\"bud\\u0067et\" . 'pins.limit' = 1\nbudget.other = 2\n"
    assert key_lines(text) == {("budget",): 1, ("budget", "pins.limit"): 1, ("budget", "other"): 2}


def test_keys_of_inline_tables_are_found() -> None:
    text = 'models = { gpt = { provider = "a}b", limit = [1, 2] }, x.y = 3 }\n'
    assert key_lines(text) == dict.fromkeys(_paths(tomllib.loads(text)), 1)


@pytest.mark.parametrize(
    "value",
    [
        '"""\n[fake]\nfake = 1\n\\""" still\n"""""',
        "'''\n[fake]\nfake = 1 '' \\\n'''''",
        '[\n  "]", # fake = 1 ]\n  [ { fake = 1 }, """\n]\n""" ],\n]',
        "[\n\n]",
    ],
)
def test_what_looks_like_a_key_inside_a_long_value_is_not_taken_for_one(value: str) -> None:
    text = f"first = {value}\nlast = 1\n"
    assert tomllib.loads(text)["last"] == 1
    found = {path: line for path, line in key_lines(text).items() if len(path) == 1}
    assert found == {("first",): 1, ("last",): text.count("\n")}


@pytest.mark.parametrize("value", ["1979-05-27 07:32:00Z", "1979-05-27", "07:32:00", "-inf", "0x1", '""', "''", "true"])
def test_a_short_value_ends_where_it_ends(value: str) -> None:
    assert key_lines(f"a = {value}\nb = {{ c = {value}, d = {value} }} # e = 1\nf = [{value}]\ng = 1") == {
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 2,
        ("b", "d"): 2,
        ("f",): 3,
        ("g",): 4,
    }


def test_the_tables_of_an_array_are_told_apart_by_their_number() -> None:
    assert key_lines("[[server]]\nport = 1\n\n[[server]]\nport = 2\n[server.log]\nto = 3\n") == {
        ("server",): 1,
        ("server", 0): 1,
        ("server", 0, "port"): 2,
        ("server", 1): 4,
        ("server", 1, "port"): 5,
        ("server", 1, "log"): 6,
        ("server", 1, "log", "to"): 7,
    }
    assert key_lines("rules = [\n  'a', {b = 1},\n  {b.c = 2}, [{d = 3}]]\n") == {
        ("rules",): 1,
        ("rules", 1): 2,
        ("rules", 1, "b"): 2,
        ("rules", 2): 3,
        ("rules", 2, "b"): 3,
        ("rules", 2, "b", "c"): 3,
        ("rules", 3, 0): 3,
        ("rules", 3, 0, "d"): 3,
    }


def test_windows_line_ends_count_once() -> None:
    assert key_lines("[a]\r\nb = 1\r\n\r\nc = 2\r\n") == {("a",): 1, ("a", "b"): 2, ("a", "c"): 4}


def test_a_text_that_is_not_toml_gives_the_lines_that_could_be_read() -> None:
    assert key_lines("a = 1\n???") == {("a",): 1}


KEYS = st.one_of(st.text(alphabet="ab_-1", min_size=1, max_size=4), st.text(alphabet='a.=[]{}#"\\ é', max_size=4))
FILLERS = st.lists(st.sampled_from(["", "# [x] y = 1", "\t", "  # '''"]), max_size=3)
VALUES = st.sampled_from(
    [
        "1",
        "1e3",
        "1979-05-27 07:32:00.5-07:00",
        '"# = [\\" ]"',
        "'\\'",
        '"""\nk = 1\n[t]\n"""',
        "'''\n\"\"\"\nk = 1'''",
        "[1, [2, 3],\n # ]\n '''\n''',]",
        "[{ k = 1, l.m = [2] },\n  {}]",
        "{}",
        "{ k = '}', l.m = [\n1], \"n o\" = { p = 2 } }",
    ]
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[KeyPath, int]]:
    """A TOML text, and the line on which each of its tables and plain keys was written."""
    lines: list[str] = []
    expected: dict[KeyPath, int] = {}
    for table in draw(st.lists(KEYS, unique=True, min_size=1, max_size=4)):
        lines += draw(FILLERS)
        expected[(table,)] = len(lines) + 1
        lines.append(f"  [ {_written(draw, table)} ]")
        for key in draw(st.lists(KEYS, unique=True, max_size=4)):
            lines += draw(FILLERS)
            expected[(table, key)] = len(lines) + 1
            lines += f"{_written(draw, key)} = {draw(VALUES)} # end".split("\n")
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines), expected


def _written(draw: st.DrawFn, key: str) -> str:
    ways = [json.dumps(key)]
    if key and all(sign in "ab_-1" for sign in key):
        ways += [key, f"'{key}'"]
    return draw(st.sampled_from(ways))


@given(documents())
def test_every_key_of_any_document_is_found_on_the_line_it_was_written_on(
    document: tuple[str, dict[KeyPath, int]],
) -> None:
    text, expected = document
    found = key_lines(text)
    assert found.keys() == set(_paths(tomllib.loads(text)))
    assert {path: found[path] for path in expected} == expected


def _paths(value: object, above: KeyPath = ()) -> Iterator[KeyPath]:
    """Every key and every table, also those in arrays."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*above, key)
            yield from _paths(inner, (*above, key))
    for number, inner in enumerate(value if isinstance(value, list) else ()):
        if isinstance(inner, dict):
            yield (*above, number)
        yield from _paths(inner, (*above, number))
