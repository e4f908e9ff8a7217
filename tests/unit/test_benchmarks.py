"""Every benchmark runs, at sizes of seconds, and gives rows that can be shown; the floor writes the rows we write."""

from __future__ import annotations

import random
from pathlib import Path

import apsw
import pytest
from rich.console import Console

from benchmarks import report
from benchmarks.__main__ import BENCHMARKS
from benchmarks.content import ANSWER, QUESTION, Saying, content
from benchmarks.exchange import prepared
from benchmarks.floor import Floor, Place
from benchmarks.harness import TINY, Bench, Row, Series, commit_cost, machine
from benchmarks.ledgers import ledger
from benchmarks.words import text
from contextinfinity.storage.ledger.keyword_index import session_token
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import exchange, new_branch

SESSION = session_token(b"")
SAMPLE = ("exchange", "branching", "journal", "topics")
"""Benchmarks that the suite runs; ``make proof`` runs all."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(folder=tmp_path, scale=TINY, console=Console(quiet=True))


@pytest.mark.parametrize(
    "name", [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.proof) for name in BENCHMARKS]
)
async def test_a_benchmark_gives_sane_rows(name: str, bench: Bench) -> None:
    rows = await BENCHMARKS[name](bench)
    judged = [row for row in rows if row.target]
    assert judged or any(row.result.startswith(report.NOT_MEASURED) for row in rows)  # the data may be absent
    assert all(row.met is not None and row.values for row in judged)
    assert all(value >= 0 for row in rows for value in row.values.values())
    assert all(row.result for row in rows)
    assert report.markdown(rows).count("\n") == len(rows) + 1
    assert len(set(report.keys(rows))) == len(rows)


@pytest.mark.req("CHATMEM-12")
async def test_storing_history_cleanup_and_falling_back_are_held_against_their_figures(bench: Bench) -> None:
    judged = {row.target: row for row in await BENCHMARKS["chat-memory"](bench) if row.target}
    assert judged.keys() == {"p95 < 100 ms", "p95 < 200 ms", "< 5,000 ms", "p95 < 50 ms"}
    limits = {"p95 < 100 ms": 100, "p95 < 200 ms": 200, "p95 < 50 ms": 50}
    assert all(judged[figure].values["p50_ms"] < limit for figure, limit in limits.items())
    assert judged["< 5,000 ms"].met


async def test_the_floor_writes_as_many_rows_of_each_table_as_we_do(tmp_path: Path) -> None:
    (branch,) = await prepared(tmp_path / "floor.db", 1)
    floor, place = Floor(tmp_path / "floor.db"), Place.of(branch)
    store = SqliteStore(tmp_path / "ours.db")
    answered, recorded = await new_branch(store), exchange("Hello there.", "Hello to you.")
    for lean in (True, False):
        made = content(random.Random(1), lean=lean)
        for verb in Saying(store, answered.id, made).whole:
            await verb()
        floor.write(*floor.whole(place, made))
    await store.turns.record(answered.id, [recorded])
    floor.write(floor.recorded(place, recorded))
    await store.close()
    floor.close()
    assert _contents(tmp_path / "floor.db") == _contents(tmp_path / "ours.db")


def _contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """How many rows each table has, what the texts, turns and steps say, and by which words they are found."""
    connection = apsw.Connection(str(path))
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    found: dict[str, list[tuple[object, ...]]] = {
        str(name): connection.execute(f"SELECT count(*) FROM {name}").fetchall()
        for (name,) in tables.fetchall()
        if name not in ("keyword_data", "keyword_idx")  # those depend on how it was put into commits
    }
    connection.execute("CREATE VIRTUAL TABLE temp.said USING fts5vocab(main, keyword, row)")
    for columns in (
        "turn_seq, phase, outcome, provider, model, input_tokens, output_tokens, cached_tokens, cost FROM turn",
        "role, text, blocks, content_hash FROM message",
        "items, outcome, input_tokens, displayed_bytes FROM step",
        "state_seq, turn_seq, reason FROM state",
        "head_seq, last_turn_seq FROM branch",
        "body FROM plan",
        "body FROM response",
        "body FROM loose_vector",
        "side, start, end, summary, content_hash FROM chunk",
        "question FROM uncut",
        "id, sz FROM keyword_docsize",
        "messages, places, first, last FROM word_scope",
        "messages, indexed, places, chunks, version FROM word_state",
        "placed FROM namespace",
        f"term, doc FROM temp.said WHERE term NOT LIKE '{SESSION}%'",
    ):
        found[columns] = sorted(connection.execute(f"SELECT {columns}").fetchall(), key=repr)
    connection.close()
    return found


async def test_a_ledger_is_made_once(bench: Bench) -> None:
    path = await ledger(bench, 20)
    made = path.stat().st_mtime_ns
    assert await ledger(bench, 20) == path
    assert path.stat().st_mtime_ns == made
    assert _contents(path)["turn"] == [(20,)]
    assert [found.name for found in bench.folder.iterdir()] == [path.name]


def test_an_exchange_has_the_sizes_it_says() -> None:
    made = content(random.Random(2))
    assert made.end.answer is not None
    assert made.end.step is not None
    assert len(made.question.rendered_text) == QUESTION
    assert len(made.end.answer.rendered_text) == ANSWER
    assert 1_300 <= len(made.end.step.response or b"") <= 1_800
    assert text(random.Random(3), 500) != text(random.Random(4), 500)


def test_a_machine_says_what_a_commit_costs(bench: Bench, tmp_path: Path) -> None:
    assert "a durable commit costs" in machine(bench)
    assert commit_cost(tmp_path, 3).p50 > 0


def test_medians_and_percentiles_are_milliseconds() -> None:
    series = Series()
    series.seconds += [number / 1000 for number in range(1, 101)]
    assert series.p50 == pytest.approx(50.5)
    assert series.p95 == pytest.approx(96)
    assert str(series) == "50.5 ms (p95 96)"


def test_a_row_without_a_target_is_neither_met_nor_missed() -> None:
    rows = [Row(what="whole", result="2 ms", target="≤ 1 ms", met=False), Row(what="  part", result="1 ms")]
    assert "| – part |  | 1 ms |  |" in report.markdown(rows)


def test_a_run_replaces_the_results_of_its_benchmark_only(tmp_path: Path) -> None:
    rows = [Row(what="read", result="1 ms", target="≤ 2 ms", met=True), Row(what="  of which parsing", result="0.5 ms")]
    report.save("history", [*rows, Row(what="of 1,000,000", result="3 ms")], "here", full=True, folder=tmp_path)
    report.save("disk", [Row(what="size", result="1 KB"), Row(what="packed", result="9 KB")], "here", folder=tmp_path)
    report.save("history", [Row(what="read", result="4 ms")], "there", folder=tmp_path)
    kept = {result.key: (result.result, result.machine) for result in report.load("history", tmp_path)}
    assert kept == {
        "read": ("4 ms", "there"),
        "read – of which parsing": ("0.5 ms", "here"),  # an ordinary run leaves what only the full run measures
        "of 1,000,000": ("3 ms", "here"),
    }
    report.save("disk", [Row(what="size", result="not measured: no disk")], "there", folder=tmp_path)
    assert [result.result for result in report.load("disk", tmp_path)] == ["1 KB", "9 KB"]
    report.save("disk", [Row(what="size", result="2 KB")], "there", folder=tmp_path)
    assert [result.result for result in report.load("disk", tmp_path)] == ["2 KB"]
