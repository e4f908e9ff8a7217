"""A conversation in the local store of another library: ``python peer_logs.py PEER FOLDER TURNS [--until-killed]``.

It grows a conversation by exchanges of about 1 KB, as the library's own documentation does it, and prints one JSON line
for each exchange that was acknowledged, at the end one with what the last ones took. With ``--read`` it opens the store
and prints how many exchanges it has. ``benchmarks.peer_conversations`` runs it in the environment of ``make peers``; it
imports nothing of ours but for the peer ``contextinfinity``.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

os.environ.update(MEM0_TELEMETRY="False", ANONYMIZED_TELEMETRY="False", OPENAI_API_KEY="unused")
LOADED = 20
"""Exchanges that are read back."""
MEASURED = 20
PATIENCE_SECONDS = 60.0
"""A conversation that takes longer stays as long as it got."""


class PeerLog(NamedTuple):
    """A store of one conversation: append an exchange, return the texts of the last ones, count all exchanges."""

    append: Callable[[str, str], object]
    last: Callable[[], list[str]]
    size: Callable[[], int]


def _contextinfinity(folder: Path) -> PeerLog:
    memory = import_module("contextinfinity").ConversationMemory(folder)
    name = folder / "session"
    if not name.exists():
        name.write_text(memory.create_session("one"))
    session = name.read_text()

    def last() -> list[str]:
        return [
            text
            for turn in memory.get_session_history(session, LOADED)
            for text in (turn.query_text, turn.response_text)
        ]

    def count() -> int:
        import sqlite3

        with sqlite3.connect(f"file:{folder / 'ledger.db'}?mode=ro", uri=True) as opened:
            return int(opened.execute("SELECT count(*) FROM conversation_turns").fetchone()[0])

    return PeerLog(lambda query, answer: memory.store_turn(session, "one", query, answer), last, count)


def _openai_agents(folder: Path) -> PeerLog:
    session = import_module("agents.memory").SQLiteSession("one", str(folder / "agents.db"))
    loop = asyncio.new_event_loop()

    def append(query: str, answer: str) -> None:
        said = [{"role": "user", "content": query}, {"role": "assistant", "content": answer}]
        loop.run_until_complete(session.add_items(said))

    def read(limit: int | None) -> list[str]:
        return [item["content"] for item in loop.run_until_complete(session.get_items(limit))]

    return PeerLog(append, lambda: read(2 * LOADED), lambda: len(read(None)) // 2)


def _langgraph(folder: Path) -> PeerLog:
    import sqlite3

    graph, messages = import_module("langgraph.graph"), import_module("langchain_core.messages")
    saver = import_module("langgraph.checkpoint.sqlite").SqliteSaver
    answers: list[str] = []
    built = graph.StateGraph(graph.MessagesState)
    built.add_node("model", lambda _: {"messages": [messages.AIMessage(answers.pop())]})
    built.add_edge(graph.START, "model")
    app = built.compile(checkpointer=saver(sqlite3.connect(folder / "graph.db", check_same_thread=False)))
    config = {"configurable": {"thread_id": "one"}}

    def append(query: str, answer: str) -> None:
        answers.append(answer)
        app.invoke({"messages": [messages.HumanMessage(query)]}, config)

    def read() -> list[str]:
        return [message.content for message in app.get_state(config).values.get("messages", [])]

    return PeerLog(append, lambda: read()[-2 * LOADED :], lambda: len(read()) // 2)


def _llama_index(folder: Path) -> PeerLog:
    core = import_module("llama_index.core.memory")
    message = import_module("llama_index.core.llms").ChatMessage
    memory = core.Memory.from_defaults(
        session_id="one", token_limit=10_000_000, async_database_uri=f"sqlite+aiosqlite:///{folder / 'memory.db'}"
    )
    loop = asyncio.new_event_loop()

    def append(query: str, answer: str) -> None:
        said = [message(role="user", content=query), message(role="assistant", content=answer)]
        loop.run_until_complete(memory.aput_messages(said))

    def read() -> list[str]:
        return [str(one.content) for one in loop.run_until_complete(memory.aget_all())]

    return PeerLog(append, lambda: read()[-2 * LOADED :], lambda: len(read()) // 2)


def _langchain(folder: Path) -> PeerLog:
    histories, messages = (
        import_module("langchain_community.chat_message_histories"),
        import_module("langchain_core.messages"),
    )
    history = histories.SQLChatMessageHistory("one", connection=f"sqlite:///{folder / 'history.db'}")

    def append(query: str, answer: str) -> None:
        history.add_messages([messages.HumanMessage(query), messages.AIMessage(answer)])

    def read() -> list[str]:
        return [message.content for message in history.messages]

    return PeerLog(append, lambda: read()[-2 * LOADED :], lambda: len(read()) // 2)


def _llm(folder: Path) -> PeerLog:
    llm, utils = import_module("llm"), import_module("sqlite_utils")
    database = utils.Database(folder / "logs.db")
    import_module("llm.migrations").migrate(database)
    store = import_module("llm.logs").LogStore(database)
    answers: list[str] = []

    class Scripted(llm.Model):  # type: ignore[misc, name-defined]
        model_id = "scripted"

        def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> Any:
            yield answers.pop()

    conversation = llm.Conversation(model=Scripted(), id="one")

    def append(query: str, answer: str) -> None:
        answers.append(answer)
        response = conversation.prompt(query)
        response.text()
        response.log_to_db(database)

    def read() -> list[str]:
        return [part.text for message in store.thread_messages("one") for part in message.parts]

    return PeerLog(append, lambda: read()[-2 * LOADED :], lambda: int(database["turns"].count))


def _mem0(folder: Path) -> PeerLog:
    embeddings = import_module("langchain_core.embeddings").DeterministicFakeEmbedding(size=256)
    os.environ["MEM0_DIR"] = str(folder)
    store = {"provider": "qdrant", "config": {"path": f"{folder}/qdrant", "embedding_model_dims": 256, "on_disk": True}}
    memory = import_module("mem0").Memory.from_config(
        {
            "embedder": {"provider": "langchain", "config": {"model": embeddings}},
            "vector_store": store,
            "history_db_path": f"{folder}/history.db",
        }
    )

    def append(query: str, answer: str) -> None:
        said = [{"role": "user", "content": query}, {"role": "assistant", "content": answer}]
        memory.add(said, user_id="one", infer=False)

    def read(limit: int) -> list[str]:
        try:
            found = memory.get_all(filters={"user_id": "one"}, top_k=limit)
        except (TypeError, ValueError):
            found = memory.get_all(user_id="one", limit=limit)
        return [each["memory"] for each in found["results"]]

    return PeerLog(append, lambda: read(2 * LOADED), lambda: len(read(1_000_000)) // 2)


def _chromadb(folder: Path) -> PeerLog:
    kept = (
        import_module("chromadb").PersistentClient(str(folder)).get_or_create_collection("one", embedding_function=None)
    )
    rng, number = random.Random(3), kept.count() // 2

    def append(query: str, answer: str) -> None:
        nonlocal number
        rows = [[rng.random() for _ in range(256)] for _ in range(2)]
        numbers = [{"number": number}, {"number": number}]
        kept.add(
            ids=[f"{number} user", f"{number} assistant"], embeddings=rows, documents=[query, answer], metadatas=numbers
        )
        number += 1

    def last() -> list[str]:
        return list(kept.get(where={"number": {"$gte": number - LOADED}})["documents"])

    return PeerLog(append, last, lambda: kept.count() // 2)


PEERS: dict[str, tuple[str, Callable[[Path], PeerLog]]] = {
    "contextinfinity": ("contextinfinity", _contextinfinity),
    "openai-agents": ("openai-agents", _openai_agents),
    "langgraph": ("langgraph-checkpoint-sqlite", _langgraph),
    "llama-index": ("llama-index-core", _llama_index),
    "langchain": ("langchain-community", _langchain),
    "llm": ("llm", _llm),
    "mem0": ("mem0ai", _mem0),
    "chromadb": ("chromadb", _chromadb),
}


def _words(rng: random.Random, size: int) -> str:
    return " ".join(f"{rng.getrandbits(24):06x}" for _ in range(size // 7))


def main(peer: str, folder: Path, turns: int) -> None:
    """Grow a conversation and print what it took."""
    package, make = PEERS[peer]
    log, rng, began = make(folder), random.Random(5), time.monotonic()
    appended: list[float] = []
    for number in range(turns):
        query, answer = f"#{number} {_words(rng, 200)}", f"#{number} {_words(rng, 800)}"
        start = time.perf_counter()
        log.append(query, answer)
        appended.append(time.perf_counter() - start)
        print(number, flush=True)
        if time.monotonic() - began > PATIENCE_SECONDS:
            break
    loaded: list[float] = []
    for _ in range(MEASURED):
        start = time.perf_counter()
        texts = log.last()
        loaded.append(time.perf_counter() - start)
        assert len(texts) == 2 * min(LOADED, len(appended)), len(texts)
    figures = {
        "version": version(package),
        "turns": len(appended),
        "append_ms": 1000 * statistics.median(appended[-MEASURED:]),
        "load_ms": 1000 * statistics.median(loaded),
        "bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        "series": [1000 * statistics.median(appended[at : at + 10]) for at in range(0, len(appended), 10)],
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    if sys.argv[4:] == ["--read"]:
        print(PEERS[sys.argv[1]][1](Path(sys.argv[2])).size())
    else:
        main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)  # some libraries keep threads
