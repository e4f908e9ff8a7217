"""Other stores of memories, asked the same with the same vectors; ``benchmarks.recall`` runs it in their environment.

It reads one JSON document (texts and questions, each with its vector, for each conversation) and writes for each peer
in which order it gives the texts for each question, and how long that took. It imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

Ask = Callable[[int], list[int]]
"""Gives for a question, by number, the texts by number, the best first."""

MOST = 100
os.environ.update(MEM0_TELEMETRY="False", ANONYMIZED_TELEMETRY="False", OPENAI_API_KEY="unused")


def _chromadb(talk: dict[str, Any]) -> Ask:
    client = import_module("chromadb").EphemeralClient()
    name = f"talk-{time.monotonic_ns()}"
    kept = client.create_collection(name, metadata={"hnsw:space": "cosine"}, embedding_function=None)
    numbers = [str(number) for number in range(len(talk["texts"]))]
    kept.add(ids=numbers, embeddings=talk["rows"], documents=talk["texts"])

    def ask(number: int) -> list[int]:
        found = kept.query(query_embeddings=[talk["asked_rows"][number]], n_results=min(MOST, len(numbers)))
        return [int(each) for each in found["ids"][0]]

    return ask


def _places(talk: dict[str, Any]) -> Any:
    """Make an embedder of LangChain's kind that knows the vectors."""
    known = dict(zip([*talk["texts"], *talk["asked"]], [*talk["rows"], *talk["asked_rows"]], strict=True))

    verbs = {
        "embed_documents": lambda _, texts: [known[text] for text in texts],
        "embed_query": lambda _, text: known[text],
    }
    return type("Known", (import_module("langchain_core.embeddings").Embeddings,), verbs)()


def _langchain(talk: dict[str, Any]) -> Ask:
    kept = import_module("langchain_core.vectorstores").InMemoryVectorStore(_places(talk))
    kept.add_texts(talk["texts"], [{"number": number} for number in range(len(talk["texts"]))])

    def ask(number: int) -> list[int]:
        return [found.metadata["number"] for found in kept.similarity_search(talk["asked"][number], k=MOST)]

    return ask


def _mem0(talk: dict[str, Any]) -> Ask:
    folder = tempfile.mkdtemp(prefix="mem0-")
    os.environ["MEM0_DIR"] = folder
    memory = import_module("mem0").Memory.from_config(
        {
            "embedder": {"provider": "langchain", "config": {"model": _places(talk)}},
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": f"{folder}/qdrant", "embedding_model_dims": len(talk["rows"][0])},
            },
            "history_db_path": f"{folder}/history.db",
        }
    )
    for number, text in enumerate(talk["texts"]):
        memory.add(text, user_id="one", metadata={"number": number}, infer=False)

    def ask(number: int) -> list[int]:
        found = _searched(memory, talk["asked"][number])
        return [each["metadata"]["number"] for each in found["results"]]

    return ask


def _searched(memory: Any, question: str) -> dict[str, Any]:
    """Search as this version of mem0 wants to be asked."""
    try:
        found = memory.search(question, filters={"user_id": "one"}, top_k=MOST, threshold=0.0)
    except (TypeError, ValueError):
        found = memory.search(question, user_id="one", limit=MOST)
    return dict(found)


PEERS = {"chromadb": _chromadb, "mem0ai": _mem0, "langchain-core": _langchain}


def _measured(make: Callable[[dict[str, Any]], Ask], talks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    orders: list[list[list[int]]] = []
    seconds: list[float] = []
    for talk in talks:
        ask = make(talk)
        orders.append([])
        for number in range(len(talk["asked"])):
            began = time.perf_counter()
            orders[-1].append(ask(number))
            seconds.append(time.perf_counter() - began)
    return {"orders": orders, "seconds": seconds}


def main() -> None:
    """Ask every peer that is installed."""
    talks = json.load(sys.stdin)
    found: dict[str, Any] = {}
    for name, make in PEERS.items():
        try:
            found[name] = {"version": version(name), **_measured(make, talks)}
        except Exception as trouble:  # a peer that is absent or fails is reported, and the others are measured
            found[name] = {"trouble": f"{type(trouble).__name__}: {trouble}"[:200]}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
