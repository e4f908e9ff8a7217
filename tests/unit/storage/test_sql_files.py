import pytest

from contextinfinity.storage import sql_files
from contextinfinity.storage.sql_files import parse


def test_a_file_is_read_into_its_named_statements() -> None:
    statements = parse("-- About.\n\n-- name: a\n-- First.\nSELECT 1\n\n-- name: b\n-- Second.\nSELECT\n  2\n", "x.sql")
    assert dict(statements) == {"a": "SELECT 1", "b": "SELECT\n  2"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("SELECT 1\n-- name: a\n-- First.\nSELECT 1", "in front of the first name"),
        ("-- name: a\nSELECT 1", "a does not say what it is for"),
        ("-- name: a\n-- One.\nSELECT 1\n-- name: a\n-- Two.\nSELECT 2", "a stands there twice"),
    ],
)
def test_a_careless_file_is_refused_when_it_is_loaded(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse(text, "x.sql")


@pytest.mark.parametrize("filename", ["sessions", "states", "turns", "chunks", "content", "work"])
def test_the_files_of_the_sqlite_store_can_be_loaded(filename: str) -> None:
    assert sql_files.load("contextinfinity.storage.sqlite", f"{filename}.sql")
