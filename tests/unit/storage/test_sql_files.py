from pathlib import Path

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
        ("-- name: a\n-- One.\nSELECT 1\n-- name: a\n-- Two.\nSELECT 2", "a is defined twice"),
    ],
)
def test_a_careless_file_is_refused_when_it_is_loaded(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse(text, "x.sql")


def test_a_name_is_in_one_file_of_a_dialect_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dialect" / "sql").mkdir(parents=True)
    (tmp_path / "dialect" / "__init__.py").touch()
    for name in ("a", "b"):
        (tmp_path / "dialect" / "sql" / f"{name}.sql").write_text("-- name: same\n-- Twice.\nSELECT 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"b\.sql: same is in another file"):
        sql_files.load_folder("dialect", "sql")
