"""Valid inputs, from which the damaged ones are made; those in JSON are in ``seeds.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EXPORTS = Path(__file__).parents[2] / "tests" / "samples" / "exports"
SEEDS: dict[str, Any] = json.loads((Path(__file__).parent / "seeds.json").read_text("utf-8"))
REQUESTS: dict[str, Any] = SEEDS["requests"]
STREAMS: dict[str, list[tuple[str, Any]]] = SEEDS["streams"]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SETTINGS = b"""\
[general]
default_model = "echo"
data_dir = "data"
[models.echo]
provider = "scripted"
[models.far]
provider = "openai_chat"
model_id = "llama3.1"
base_url = "http://127.0.0.1:1/v1"
context_limit = 8192
[retrieval]
top_k = 6
similarity_threshold = 0.72
[compaction]
enabled = true
[[router.rules]]
model = "far"
intent = "code"
[retention.users.anna]
hours = 3
[server]
port = 8080
requests_per_minute = 60
"""
JOURNAL = b'{"ts":"2026-01-01T00:00:00Z","provider":"x","event_type":"text","seq":1,"payload":{"text":"Hello"}}\n'
HISTORY = (
    b'{"id":"1700000000000-abcdef12","session_id":"sess_1700000000000_abcdef","timestamp":"2026-01-01T00:00:00Z",'
    b'"role":"user","content":"Hello","files":["a.py"],"images":1}\n'
)
PAGE = (
    b'<!doctype html><html><head><title>A &amp; B</title><meta charset="utf-8"><style>p{}</style></head><h1>A</h1>'
    b"<p>one <b>two</b><br>three<pre>a  b\n\tc</pre><ul><li>x<li>y</ul><table><tr><td>1<td>2</table>"
    b"<script>if(a<b){}</script></body>"
)


def as_bytes(value: Any) -> bytes:
    """Encode a seed."""
    return json.dumps(value).encode()
