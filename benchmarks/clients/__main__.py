"""``python -m benchmarks.clients [NAME …]``: hold a session with every client, straight and through ``cix serve``.

It prints a table: what reached the vendor through the server, compared with the same client sent straight. It ends with
1 if a client failed, if what reached the vendor differs otherwise than known, or if more conversations are listed than
a person would name.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.clients.catalogue import CHAT, CLIENTS, MESSAGES, RESPONSES, Client, Session
from benchmarks.clients.model import answer
from benchmarks.server_process import CixServer
from contextinfinity.prompt.assemble import shared
from contextinfinity_testing.vendors import FakeVendors

SETTINGS = """\
[general]
default_model = "sonnet"
[models.sonnet]
provider = "anthropic"
model_id = "{messages}"
base_url = "{anthropic}"
context_limit = 200000
[models.gpt]
provider = "openai"
model_id = "{responses}"
base_url = "{openai}"
context_limit = 200000
[models.open]
provider = "openai_chat"
model_id = "{chat}"
base_url = "{compatible}"
context_limit = 200000
tools = true
images = true
[server]
requests_per_minute = 0
"""
ADDED = {"model", "stream", "stream_options"}
"""Parameters that the server sets itself."""
CHANGING = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    r"\b(?:toolu|call|chatcmpl|msg|fc|fco)[_-]\w+|Chunk ID: \w+|Wall time: [\d.]+",
    r"[/-]tmp[/-]\S*?[/-](?:straight|through)|127\.0\.0\.1:\d+",
    r'"signature": "[^"]*"|cc_version=[\w.]+|\b[0-9a-f]{64}\b|\b[0-9a-f]{7,40}\b|\b\d{4,7}\b|PGID: \d+',
)
"""What differs between two sessions of the same client: ids, folders, addresses, hashes, process ids."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was seen of one client."""

    client: Client
    rounds: int = 0
    sides: int = 0
    prefix: tuple[str, str] = ("", "")
    threads: int = 0
    differs: tuple[str, ...] = ()
    failed: str = ""

    @property
    def well(self) -> bool:
        """Whether nothing has to be looked at."""
        return not self.failed and self.differs == self.client.differs and self.threads == self.client.threads

    def __str__(self) -> str:
        wire = {CHAT: "chat", MESSAGES: "messages", RESPONSES: "responses"}[self.client.model]
        if self.failed:
            return f"| {self.client.name} | {wire} | failed: {self.failed} |"
        upstream = "; ".join(self.differs) or ("nothing" if self.client.is_compared else "not compared")
        told = (self.client.requests, self.rounds, self.sides, " / ".join(self.prefix), self.threads, upstream)
        return f"| {self.client.name} | {wire} | {' | '.join(map(str, told))} |"


def held(client: Client) -> Row:
    """Hold the session of a client, straight and through the server."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name in ("straight", "through"):
                (Path(folder) / name).mkdir()
            straight = asyncio.run(_session(client, Path(folder) / "straight", None)) if client.is_compared else []
            data = Path(folder) / "data"
            through = asyncio.run(_session(client, Path(folder) / "through", data))
            listed = _listed(data)
        except Exception as error:  # one client that fails does not end the others
            return Row(client=client, failed=f"{type(error).__name__}: {error}".replace("\n", " ")[-600:])
    tools = [body for body in through if body.get("tools")]
    is_side = [not body.get("tools") if tools else _said(body)[:1] != _said(through[0])[:1] for body in through]
    return Row(
        client=client,
        rounds=sum(_calls(body) for body in _last_of_each(tools)),
        sides=sum(is_side) if client.goes_on else 0,
        prefix=(_repeated(through), _repeated(straight)) if client.goes_on else ("–", "–"),
        threads=listed,
        differs=tuple(_differences(straight, through)) if client.is_compared else (),
    )


async def _session(client: Client, folder: Path, data: Path | None) -> list[Any]:
    """Hold one session and return what the vendor was asked."""
    async with FakeVendors(answering=answer) as vendors:
        addresses = {"openai": vendors.openai_url, "anthropic": vendors.anthropic_url}
        base = vendors.compatible_url if client.model == CHAT else vendors.openai_url
        root = vendors.anthropic_url
        served = None
        if data is not None:
            names = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES, "compatible": vendors.compatible_url}
            served = CixServer(data, SETTINGS.format(**addresses, **names))
            root = f"http://127.0.0.1:{served.port}"
            base = f"{root}/v1"
        try:
            await asyncio.to_thread(client.talk, Session(folder=folder, base=base, root=root, model=client.model))
        finally:
            if served is not None:
                served.end()
        return [request.body for request in vendors.requests if isinstance(request.body, dict)]


def _listed(data: Path) -> int:
    command = [sys.executable, "-m", "contextinfinity", "sessions", "--json", "--data-dir", str(data)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return len(json.loads(told)["sessions"])


def _said(body: Any) -> list[Any]:
    said = body.get("messages") or body.get("input") or []
    return said if isinstance(said, list) else [said]


def _last_of_each(bodies: Sequence[Any]) -> Iterator[Any]:
    """Yield the last request before each one that is shorter, and the last of all."""
    for body, then in pairwise([*bodies, {}]):
        if len(_said(then)) < len(_said(body)):
            yield body


def _calls(body: Any) -> int:
    text = json.dumps(_said(body))
    kinds = (r'"role": "tool"', r'"type": "tool_result"', r'"type": "function_call_output"', r"Observation:\\n")
    return max(len(re.findall(kind, text)) for kind in kinds)


def _repeated(bodies: Sequence[Any]) -> str:
    """Return how much of the requests with tools repeats the one before, of the bytes of that one.

    Without tools: of the requests with the first one's system text; the others are side requests.
    """
    asked = [body for body in bodies if body.get("tools")]
    asked = asked or [body for body in bodies if _said(body)[:1] == _said(bodies[0])[:1]]
    pairs = [(shared(before, after)[0], shared(before, before)[1]) for before, after in pairwise(asked)]
    total = sum(size for _, size in pairs)
    return f"{sum(common for common, _ in pairs) / total:.1%}" if total else "–"


def _differences(straight: Sequence[Any], through: Sequence[Any]) -> Iterator[str]:
    """Name what the vendor was asked differently, without what differs between any two sessions."""
    if len(straight) != len(through):
        yield f"{len(through)} requests instead of {len(straight)}"
        return
    found = dict[str, None]()
    for one, other in zip(straight, through, strict=True):
        for name in {*one, *other} - ADDED:
            if _plain(one.get(name)) != _plain(other.get(name)):
                found[name] = None
    yield from sorted(found)


def _plain(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    for pattern in CHANGING:
        text = re.sub(pattern, "…", text)
    return text


def main() -> None:
    """Run the clients that are named, or all, and print the table."""
    os.environ.setdefault("ANTHROPIC_API_KEY", "sk-none")
    os.environ.setdefault("OPENAI_API_KEY", "sk-none")
    wanted = [name.lower() for name in sys.argv[1:]]
    print("| client | wire | requests | tool rounds | side requests | prefix through / straight | threads | differs |")
    print("| --- | --- | ---: | ---: | ---: | --- | ---: | --- |")
    rows = []
    for client in CLIENTS:
        if not wanted or any(name in client.name.lower() for name in wanted):
            rows.append(held(client))
            print(rows[-1], flush=True)
    sys.exit(not all(row.well for row in rows))


if __name__ == "__main__":
    main()
