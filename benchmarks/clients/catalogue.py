"""The clients: what is installed, and the commands that hold a session with each."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.clients.installs import from_npm, from_pip

PROGRAMS = Path(__file__).parent / "programs"
DETAIL = (
    "Use the shell, one command for each heron, and tell me afterwards in one sentence how many rounds it took. " * 2
)
FIRST, SECOND, THIRD = f"Echo the herons please. {DETAIL}", "And once again please", "After that, a third time"
"""The first one has a length by which a conversation with other messages in it is recognised."""
CHAT, MESSAGES, RESPONSES = "llama3.1", "claude-sonnet-4-5", "gpt-5.5"
"""The models, one for each wire."""
LANGGRAPH = ("langgraph==1.2.20", "langchain-openai==1.7.3", "langchain-anthropic==1.7.7")
LLAMA_INDEX = ("llama-index-core==0.14.25", "llama-index-llms-openai-like==0.8.1")
SMOLAGENTS = ("smolagents[openai]==1.26.0",)


@dataclass(frozen=True, kw_only=True)
class Session:
    """One session of a client: where it works, and the addresses it is given."""

    folder: Path
    base: str
    """The address for OpenAI's clients."""
    root: str
    """The address for Anthropic's clients."""
    model: str

    def run(self, *command: object, typed: str = "", **environment: str) -> None:
        """Run a command of the client; raise if it fails."""
        home = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "TERM": "dumb", "DO_NOT_TRACK": "1"}
        told = {"cwd": self.folder, "env": home | environment, "timeout": 300, "input": typed, "text": True}
        done = subprocess.run([*map(str, command)], capture_output=True, check=False, **told)  # type: ignore[call-overload]
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {(done.stdout + done.stderr)[-800:]}")


@dataclass(frozen=True, kw_only=True)
class Client:
    """A client on one wire."""

    name: str
    model: str
    talk: Callable[[Session], None]
    requests: int = 2
    """How many requests of the user it sends."""
    threads: int = 1
    """How many conversations a person would list."""
    goes_on: bool = True
    """Whether its requests are one conversation."""
    differs: tuple[str, ...] = ()
    """The parameters that are known to differ upstream from the same session sent straight."""
    is_compared: bool = True
    """Whether the same session is also held straight with the vendor."""


def _git(session: Session) -> None:
    session.run("git", "init", "-q", ".")
    # Some clients send the git status: without the files that they keep there, some of them for a moment.
    (session.folder / ".git" / "info" / "exclude").write_text(".*\n")
    (session.folder / "a.py").write_text("x = 1\n")
    session.run("git", "add", "a.py")
    dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T00:00:00Z")  # the same hash each time
    session.run("git", "-c", "user.email=a@b", "-c", "user.name=n", "commit", "-qm", "begin", **dates)


def claude_code(session: Session) -> None:
    """Hold three requests with Claude Code, with its own compaction before the third."""
    claude = from_npm("@anthropic-ai/claude-code@2.1.327") / "claude"
    models = {"ANTHROPIC_MODEL": session.model, "ANTHROPIC_SMALL_FAST_MODEL": session.model}
    quiet = {"DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1"}
    told = {"ANTHROPIC_BASE_URL": session.root, "ANTHROPIC_API_KEY": "sk-ant-x", **models, **quiet}
    _git(session)
    for number, text in enumerate((FIRST, SECOND, "/compact", THIRD)):
        again = ("-c",) if number else ()
        session.run(claude, "-p", *again, "--allowedTools", "Bash(*)", "--", text, **told)


def qwen_code(session: Session) -> None:
    """Hold three requests with qwen-code, with its own compression before the third."""
    qwen = from_npm("@qwen-code/qwen-code@0.24.4") / "qwen"
    told = {"OPENAI_BASE_URL": session.base, "OPENAI_API_KEY": "x", "OPENAI_MODEL": session.model}
    _git(session)
    for number, text in enumerate((FIRST, SECOND, "/compress", THIRD)):
        again = ("-c",) if number else ()
        session.run(qwen, "--auth-type", "openai", "--yolo", *again, text, QWEN_TELEMETRY_ENABLED="false", **told)


