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
    thread = turn["thread_id"]
    kept = server.post("/memories", {"content": "The user watches birds.", "user_id": server.whose(thread)["user_id"]})
    async with client_of(f"{server.url}/mcp?user_id={somebody()}") as client:
        for tool, arguments in (
            ("search", {"query": "heron", "thread_id": thread}),
            ("recall_turn", {"turn_id": turn["turn_id"]}),
            ("read_conversation", {"thread_id": thread}),
            ("pin", {"thread_id": thread, "fact": "Mine."}),
            ("remember", {"content": "The user likes it.", "thread_id": thread}),
            ("forget", {"memory_id": kept.json()["id"]}),
            ("context_of_turn", {"turn_id": turn["turn_id"]}),
        ):
            refused = await client.call_tool(tool, arguments)
            assert refused.is_error, tool
            assert "heron" not in str(refused.structured_content)
        assert (await called(client, "search", query="heron"))["hits"] == []
        assert (await called(client, "list_conversations"))["conversations"] == []
        with pytest.raises(Exception, match="no conversation"):
            await client.read_resource(f"conversation://{thread}")


def test_a_token_opens_what_is_its_users(tmp_path: Path) -> None:
    server, cix = Server(tmp_path), Cix(tmp_path)
    token = cix.json("token", "create", "--user", "ann")["token"]
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_conversations"}}
    assert server.post("/mcp", call).status_code == 401
    answered = server.post("/mcp", call, Authorization=f"Bearer {token}")
    assert answered.json()["result"]["structuredContent"] == {"conversations": []}
    elsewhere = {"Authorization": f"Bearer {token}"}
    assert server.http.post("/mcp?user_id=bob", json=call, headers=elsewhere).status_code == 403
    server.stop()


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


async def test_an_assistant_starts_the_command(cix: Cix) -> None:
    from mcp import StdioServerParameters

    cix.ask("The heron nests at the pier.")
    arguments = ["-m", "contextinfinity", "mcp", "--data-dir", str(cix.folder)]
    async with client_of(StdioServerParameters(command=sys.executable, args=arguments)) as client:
        [listed] = (await called(client, "list_conversations"))["conversations"]
        assert listed["title"] == "The heron nests at the pier."
        await called(client, "remember", content="The user watches birds.")
    assert [memory["content"] for memory in cix.json("memories", "list")["memories"]] == ["The user watches birds."]
