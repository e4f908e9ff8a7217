"""Code in what was said: told from prose that is set in, and cut between functions."""

from __future__ import annotations

import re

import pytest

from contextinfinity.retrieval.chunking import chunks_of
from tests.unit.retrieval.turns import prose, turn

STEPS = "".join(
    f"""	if value > {number} {{
		return fmt.Errorf("step {number} of %s went wrong with %d", name, value)
	}}
	value = value*{number} + 1
"""
    for number in range(18)
)
GO = "package stairs\n\n" + "".join(f"func climb{n}(name string, value int) error {{\n{STEPS}}}\n\n" for n in range(8))
JAVA = "public class Stairs {\n" + re.sub(r"(?m)^func (\w+)\(.*$", r"\tpublic int \1(int value) {", GO[16:]) + "}\n"
MINIFIED = "/*! stairs 1.0\nmade by Ann\nin Ulm\nMIT\n" + "".join(
    f'function s{n}(e,t){{var n=t.of[{n}];if(!n)throw new Error("no step");return e.map(function(i){{return i+n}})}};'
    for n in range(120)
)


@pytest.mark.req("RETRIEVE-1")
@pytest.mark.parametrize(
    "text",
    [
        "Options:\n- Buy\n  - now, cash\n  - on credit\n  - never\n  - perhaps\n- Sell\n  - to Ann\n  - to Bob\n",
        "Roses are red,\n    violets are blue,\n    sugar is sweet,\n    and so are you.\n    The poem is old.\n",
        "  Dear Ann,\n  I write to you from the lake.\n  The weather is good.\n  Yours, Bob\n",
    ],
)
def test_words_that_are_set_in_are_no_code(text: str) -> None:
    assert "Code" not in {cut.chunk_type for cut in chunks_of(turn(text, text))}


@pytest.mark.req("RETRIEVE-1")
@pytest.mark.parametrize(
    "text",
    [
        MINIFIED,
        '{"name":"Ann","age":42,"tags":["a","b"],"nested":{"x":[1,2,3],"y":null}}',
        '{\n  "name": "Ann",\n  "age": 42,\n  "town": "Ulm",\n  "job": "baker"\n}\n',
        "SELECT u.name\nFROM users u\nJOIN orders o ON o.user_id = u.id\nWHERE u.age > 30\nORDER BY 1",
        "jobs:\n  test:\n    runs-on: ubuntu\n    steps:\n      - uses: checkout\n",
    ],
)
def test_code_and_data_that_nobody_marked_are_code(text: str) -> None:
    assert {cut.chunk_type for cut in chunks_of(turn(text, None))} == {"Code"}


@pytest.mark.req("RETRIEVE-1")
@pytest.mark.parametrize(("code", "opening"), [(GO, "func climb"), (JAVA, "\tpublic int climb")])
def test_a_function_is_not_cut_where_one_of_its_blocks_ends(code: str, opening: str) -> None:
    cuts = chunks_of(turn(code, None))
    assert len(cuts) > 3
    assert all(cut.text.startswith(opening) for cut in cuts[1:])


@pytest.mark.req("RETRIEVE-1")
def test_code_without_blanks_is_cut_between_its_statements() -> None:
    cuts = chunks_of(turn(MINIFIED, None))
    assert len(cuts) > 3
    assert all(MINIFIED[cut.own - 1] in ";}" for cut in cuts[1:])


@pytest.mark.req("RETRIEVE-1")
def test_a_heading_stays_with_the_code_it_introduces() -> None:
    for words in range(120, 280, 11):
        code = f"## Stairs\n\n### The stairs in full\n\n```go\n{GO[: GO.index('func climb1')]}```\n"
        (holder,) = [cut for cut in chunks_of(turn("", f"{prose(words)}\n\n{code}")) if "### The" in cut.text]
        assert "func climb0" in holder.text
