"""Exports of other programs into a ledger, and hostile files that look like them."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.message import ImageBlock, ToolCallItem, ToolOutputItem, blobs_of, blocks_of
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.turn import Turn
from contextinfinity.errors import InvalidInput
from contextinfinity.exchange import chatgpt
from contextinfinity.exchange.archive import NoAssets
from contextinfinity.exchange.conversation_tree import turns_of as tree_turns
from contextinfinity.exchange.import_progress import Format, Imported
from contextinfinity.exchange.importer import import_file
from contextinfinity.storage.contract import Store
from contextinfinity.storage.sqlite.store import SqliteStore
from tests.house.repository import ROOT

SAMPLES = ROOT / "tests" / "samples" / "exports"
GARDEN = "6650aa10-0001-4c1e-9000-00000000c001"
TRAMS = "6650aa10-0002-4c1e-9000-00000000c002"
ODD = "6650aa10-0003-4c1e-9000-00000000c003"
SWIFTS = "6650aa10-0004-4c1e-9000-00000000c004"
OVEN = "7751bb20-0002-4c1e-9000-00000000d002"
BREAD = "7751bb20-0001-4c1e-9000-00000000d001"


@pytest.fixture
def store() -> Store:
    return SqliteStore(None)


async def load(store: Store, path: Path, form: Format = "auto") -> Imported:
    return await import_file(store, path, owner=Owner(), form=form)


async def session_of(store: Store, name: str) -> Session:
    session = await store.sessions.find(Owner(), name)
    assert session is not None
    return session


async def lines_of(store: Store, name: str) -> list[list[tuple[int, str, str]]]:
    """Return (turn_seq, question, answer) of every branch, the oldest branch first."""
    session = await session_of(store, name)
    branches = await store.branches.list(session.id)
    seen = [await store.turns.history(branch.id, limit=100) for branch in branches]
    return [[(turn.turn_seq, turn.user_message.rendered_text, turn.text) for turn in turns] for turns in seen]


async def turns_of(store: Store, name: str) -> tuple[Turn, ...]:
    return await store.turns.history((await session_of(store, name)).active_branch, limit=100)


def output_of(item: object) -> Any:
    assert isinstance(item, ToolOutputItem)
    return item.output


@pytest.mark.req("CLI-3")
async def test_a_chatgpt_export_keeps_branches_edits_times_models_and_titles(store: Store) -> None:
    imported = await load(store, SAMPLES / "chatgpt_conversations.json")
    assert [one.added for one in imported.sessions] == [9, 13, 4, 13]
    assert await lines_of(store, GARDEN) == [
        [
            (1, "How deep should a raised bed be for carrots?", "Carrots want 30 to 40 cm, without stones."),
            (2, "And for potatoes?", "Potatoes need 40 cm; a box of 40 by 60 cm then takes 72 litres."),
        ],
        [
            (1, "How deep should a raised bed be for carrots?", "Carrots want 30 to 40 cm, without stones."),
            (2, "And for radishes?", "15 cm is enough for radishes."),
        ],
        [(1, "How deep should a raised bed be for carrots?", "At least 30 cm of loose soil.")],
    ]
    session = await session_of(store, GARDEN)
    assert (session.title, f"{session.created_at:%F}") == ("Raised beds on a balcony", "2024-06-01")
    assert session.system == "I garden on a small balcony in Lisbon.\n\nAnswer in metric units."
    first, second = await turns_of(store, GARDEN)
    assert (first.model, first.created_at.isoformat()) == ("gpt-4o-mini", "2024-06-01T07:00:01+00:00")
    call, result = second.rounds
    assert isinstance(call, ToolCallItem)
    assert isinstance(result, ToolOutputItem)
    assert (call.name, call.arguments, result.call_id) == (
        "python",
        {"code": "print(40 * 60 * 30 / 1000)"},
        call.call_id,
    )


@pytest.mark.req("CLI-3")
async def test_images_browsing_voice_and_canvas_of_a_zip_are_kept(store: Store) -> None:
    await load(store, SAMPLES / "chatgpt.zip")
    first, second, third = await turns_of(store, TRAMS)
    image, words = first.user_message.blocks
    assert isinstance(image, ImageBlock)
    (blob,) = blobs_of(first.user_message.blocks)
    assert (await store.contents.blob(blob) or (b"", ""))[1] == "image/png"
    assert first.user_message.rendered_text == "Which line is the yellow one?" == getattr(words, "text", "")
    results = [item for item in first.rounds if isinstance(item, ToolOutputItem)]
    calls = [item for item in first.rounds if isinstance(item, ToolCallItem)]
    assert "Line 28 is painted yellow." in str(results[0].output)
    assert "https://example.org/trams" in str(results[1].output)
    assert [call.call_id for call in calls] == [result.call_id for result in results]
    assert second.user_message.rendered_text == "Write me a short notice about it."
    assert "Line 28 stops at the square every ten minutes." in second.text
    assert blobs_of(blocks_of(third.rounds)) == (blob,)


@pytest.mark.req("CLI-3")
async def test_every_kind_of_content_of_chatgpt_is_kept(store: Store) -> None:
    await load(store, SAMPLES / "chatgpt.zip")
    session = await session_of(store, SWIFTS)
    assert session.system == "1. [2025-05-02]. Counts birds in Porto.\n\nBirdwatcher\n\nShort answers"
    first, second, third = await turns_of(store, SWIFTS)
    assert [type(item).__name__ for item in first.rounds] == [
        "ReasoningItem",
        "ReasoningItem",
        "ToolCallItem",
        "ToolOutputItem",
    ]
    assert "Swifts · https://example.org/swifts\\nThey leave in late July." in json.dumps(
        output_of(first.rounds[-1]), ensure_ascii=False
    )
    assert first.text == "Most leave in late July. ([Swifts](https://example.org/swifts))"
    assert second.user_message.rendered_text == "[file: counts.csv]"
    (blob,) = blobs_of(blocks_of(second.rounds))
    assert await store.contents.blob(blob)
    assert [len(blobs_of(blocks_of((item,)))) for item in second.rounds] == [0, 1, 0, 1], "a plot and a screenshot"
    assert (third.user_message.rendered_text, third.text) == ("And the martins?", "They stay until September.")
    origins = (await store.imports.origins([first.id]))[first.id]
    assert "Swifts leave early." in str([origin.details for origin in origins])


@pytest.mark.req("CLI-3")
async def test_files_artifacts_sources_and_memories_of_claude_are_kept(store: Store) -> None:
    await load(store, SAMPLES / "claude.zip")
    first, second = await turns_of(store, OVEN)
    assert first.user_message.rendered_text == "[file: oven.jpg]"
    assert "Oven card\n\nHeat to 250 degrees." in str(blocks_of(first.rounds)).replace("\\n", "\n")
    assert "https://example.org/ovens" in str(output_of(first.rounds[-1]))
    assert (second.user_message.rendered_text, second.answer) == ("Note\nThanks, is stone better?", None)
    origins = (await store.imports.origins([second.id]))[second.id]
    assert "Stone keeps heat." in str([origin.details for origin in origins])
    (lines,) = await lines_of(store, "memories-acc")
    assert [question for _, question, _ in lines] == ["**Work**\n\nRuns a bakery in Braga.", "Rye breads only."]


@pytest.mark.req("CLI-3")
async def test_a_recursive_export_of_librechat_may_be_longer_than_json_can_be_nested(
    store: Store, tmp_path: Path
) -> None:
    tree = "[]"
    for number in reversed(range(1200)):
        fields = {"messageId": f"m{number}", "parentMessageId": f"m{number - 1}", "isCreatedByUser": number % 2 == 0}
        message = json.dumps({**fields, "text": f'{number} "children":[{{', "children": "INSIDE"})
        tree = "[" + message.replace('"INSIDE"', tree) + "]"
    (file := tmp_path / "deep.json").write_text(f'{{"conversationId": "deep", "messagesTree": {tree}, "title": "T"}}')
    (one,) = (await load(store, file)).sessions
    assert (one.added, one.bad) == (1200, ())
    (lines,) = await lines_of(store, "deep")
    assert lines[-1] == (600, '1198 "children":[{', '1199 "children":[{')
    file.write_text('{"conversationId": "broken", "messagesTree": [{"messageId": "a", "text": "b", "children": [')
    with pytest.raises(InvalidInput):
        await load(store, file)


@pytest.mark.req("CLI-3")
async def test_what_cannot_be_read_is_told_with_its_place_and_the_rest_goes_in(store: Store) -> None:
    imported = await load(store, SAMPLES / "chatgpt.zip")
    (bad,) = [bad for one in imported.sessions for bad in one.bad]
    assert (bad.file, bad.line, bad.reason) == ("conversations.json", 1, "node o-bad: it is not an object")
    (odd,) = await turns_of(store, ODD)
    assert odd.text.endswith("The page could not be read.")
    assert "a_kind_of_tomorrow" in str(odd.answer), "an unknown kind of content is kept as it is"


@pytest.mark.req("CLI-3")
@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir()))
async def test_every_export_adds_each_message_once(store: Store, name: str) -> None:
    first = await load(store, SAMPLES / name)
    again = await load(store, SAMPLES / name)
    assert sum(one.added for one in first.sessions) > 0
    assert sum(one.added for one in again.sessions) == 0
    assert [one.messages for one in again.sessions] == [one.messages for one in first.sessions]


@pytest.mark.req("CLI-3")
async def test_a_claude_export_keeps_attachments_tools_branches_and_projects(store: Store) -> None:
    await load(store, SAMPLES / "claude.zip")
    main, other = await lines_of(store, BREAD)
    assert [answer for _, _, answer in main] == ["I will look that up.\n\nAbout 14 hours.", "Two days at 5 degrees."]
    assert [question for _, question, _ in other][1] == "And at 24?"
    first, _ = await turns_of(store, BREAD)
    assert "recipe.txt:\n500 g rye" in first.user_message.rendered_text
    assert [type(item).__name__ for item in first.rounds] == ["AssistantItem", "ToolCallItem", "ToolOutputItem"]
    session = await session_of(store, BREAD)
    assert (session.title, session.system) == ("Sourdough timing", "You help a small bakery.")
    ((_, document, _),) = (await lines_of(store, "7751bb20-0009-4c1e-9000-0000000000f1"))[0]
    assert document.startswith("flour.md:\nRye type 1150")


@pytest.mark.req("CLI-3")
async def test_open_webui_and_librechat_exports_keep_their_branches(store: Store) -> None:
    await load(store, SAMPLES / "open_webui.json")
    chain, other = await lines_of(store, "8852cc30-0001-4c1e-9000-00000000e001")
    assert [answer for _, _, answer in chain] == ["Every 200 km, and after rain.", "A dry one in summer."]
    assert other == [(1, "How often do I oil a chain?", "Every 300 km.")]
    assert chain[1][1] == "With which oil?\n\noils.txt:\nWax, dry, wet."
    turn = (await turns_of(store, "8852cc30-0001-4c1e-9000-00000000e001"))[-1]
    assert "Dry roads." in str((await store.imports.origins([turn.id]))[turn.id])
    await load(store, SAMPLES / "librechat.json")
    tides, second = await lines_of(store, "9953dd40-0001-4c1e-9000-00000000f001")
    assert [answer for _, _, answer in tides] == ["At 06:12 and 18:40.", "At 07:01 and 19:30."]
    assert second[-1][2] == "About 50 minutes later."


@pytest.mark.req("CLI-3")
async def test_lines_of_message_lists_become_conversations(store: Store) -> None:
    imported = await load(store, SAMPLES / "messages.jsonl")
    assert [(one.added, one.bad_count) for one in imported.sessions] == [(2, 0), (4, 1)]
    (turn,) = await turns_of(store, "m-2")
    assert (turn.user_message.rendered_text, turn.text) == ("How heavy is a litre of milk?", "1.03 kg.")
    assert [type(item).__name__ for item in turn.rounds] == ["ToolCallItem", "ToolOutputItem"]


@pytest.mark.req("CLI-3")
async def test_the_logs_of_llm_are_read(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("""
            CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
            CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, prompt_json TEXT,
              options_json TEXT, response TEXT, response_json TEXT, conversation_id TEXT, duration_ms INTEGER,
              datetime_utc TEXT);
            INSERT INTO conversations VALUES ('c', 'Names of winds', 'gpt-4o-mini');
            INSERT INTO responses VALUES ('r1', 'gpt-4o-mini', 'A wind of Trieste?', 'Be short.', '{}', '{}',
              'The bora.', '{}', 'c', 3, '2025-01-02T03:04:05.678901+00:00');
            INSERT INTO responses VALUES ('r2', 'gpt-4o-mini', 'And of Marseille?', NULL, '{}', '{}',
              'The mistral.', '{}', 'c', 3, '2025-01-02T03:05:05.678901+00:00');
            CREATE TABLE fragments (id INTEGER PRIMARY KEY, hash TEXT, content TEXT, datetime_utc TEXT, source TEXT);
            CREATE TABLE prompt_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER);
            INSERT INTO fragments VALUES (7, 'h', 'Winds have names.', '2025-01-02', 'winds.txt');
            INSERT INTO prompt_fragments VALUES ('r2', 7, 0);
        """)
    (one,) = (await load(store, path)).sessions
    assert (one.added, (await session_of(store, "c")).title) == (4, "Names of winds")
    assert [line[1:] for line in (await lines_of(store, "c"))[0]] == [
        ("A wind of Trieste?", "The bora."),
        ("Winds have names.\n\nAnd of Marseille?", "The mistral."),
    ]
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE x (y)")
    with pytest.raises(InvalidInput, match="not one of `llm`"):
        await load(store, other)


@pytest.mark.req("CLI-3")
async def test_the_message_store_of_newer_releases_of_llm_is_read(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("""
            CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, forked_from TEXT,
              datetime_utc TEXT);
            CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT,
              model TEXT, datetime_utc TEXT);
            CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT);
            CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT,
              text TEXT, payload TEXT);
            CREATE TABLE fragments (id INTEGER PRIMARY KEY, content TEXT);
            INSERT INTO threads VALUES ('t', 'Sums', 'h5', NULL, '2026-08-01T00:00:00+00:00');
            INSERT INTO turns VALUES ('1', 't', 'h2', 'h3', 'echo', '2026-08-01T00:00:01+00:00');
            INSERT INTO turns VALUES ('2', 't', 'h4', 'h5', 'echo', '2026-08-01T00:00:02+00:00');
            INSERT INTO messages VALUES ('h1', NULL, 'system'), ('h2', 'h1', 'user'), ('h3', 'h2', 'assistant'),
              ('h4', 'h3', 'tool'), ('h5', 'h4', 'assistant');
            INSERT INTO fragments VALUES (1, 'Barrels: 12.');
            INSERT INTO parts (message_hash, position, type, text, payload) VALUES
              ('h1', 0, 'text', 'Be brief.', NULL),
              ('h2', 0, 'text', NULL, '{"text_ref": [{"fragment": 1}, {"literal": " Add one."}]}'),
              ('h3', 0, 'tool_call', NULL, '{"name": "add", "arguments": {"a": 12}, "tool_call_id": "c"}'),
              ('h4', 0, 'tool_result', NULL, '{"name": "add", "output": "13", "tool_call_id": "c"}'),
              ('h5', 0, 'text', '13.', NULL);
        """)
    await load(store, path)
    assert await lines_of(store, "t") == [[(1, "Barrels: 12. Add one.", "13.")]]
    (turn,) = await turns_of(store, "t")
    assert [type(item).__name__ for item in turn.rounds] == ["ToolCallItem", "ToolOutputItem"]
    assert (await session_of(store, "t")).system == "Be brief."


def mapping(nodes: list[tuple[str, str | None, str]]) -> dict[str, Any]:
    """Make a ChatGPT conversation of (id, parent, role)."""
    made = {
        name: {"id": name, "parent": parent, "message": {"author": {"role": role}, "content": {"parts": [name]}}}
        for name, parent, role in nodes
    }
    return {"id": "made", "title": "Made", "mapping": made, "current_node": nodes[-1][0]}


def written(path: Path, *conversations: Any) -> Path:
    path.write_text(json.dumps(list(conversations)), "utf-8")
    return path


@pytest.mark.req("CLI-3")
async def test_an_export_that_grew_adds_only_what_is_new_and_leaves_what_was_said_here(
    store: Store, tmp_path: Path
) -> None:
    nodes: list[tuple[str, str | None, str]] = [("u1", None, "user"), ("a1", "u1", "assistant")]
    await load(store, written(tmp_path / "a.json", mapping(nodes)))
    grown = [*nodes, ("u2", "a1", "user"), ("a2", "u2", "assistant")]
    (one,) = (await load(store, written(tmp_path / "b.json", mapping(grown)))).sessions
    assert (one.added, one.skipped) == (2, 2)
    assert await lines_of(store, "made") == [[(1, "u1", "a1"), (2, "u2", "a2")]]
    edited = [*grown, ("u2e", "a1", "user"), ("a2e", "u2e", "assistant")]
    await load(store, written(tmp_path / "c.json", mapping(edited)))
    assert await lines_of(store, "made") == [[(1, "u1", "a1"), (2, "u2", "a2")], [(1, "u1", "a1"), (2, "u2e", "a2e")]]


async def test_parents_in_a_circle_and_endless_chains_come_in(store: Store, tmp_path: Path) -> None:
    circle: list[tuple[str, str | None, str]] = [("a", "c", "user"), ("b", "a", "assistant"), ("c", "b", "user")]
    (one,) = (await load(store, written(tmp_path / "circle.json", mapping(circle)))).sessions
    assert one.added == 3
    chain = [(f"n{n}", f"n{n - 1}" if n else None, "assistant" if n % 2 else "user") for n in range(3000)]
    long = {**mapping(chain), "id": "long"}
    (one,) = (await load(store, written(tmp_path / "long.json", long))).sessions
    assert one.added == 3000


@pytest.mark.req("CLI-3")
async def test_hostile_values_of_a_conversation_come_in_or_are_told(store: Store, tmp_path: Path) -> None:
    made = mapping([("a", "nowhere", "user"), ("b", "a", "assistant"), ("c", "b", "user")])
    nodes = made["mapping"]
    nodes["a"]["message"]["create_time"] = 1e300
    nodes["b"]["message"]["create_time"] = 253402300800.0  # the year 10000
    nodes["c"]["message"]["content"]["parts"] = ["nul \0 and \ud800 alone"]
    nodes["e"] = {"parent": "c", "message": {"author": 5, "content": [], "metadata": "x", "create_time": {}}}
    made["title"] = "T" * (1 << 20)
    twice = {**mapping([("a", None, "user"), ("z", "a", "assistant")]), "title": None}
    long = {**mapping([("i" * 600, None, "user")]), "id": "long"}
    imported = await load(store, written(tmp_path / "odd.json", made, twice, long))
    (bad,) = [bad for one in imported.sessions for bad in one.bad]
    assert "The id has 600 characters" in bad.reason
    assert len((await session_of(store, "made")).title or "") == 80
    assert await lines_of(store, "made") == [
        [(1, "a", "b"), (2, "nul \0 and \ufffd alone", "")],
        [(1, "a", "z")],
    ]
    again = await load(store, tmp_path / "odd.json")
    assert sum(one.added for one in again.sessions) == 0


def test_every_message_of_many_roots_circles_and_silent_chains_is_in_a_turn() -> None:
    nodes: list[tuple[str, str | None, str]] = []
    for number in range(0, 2000, 2):
        nodes += [(f"{number}", f"{number + 1}", "user"), (f"{number + 1}", f"{number}", "assistant")]
    nodes += [(f"lost{number}", "nowhere", "user") for number in range(2000)]
    made = mapping(nodes)
    for number in range(1000):  # a long chain of nodes that say nothing, each with a child that does
        made["mapping"][f"n{number}"] = {"parent": f"n{number - 1}", "message": None}
    made["mapping"]["last"] = {**made["mapping"]["lost0"], "parent": "n999"}
    conversation = chatgpt.read_conversation(made, NoAssets())
    assert sum(len(turn.messages) for turn in tree_turns(conversation, GARDEN)) == 4001


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


@pytest.mark.req("CLI-3")
@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"../../etc/conversations.json": b"[]"}, "outside of the archive"),
        ({"/conversations.json": b"[]"}, "outside of the archive"),
        ({"..\\conversations.json": b"[]"}, "outside of the archive"),
        ({"conversations.json": b"[" + b" " * (65 << 20) + b"]"}, "times its size"),
        ({"notes.txt": b"hello"}, "contains no conversations"),
    ],
)
async def test_hostile_archives_are_refused_before_anything_is_read(
    store: Store, tmp_path: Path, members: dict[str, bytes], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        await load(store, zipped(tmp_path / "x.zip", **members))
    assert not await store.sessions.list(Owner())


@pytest.mark.req("CLI-3")
async def test_damaged_deep_and_wrongly_encoded_files_are_told(store: Store, tmp_path: Path) -> None:
    good = mapping([("u1", None, "user"), ("a1", "u1", "assistant")])
    whole = zipped(tmp_path / "whole.zip", **{"conversations.json": json.dumps([good]).encode()})
    data = bytearray(whole.read_bytes())
    data[60] ^= 0xFF
    (tmp_path / "damaged.zip").write_bytes(data)
    with pytest.raises(InvalidInput, match="damaged"):
        await load(store, tmp_path / "damaged.zip")
    deep = b'[{"mapping": {"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}]"
    (tmp_path / "deep.json").write_bytes(deep)
    with pytest.raises(InvalidInput, match="nested too deep"):
        await load(store, tmp_path / "deep.json")
    latin = json.dumps([{**good, "title": "Café"}], ensure_ascii=False).encode("latin-1")
    (tmp_path / "latin.json").write_bytes(latin)
    with pytest.raises(InvalidInput, match="not JSON"):
        await load(store, tmp_path / "latin.json")
    (tmp_path / "utf16.json").write_bytes(json.dumps([good]).encode("utf-16"))
    with pytest.raises(InvalidInput, match="save it as UTF-8"):
        await load(store, tmp_path / "utf16.json")


async def test_a_format_that_is_named_has_to_be_the_one(store: Store) -> None:
    with pytest.raises(InvalidInput, match="not a conversation as Claude exports them"):
        await load(store, SAMPLES / "open_webui.json", form="claude")


@pytest.mark.req("CLI-3")
async def test_a_message_of_a_list_that_is_no_object_is_told(store: Store, tmp_path: Path) -> None:
    listed = [{"id": "a", "role": "user", "content": "hello"}, "nonsense"]
    (file := tmp_path / "chats.json").write_text(json.dumps([{"id": "one", "chat": {"messages": listed}}]))
    (session,) = (await import_file(store, file, owner=Owner())).sessions
    assert (session.added, [bad.reason for bad in session.bad]) == (1, ["message 1: it is not an object"])
