"""Assistants that speak the Model Context Protocol, with the official client: over HTTP and on standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from tests.doors.cix import Cix
from tests.doors.server import Server, pause
from tests.doors.v1.upstream import somebody

if TYPE_CHECKING:
    from mcp.client import Client

pytestmark = [pytest.mark.req("API-9"), pytest.mark.xdist_group("mcp")]

OFFERED = {"search", "recall_turn", "list_conversations", "pin", "remember", "forget", "context_of_turn"}


def client_of(server: Any, **options: Any) -> Client:
    """Make the official client, which is imported here because it takes long and one worker needs it."""
    from mcp.client import Client

    return Client(server, **options)


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool that does what it should, and read its result."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def test_an_assistant_searches_recalls_pins_and_remembers(server: Server) -> None:
    user = somebody()
    turn = server.ask("The heron nests at the pier.", user_id=user)
    thread = turn["thread_id"]
    async with client_of(f"{server.url}/mcp?user_id={user}") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} >= OFFERED
        found: dict[str, Any] = {"hits": []}
        while not found["hits"]:  # until it is indexed
            pause()
            found = await called(client, "search", query="where does the heron nest")
        assert found["hits"][0]["turn_id"] == turn["turn_id"]
        assert (await called(client, "recall_turn", turn_id=turn["turn_id"]))["user"] == "The heron nests at the pier."
        [listed] = (await called(client, "list_conversations"))["conversations"]
        assert listed["thread_id"] == thread
        pinned = await called(client, "pin", thread_id=thread, fact="Herons are shy.")
        assert [pin["fact"] for pin in pinned["pins"]] == ["Herons are shy."]
        kept = await called(client, "remember", content="The user watches birds.")
        assert (await called(client, "list_memories"))["memories"][0]["content"] == "The user watches birds."
        assert (await called(client, "forget", memory_id=kept["id"]))["forgotten"] is True
        assert (await called(client, "list_memories"))["memories"] == []
        seen = await called(client, "context_of_turn", turn_id=turn["turn_id"])
        assert "The heron nests at the pier." in json.dumps(seen["messages"])


async def test_conversations_are_resources(server: Server) -> None:
    user = somebody()
    thread = server.ask("The heron nests at the pier.", user_id=user)["thread_id"]
    async with client_of(f"{server.url}/mcp?user_id={user}") as client:
        [listed] = (await client.list_resources()).resources
        assert str(listed.uri) == f"conversation://{thread}"
        [text] = (await client.read_resource(str(listed.uri))).contents
        assert "The heron nests at the pier." in text.text  # type: ignore[union-attr]
        [template] = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "conversation://{thread_id}"


@pytest.mark.req("API-14")
async def test_what_is_another_users_is_not_there(server: Server) -> None:
    turn = server.ask("The heron nests at the pier.", user_id=somebody())
    whose = server.whose(turn["thread_id"])["user_id"]
    kept = server.post("/memories", {"content": "The user watches birds.", "user_id": whose}).json()["id"]
    async with client_of(f"{server.url}/mcp?user_id={somebody()}") as client:
        await finds_nothing(client, turn, kept)


async def finds_nothing(client: Client, turn: dict[str, Any], memory_id: str) -> None:
    """See that no tool and no resource gives or changes anything of another user's turn."""
    thread = turn["thread_id"]
    for tool, arguments in (
        ("search", {"query": "heron", "thread_id": thread}),
        ("recall_turn", {"turn_id": turn["turn_id"]}),
        ("read_conversation", {"thread_id": thread}),
        ("pin", {"thread_id": thread, "fact": "Mine."}),
        ("remember", {"content": "The user likes it.", "thread_id": thread}),
        ("forget", {"memory_id": memory_id}),
        ("context_of_turn", {"turn_id": turn["turn_id"]}),
    ):
        refused = await client.call_tool(tool, arguments)
        assert refused.is_error, tool
        assert "heron" not in str(refused.structured_content)
    assert (await called(client, "search", query="heron"))["hits"] == []
    assert (await called(client, "list_conversations"))["conversations"] == []
    assert (await called(client, "list_memories"))["memories"] == []
    assert not (await client.list_resources()).resources
    with pytest.raises(Exception, match="no conversation"):
        await client.read_resource(f"conversation://{thread}")