def opencode(session: Session) -> None:
    """Hold two requests with opencode."""
    program = from_npm("opencode-ai@1.18.33") / "opencode"
    model = {"name": "it", "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
    options = {"baseURL": session.base, "apiKey": "x"}
    package = {"npm": "@ai-sdk/openai-compatible", "name": "cix", "options": options, "models": {session.model: model}}
    chosen = {"model": f"cix/{session.model}", "small_model": f"cix/{session.model}"}
    settings = {**chosen, "autoupdate": False, "permission": {"bash": "allow"}, "provider": {"cix": package}}
    (session.folder / "opencode.json").write_text(json.dumps(settings))
    _git(session)
    for number, text in enumerate((FIRST, SECOND)):
        again = ("-c",) if number else ()
        session.run(program, "run", *again, text, OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_AUTOUPDATE="1")


def codex(session: Session) -> None:
    """Hold two requests with Codex."""
    program = from_npm("@openai/codex@0.169.0") / "codex"
    provider = {"name": "cix", "base_url": session.base, "wire_api": "responses", "env_key": "KEY"}
    settings = [f'model = "{session.model}"', 'model_provider = "cix"', "[model_providers.cix]"]
    (session.folder / "config.toml").write_text("\n".join([*settings, *(f'{k} = "{v}"' for k, v in provider.items())]))
    _git(session)
    for again, text in (((), FIRST), (("resume", "--last"), SECOND)):
        command = (program, "exec", "--skip-git-repo-check", "-s", "danger-full-access", *again, text)
        session.run(*command, CODEX_HOME=str(session.folder), KEY="x")


def pi(session: Session) -> None:
    """Hold two requests with pi, which speaks each wire."""
    program = from_npm("@mariozechner/pi-coding-agent@0.73.1") / "pi"
    api = {CHAT: "openai-completions", MESSAGES: "anthropic-messages", RESPONSES: "openai-responses"}[session.model]
    address = session.root if session.model == MESSAGES else session.base
    model = {"id": session.model, "contextWindow": 200_000, "maxTokens": 8_000}
    provider = {"baseUrl": address, "api": api, "apiKey": "x", "models": [model]}
    (session.folder / ".pi" / "agent").mkdir(parents=True)
    (session.folder / ".pi" / "agent" / "models.json").write_text(json.dumps({"providers": {"cix": provider}}))
    _git(session)
    for number, text in enumerate((FIRST, SECOND)):
        again = ("-c",) if number else ()
        session.run(program, "-p", "--provider", "cix", "--model", session.model, *again, text, PI_OFFLINE="1")


def cline(session: Session) -> None:
    """Give Cline one task: without a terminal it goes on with none."""
    program = from_npm("cline@3.0.65") / "cline"
    session.run(program, "auth", "-p", "openai", "-k", "x", "-m", session.model, "-b", session.base)
    _git(session)
    session.run(program, FIRST)


def aider(session: Session) -> None:
    """Have aider edit a file three times; it commits each edit."""
    program = from_pip("aider-chat==0.86.2") / "aider"
    options = ("--no-pretty", "--yes-always", "--no-show-model-warnings", "--no-gitignore", "--no-auto-lint")
    quiet = ("--analytics-disable", "--no-check-update", "--edit-format", "diff")
    typed = "Please raise x by one\nRaise it once more, please\nAnd a third time now\n/exit\n"
    _git(session)
    told = {"OPENAI_API_BASE": session.base, "OPENAI_API_KEY": "x"}
    session.run(program, "--model", f"openai/{session.model}", *options, *quiet, "a.py", typed=typed, **told)
    assert (session.folder / "a.py").read_text() == "x = 4\n"


def program(name: str, *packages: str, first: tuple[str, ...] = ()) -> Callable[[Session], None]:
    """Return a session of two requests with a program of this folder."""

    def talk(session: Session) -> None:
        python = from_pip(*packages) / "python"
        session.run(python, PROGRAMS / f"{name}.py", *first, session.base, session.root, session.model, FIRST, SECOND)

    return talk


_LITELLM = ("litellm[proxy]==1.106.2",)
CLIENTS = (
    Client(name="Claude Code 2.1.327", model=MESSAGES, talk=claude_code, requests=3),
    Client(name="Codex 0.169.0", model=RESPONSES, talk=codex),
    Client(name="qwen-code 0.24.4", model=CHAT, talk=qwen_code, requests=3),
    Client(name="opencode 1.18.33", model=CHAT, talk=opencode),
    Client(name="pi 0.73.1", model=CHAT, talk=pi),
    Client(name="pi 0.73.1", model=MESSAGES, talk=pi),
    Client(name="pi 0.73.1", model=RESPONSES, talk=pi),
    Client(name="Cline 3.0.65", model=CHAT, talk=cline, requests=1),
    Client(name="aider 0.86.2", model=CHAT, talk=aider, requests=3),
    Client(name="LangGraph 1.2.20", model=CHAT, talk=program("langgraph_agent", *LANGGRAPH)),
    Client(name="LangGraph 1.2.20", model=MESSAGES, talk=program("langgraph_agent", *LANGGRAPH)),
    Client(
        name="pydantic-ai 2.38.0", model=CHAT, talk=program("pydantic_ai_agent", "pydantic-ai-slim[openai]==2.38.0")
    ),
    Client(name="smolagents 1.26.0", model=CHAT, talk=program("smolagents_agent", *SMOLAGENTS)),
    Client(name="llama-index 0.14.25", model=CHAT, talk=program("llama_index_agent", *LLAMA_INDEX)),
    Client(name="litellm 1.106.2", model=CHAT, talk=program("litellm_loop", *_LITELLM, first=("sdk",))),
    Client(name="litellm 1.106.2", model=MESSAGES, talk=program("litellm_loop", *_LITELLM, first=("sdk",))),
    Client(name="litellm proxy 1.106.2", model=CHAT, talk=program("litellm_loop", *_LITELLM, first=("proxy",))),
    Client(
        name="openai-agents 0.24.0, conversations",
        model=RESPONSES,
        talk=program("openai_agents_session", "openai-agents==0.24.0"),
        threads=2,
        is_compared=False,
    ),
    Client(
        name="instructor 1.17.0, five modes",
        model=CHAT,
        talk=program("instructor_modes", "instructor==1.17.0"),
        requests=5,
        threads=5,
        goes_on=False,
    ),
)
