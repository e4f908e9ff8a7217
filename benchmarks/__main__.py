"""``python -m benchmarks [NAME…]``: run the benchmarks and show the figures."""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

from rich.console import Console

from benchmarks import (
    answering,
    assembly,
    away,
    branching,
    chat_memory,
    disk,
    dropping_in,
    embedding,
    exchange,
    folding,
    history,
    importing,
    journal,
    many_writers,
    memories,
    one_ask,
    opening,
    peer_conversations,
    postgres,
    prefix,
    recall,
    report,
    rewriting,
    sealing,
    searching,
    serving,
    session_stores,
    strangers,
    summaries,
    ten_million,
    topics,
    tui,
    upkeep,
    vectors,
    whole_prompts,
    wires,
    workspaces,
)
from benchmarks.harness import FULL, ORDINARY, Bench, Benchmark, Row, machine

BENCHMARKS: dict[str, Benchmark] = {
    "exchange": exchange.run,
    "many-writers": many_writers.run,
    "postgres": postgres.run,
    "sealing": sealing.run,
    "disk": disk.run,
    "branching": branching.run,
    "history": history.run,
    "opening": opening.run,
    "journal": journal.run,
    "answering": answering.run,
    "one-ask": one_ask.run,
    "away": away.run,
    "wires": wires.run,
    "prefix": prefix.run,
    "assembly": assembly.run,
    "upkeep": upkeep.run,
    "chat-memory": chat_memory.run,
    "peers": peer_conversations.run,
    "session-stores": session_stores.run,
    "folding": folding.run,
    "summaries": summaries.run,
    "importing": importing.run,
    "embedding": embedding.run,
    "topics": topics.run,
    "vectors": vectors.run,
    "recall": recall.run,
    "strangers": strangers.run,
    "ten-million": ten_million.run,
    "whole-prompts": whole_prompts.run,
    "searching": searching.run,
    "rewriting": rewriting.run,
    "memories": memories.run,
    "serving": serving.run,
    "dropping-in": dropping_in.run,
    "workspaces": workspaces.run,
    "tui": tui.run,
}


async def measure(bench: Bench, name: str) -> list[Row]:
    """Run one benchmark."""
    began = time.perf_counter()
    with bench.console.status(name):
        rows = await BENCHMARKS[name](bench)
    bench.console.print(f"{name}: {time.perf_counter() - began:.0f} s")
    return rows


def main() -> None:
    """Read the arguments, run, show, and update the results and their pages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run benchmarks, each with a baseline.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(BENCHMARKS)}")
    parser.add_argument("--full", action="store_true", help="with 1,000,000 turns; the ledger is kept and reused")
    parser.add_argument("--no-save", action="store_true", help="leave benchmarks/results and docs as they are")
    parser.add_argument("--page", action="store_true", help="run nothing, make both pages in docs from the results")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data", help="where ledgers are kept")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    bench = Bench(folder=arguments.data, scale=FULL if arguments.full else ORDINARY)
    for name in [] if arguments.page else arguments.names or BENCHMARKS:
        described = machine(bench)
        rows = asyncio.run(measure(bench, name))
        Console().print(report.table(rows), described, sep="\n")
        if not arguments.no_save:
            report.save(name, rows, described, full=arguments.full)
    if not arguments.no_save:
        report.write_pages()


if __name__ == "__main__":
    main()