@pytest.mark.req("API-14", "API-9")
async def test_a_token_opens_what_is_its_users(tmp_path: Path) -> None:
    from mcp.client.streamable_http import streamable_http_client

    server, cix = Server(tmp_path), Cix(tmp_path)
    tokens = {user: cix.json("token", "create", "--user", user)["token"] for user in ("ann", "bob")}
    as_ann, as_bob = ({"Authorization": f"Bearer {token}"} for token in tokens.values())
    turn = server.post("/threads/new/messages", {"content": "The heron nests at the pier."}, **as_ann).json()
    memory = server.post("/memories", {"content": "The user watches birds."}, **as_ann).json()
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_conversations"}}
    assert server.post("/mcp", call).status_code == 401
    assert server.http.post("/mcp?user_id=ann", json=call, headers=as_bob).status_code == 403
    for headers, is_hers in ((as_ann, True), (as_bob, False)):
        http = httpx2.AsyncClient(trust_env=False, headers=headers)
        async with http, client_of(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client:
            if not is_hers:
                await finds_nothing(client, turn, memory["id"])
                continue
            [listed] = (await called(client, "list_conversations"))["conversations"]
            assert listed["thread_id"] == turn["thread_id"]
    kept = server.http.get("/memories", headers=as_ann).json()["memories"]
    assert [each["id"] for each in kept] == [memory["id"]]
    server.stop()


async def test_results_fit_an_assistants_window_and_a_long_turn_is_read_in_pages(server: Server) -> None:
    user = somebody()
    message = "".join(f"Heron {number} nests at the pier.\n" for number in range(1_500))
    turn = server.ask(message, user_id=user)
    for number in range(30):
        server.ask(f"And {number}? " + "What about the reeds? " * 500, turn["thread_id"], user_id=user)
    async with client_of(f"{server.url}/mcp?user_id={user}") as client:
        for tool, arguments in (
            ("search", {"query": "heron pier reeds", "limit": 50}),
            ("read_conversation", {"thread_id": turn["thread_id"], "limit": 50}),
            ("context_of_turn", {"turn_id": turn["turn_id"]}),
            ("list_conversations", {}),
        ):
            assert len(json.dumps(await called(client, tool, **arguments))) < 70_000, tool
        [listed] = (await called(client, "list_conversations"))["conversations"]
        assert listed["opening"].endswith(f" of {len(message.strip()):,}]")
        [text] = (await client.read_resource(f"conversation://{turn['thread_id']}")).contents
        written = text.text  # type: ignore[union-attr]
        assert len(written) < 70_000
        assert "And 29?" in written
        assert written.startswith("Earlier turns are left out")
        pages, offset = "", 0
        while offset is not None:
            page = await called(client, "recall_turn", turn_id=turn["turn_id"], offset=offset)
            pages, offset = pages + page["user"], page.get("next_offset")
        assert pages == message


async def test_the_client_of_the_older_handshake_is_served(server: Server) -> None:
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(trust_env=False) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with client_of(transport, mode="legacy") as client:
            assert (await client.list_tools()).tools


def test_messages_that_make_no_sense_are_refused_in_words(server: Server) -> None:
    def told(body: Any) -> Any:
        answered = server.http.post("/mcp", json=body)
        assert answered.status_code == (200 if isinstance(body, dict) and "method" in body else 400)
        return answered.json()["error"]["code"]

    assert server.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
    assert told([]) == told({"jsonrpc": "1.0", "id": 1}) == -32600
    assert told({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}) == -32601
    assert told({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}) == -32602
    assert told({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///etc"}}) == -32602
    assert (
        told({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "conversation://x"}}) == -32002
    )
    wrong = {"name": "search", "arguments": {"query": "a", "limit": "many"}}
    result = server.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": wrong}).json()["result"]
    assert (result["isError"], "limit" in result["structuredContent"]["error"]) == (True, True)
    assert server.post("/mcp", {"jsonrpc": "2.0"}, mcp_protocol_version="1999-01-01").status_code == 400
    assert server.http.get("/mcp").status_code == 405


def test_a_list_of_messages_is_answered_for_the_versions_that_have_lists(server: Server) -> None:
    ping = {"jsonrpc": "2.0", "method": "ping"}
    batch = [{**ping, "id": 1}, {"jsonrpc": "2.0", "method": "notifications/initialized"}, {**ping, "id": "two"}, 7]
    for version in ("2025-03-26", "2024-11-05", None):
        named = {} if version is None else {"mcp_protocol_version": version}
        answered = server.post("/mcp", batch, **named)
        assert answered.status_code == 200
        *done, wrong = answered.json()
        assert done == [{"jsonrpc": "2.0", "id": number, "result": {}} for number in (1, "two")]
        assert wrong["error"]["code"] == -32600
        assert server.post("/mcp", batch[1:2], **named).status_code == 202, "nothing in it wants an answer"
    for version in ("2025-06-18", "2025-11-25"):
        refused = server.post("/mcp", batch, mcp_protocol_version=version)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)


async def test_an_assistant_starts_the_command(cix: Cix) -> None:
    from mcp import StdioServerParameters

    cix.ask("The heron nests at the pier.")
    arguments = ["-m", "contextinfinity", "mcp", "--data-dir", str(cix.folder)]
    async with client_of(StdioServerParameters(command=sys.executable, args=arguments)) as client:
        [listed] = (await called(client, "list_conversations"))["conversations"]
        assert listed["title"] == "The heron nests at the pier."
        await called(client, "remember", content="The user watches birds.")
    assert [memory["content"] for memory in cix.json("memories", "list")["memories"]] == ["The user watches birds."]


def test_a_line_that_is_no_message_is_refused_and_the_next_one_is_answered(cix: Cix) -> None:
    ping = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    deep = b'{"jsonrpc": "2.0", "id": 2, "method": "ping", "params": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    done = cix("mcp", stdin=b"\n".join([b"\xff\xfe", b"", b"\0" * 100, deep, b"\r", ping[:-1], ping]))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer.get("error", {}).get("code") for answer in answers] == [-32700] * 4 + [None]
    assert answers[-1] == {"jsonrpc": "2.0", "id": 1, "result": {}}
