"""JSON-RPC on /rpc, with a real WebSocket client against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from contextinfinity import HistoryStore
from tests.doors.cix import Cix
from tests.doors.server import Server, pause

pytestmark = pytest.mark.req("API-8")


PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Rpc:
    """One connection."""

    def __init__(self, server: Server, query: str = "", **how: Any) -> None:
        self._socket: ClientConnection = connect(f"{server.url.replace('http', 'ws', 1)}/rpc{query}", proxy=None, **how)
        self.heard: list[dict[str, Any]] = []
        self._last = 0

    def __enter__(self) -> Rpc:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def wait(self, seconds: float) -> None:
        """Wait for a message; ``TimeoutError`` if none arrives."""
        self.heard.append(json.loads(self._socket.recv(timeout=seconds)))

    def raw(self, text: str) -> Any:
        """Send something and return the next message that is not a notification."""
        self._socket.send(text)
        return self.answer()

    def send(self, *requests: dict[str, Any]) -> None:
        """Send requests without waiting for an answer."""
        for request in requests:
            self._socket.send(json.dumps(request))

    def answer(self) -> Any:
        """Return the next message that is not a notification."""
        while True:
            message = json.loads(self._socket.recv(timeout=30))
            if isinstance(message, list) or "method" not in message:
                return message
            self.heard.append(message)

    def call(self, name: str, *params: Any, **named: Any) -> Any:
        """Call a method of the service and return its result."""
        self._last += 1
        asked = {"jsonrpc": "2.0", "id": self._last, "method": f"LLMService.{name}", "params": named or list(params)}
        answer = self.raw(json.dumps(asked))
        assert answer["id"] == self._last
        assert "result" in answer, answer
        return answer["result"]

    def until(self, method: str, **params: Any) -> dict[str, Any]:
        """Wait for a notification with these parameters."""
        while True:
            for message in self.heard:
                if message["method"] == method and params.items() <= message["params"].items():
                    found: dict[str, Any] = message["params"]
                    return found
            self.heard.append(json.loads(self._socket.recv(timeout=30)))


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "harbour.py").write_text("def admit(): ...\n")
    (tmp_path / "repo" / ".gitignore").write_text("*.log\n")
    (tmp_path / "server").mkdir()
    small = "[compaction]\ncompaction_trigger_tokens = 400\nverbatim_window_tokens = 100\n"
    served = f'[server]\nworkspace = "{tmp_path / "repo"}"\nheader_seconds = 0.1\n'
    made = Server(tmp_path / "server", served + small)
    yield made
    made.stop()


def test_errors_follow_the_standard(server: Server) -> None:
    with Rpc(server) as rpc:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "LLMService.history_search"}
        for sent, code in [
            ("{", -32700),
            ("[" * 100_000, -32700),
            ("[]", -32600),
            ("1", -32600),
            (json.dumps({"id": 1, "method": "x"}), -32600),
            (json.dumps({**asked, "params": "text"}), -32600),
            (json.dumps({**asked, "method": "LLMService.__init__"}), -32601),
            (json.dumps({**asked, "method": "history_search"}), -32601),
            (json.dumps(asked), -32602),
            (json.dumps({**asked, "params": [5]}), -32602),
            (json.dumps({**asked, "params": {"query": "x", "other": 1}}), -32602),
            (json.dumps({**asked, "method": "LLMService.cancel_streaming", "params": ["none"]}), -32000),
        ]:
            answer = rpc.raw(sent)
            assert answer["error"]["code"] == code, sent
            assert answer["jsonrpc"] == "2.0"
        silent = {"jsonrpc": "2.0", "method": "LLMService.history_search", "params": ["x"]}
        batch = rpc.raw(json.dumps([silent, {**silent, "id": "a"}, 7]))
        assert [answer.get("id") for answer in batch] == ["a", None]


def test_an_answer_streams_and_its_session_can_be_listed_read_searched_and_loaded(server: Server) -> None:
    with Rpc(server, "?user_id=rpc-one") as rpc:
        assert rpc.call("get_current_state")["session_id"] is None
        assert rpc.call("history_search", "") == []
        started = rpc.call("chat_streaming", "r1", "Where is the lighthouse keeper?")
        result = rpc.until("streamComplete", request_id="r1")["result"]
        assert (result["outcome"], result["turn_id"]) == ("completed", started["turn_id"])
        assert rpc.until("streamChunk", request_id="r1")["content"]
        (session,) = rpc.call("history_list_sessions", limit=5)
        assert session.keys() == {"session_id", "timestamp", "message_count", "preview", "first_role"}
        assert (session["message_count"], session["preview"]) == (2, "Where is the lighthouse keeper?")
        messages = rpc.call("history_get_session", session["session_id"])
        assert [message["role"] for message in messages] == ["user", "assistant"]
        assert rpc.call("history_search", "lighthouse", "user")[0]["session_id"] == session["session_id"]
        status = rpc.call("get_history_status")
        assert (status["session_id"], status["message_count"]) == (session["session_id"], 2)
        assert 0 < status["history_tokens"] < status["trigger"]
        new = rpc.call("history_new_session")["session_id"]
        assert rpc.call("get_current_state")["messages"] == []
        loaded = rpc.call("load_session_into_context", session["session_id"])
        assert (loaded["message_count"], new != loaded["session_id"]) == (2, True)
        assert rpc.call("history_get_session", "unknown") == []


def test_a_client_that_connects_again_finds_its_running_answer_and_can_stop_it(server: Server) -> None:
    with Rpc(server, "?user_id=rpc-two") as rpc:
        rpc.call("chat_streaming", request_id="r2", message="hang on", model="hangs")
        rpc.until("streamChunk", request_id="r2")
    with Rpc(server, "?user_id=rpc-two") as rpc:
        (stream,) = rpc.call("get_current_state")["streams"]
        assert (stream["request_id"], stream["content"][:3]) == ("r2", "one")
        assert rpc.call("cancel_streaming", "r2")["status"] == "cancelled"
        assert rpc.until("streamComplete", request_id="r2")["result"]["outcome"] == "cancelled"
        assert rpc.call("get_current_state")["streams"] == []


def test_owners_see_nothing_of_each_other_and_foreign_pages_are_refused(server: Server) -> None:
    with Rpc(server, "?user_id=rpc-three") as rpc, Rpc(server, "?user_id=rpc-four") as other:
        session = rpc.call("chat_streaming", "r3", "my secret plan")["session_id"]
        rpc.until("streamComplete", request_id="r3")
        assert other.call("history_list_sessions") == other.call("history_get_session", session) == []
        assert other.call("history_search", "secret plan") == []
        assert other.call("get_current_state")["streams"] == []
        assert not [message for message in other.heard if message["method"].startswith("stream")]
    with pytest.raises(InvalidStatus):
        Rpc(server, origin="https://evil.example")
    with pytest.raises(InvalidStatus):
        Rpc(server, additional_headers={"Host": "evil.example"})


def test_without_a_workspace_files_are_refused_in_words(server: Server) -> None:
    with Rpc(server, "?user_id=rpc-five") as rpc:
        assert rpc.call("get_selected_files") == []
        asked = {"jsonrpc": "2.0", "id": 1, "method": "LLMService.set_selected_files", "params": [["a.py"]]}
        assert rpc.raw(json.dumps(asked))["error"]["data"]["code"] == "refused"


def test_a_workspace_opens_files_tells_of_folds_and_keeps_to_its_tokens(workspace: Server, tmp_path: Path) -> None:
    with Rpc(workspace) as rpc:
        assert rpc.call("set_selected_files", ["harbour.py", "none.py"]) == ["harbour.py"]
        rpc.call("chat_streaming", "r1", "what does it admit?")
        assert rpc.until("streamComplete", request_id="r1")["result"]["outcome"] == "completed"
        breakdown = rpc.call("get_context_breakdown")
        assert breakdown["files"].keys() == {"harbour.py"}
        (tmp_path / "repo" / "noise.log").write_text("not listed by git\n")
        (tmp_path / "repo" / "new.py").write_text("def new(): ...\n")
        assert rpc.until("filesChanged")["files"] == ["new.py"]
        assert rpc.call("get_current_state")["selected_files"] == ["harbour.py"]
        for number in range(8):
            rpc.call(
                "chat_streaming", f"long {number}", f"number {number}: " + "what of the ships in the harbour? " * 12
            )
            rpc.until("streamComplete", request_id=f"long {number}")
        assert rpc.until("compactionEvent")["event"]["type"] in ("compaction_start", "compaction_complete")
    token = Cix(workspace.folder).json("token", "create", "--user", "ann")["token"]
    with pytest.raises(InvalidStatus):
        Rpc(workspace)
    with Rpc(workspace, f"?token={token}") as rpc:
        assert rpc.call("history_list_sessions") == []
        assert rpc.call("get_selected_files") == []


@pytest.mark.req("API-8", "HISTORY-6")
def test_a_connection_stays_open_files_change_as_one_and_images_come_back(workspace: Server) -> None:
    with Rpc(workspace) as rpc:
        with pytest.raises(TimeoutError):
            rpc.wait(0.3)  # longer than header_seconds, which apply to requests of HTTP only
        assert rpc.call("set_selected_files", ["harbour.py"]) == ["harbour.py"]
        asked = {"jsonrpc": "2.0", "id": 1, "method": "LLMService.set_selected_files"}
        for refused in ("../x", ".contextinfinity/history.jsonl", ".contextinfinity/users/0/history.jsonl"):
            answer = rpc.raw(json.dumps({**asked, "params": [["new.py", refused]]}))
            assert answer["error"]["data"]["code"] == "file_refused"
        assert rpc.call("get_selected_files") == ["harbour.py"], "nothing changed"
        session = rpc.call("chat_streaming", request_id="r1", message="what is this?", images=[PICTURE])["session_id"]
        rpc.until("streamComplete", request_id="r1")
        for messages in (
            rpc.call("history_get_session", session),
            rpc.call("load_session_into_context", session)["messages"],
            rpc.call("get_current_state")["messages"],
        ):
            assert [message["images"] for message in messages] == [[PICTURE], []]


@pytest.mark.req("API-8", "HISTORY-3", "HISTORY-5", "HISTORY-6")
def test_the_sessions_of_a_workspace_are_those_of_its_repository(workspace: Server, tmp_path: Path) -> None:
    file = HistoryStore(tmp_path / "repo" / ".contextinfinity")
    known = file.append_message(None, "user", "where is the lamp?", images=[PICTURE], files=["harbour.py"])[
        "session_id"
    ]
    file.append_message(known, "assistant", "in the tower", files_modified=["tower.py"], edit_results=[{"ok": True}])
    Cix(workspace.folder).ask("a conversation about something else")
    with Rpc(workspace) as rpc:
        state = rpc.call("get_current_state")
        assert state["session_id"] == known
        assert [message["content"] for message in state["messages"]] == ["where is the lamp?", "in the tower"]
        assert [one["session_id"] for one in rpc.call("history_list_sessions")] == [known]
        question, answer = rpc.call("history_get_session", known)
        assert (question["images"], question["files"]) == ([PICTURE], ["harbour.py"])
        assert (answer["files_modified"], answer["edit_results"]) == (["tower.py"], [{"ok": True}])
        assert rpc.call("history_search", "TOWER", "assistant")[0]["session_id"] == known
        assert rpc.call("history_search", "something else") == []
        status = rpc.call("get_history_status")
        assert (status["session_id"], status["message_count"]) == (known, 2)
        new = rpc.call("history_new_session")["session_id"]
        assert rpc.call("get_current_state")["messages"] == []
        assert rpc.call("get_history_status")["message_count"] == 0
        rpc.call("chat_streaming", request_id="n1", message="a new start")
        rpc.until("streamComplete", request_id="n1")
        assert rpc.call("load_session_into_context", known)["message_count"] == 2
        assert rpc.call("chat_streaming", request_id="n2", message="and the lens?")["session_id"] == known
        rpc.until("streamComplete", request_id="n2")
    assert file.get_session_messages(known)[2]["content"] == "and the lens?"
    assert file.get_session_messages(new)[0]["content"] == "a new start"


def test_a_request_id_is_taken_from_the_moment_it_is_sent(server: Server) -> None:
    with Rpc(server, "?user_id=rpc-six") as rpc:
        asked = {
            "jsonrpc": "2.0",
            "method": "LLMService.chat_streaming",
            "params": ["same", "hang on", None, None, "hangs"],
        }
        rpc.send({**asked, "id": 1}, {**asked, "id": 2})
        answers = [rpc.answer() for _ in range(2)]
        assert sorted("error" in answer for answer in answers) == [False, True]
        assert rpc.call("cancel_streaming", "same")["status"] == "cancelled"


def test_a_message_is_answered_although_its_connection_closes_at_once(server: Server) -> None:
    with Rpc(server, "?user_id=rpc-seven") as rpc:
        params = ["r7", "hang on", None, None, "hangs"]
        rpc.send({"jsonrpc": "2.0", "id": 1, "method": "LLMService.chat_streaming", "params": params})
    with Rpc(server, "?user_id=rpc-seven") as rpc:
        while not (streams := rpc.call("get_current_state")["streams"]) or not streams[0]["content"]:
            pause()
        assert rpc.call("cancel_streaming", "r7")["status"] == "cancelled"
        assert rpc.call("get_current_state")["messages"][0]["content"] == "hang on"
