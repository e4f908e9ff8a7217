"""One value of every kept noun, no field left at its default.

The files under ``samples/wire`` hold these values as each release wrote them. They are never rewritten:
a change that cannot read them any more needs a new version and a step in ``wire.UPGRADES``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from contextinfinity.domain.events import (
    Clarification,
    Delta,
    Durability,
    FinishedTurn,
    Retrying,
    StepStarted,
    ToolCalled,
    TurnDone,
    TurnFailed,
    TurnStarted,
)
from contextinfinity.domain.job import Job
from contextinfinity.domain.memory import Memory, MemoryReference
from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    ImageBlock,
    Message,
    MetadataItem,
    ReasoningBlock,
    ReasoningItem,
    TextBlock,
    ToolCallItem,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
    UnknownBlock,
    UnknownItem,
    say,
)
from contextinfinity.domain.plan import (
    AskedBack,
    Budget,
    Considered,
    Fallback,
    Front,
    LeftOut,
    Plan,
    PlanSection,
    Retrieved,
    Route,
    Shrunk,
)
from contextinfinity.domain.prompt import WorkspaceText
from contextinfinity.domain.search import Chunk, Embedding
from contextinfinity.domain.session import Branch, Owner, Session
from contextinfinity.domain.state import FoldCandidate, State
from contextinfinity.domain.transfer import Origin
from contextinfinity.domain.turn import (
    Cancelled,
    Completed,
    Exchange,
    Failed,
    Incomplete,
    Paused,
    Phase,
    Problem,
    Step,
    Turn,
    Usage,
)
from contextinfinity.domain.worker import Worker

SESSION, BRANCH, STATE, TURN, STEP, CHUNK, MEMORY = (f"0192f0c1-2345-7abc-8def-00000000000{n}" for n in range(1, 8))
OTHER = "0192f0c1-2345-7abc-8def-0123456789ab"
MOMENT = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)
LATER = MOMENT + timedelta(seconds=90, milliseconds=5)
JSON = {"name": "Zoë", "list": [1, -2.5, None, True, {"deep": ""}], "big": 2**60}

blocks: dict[str, ContentBlock] = {
    "text_block": TextBlock(text="Où est le café? 🙂", annotations=({"url": "https://example.org", "span": [0, 2]},)),
    "tool_use_block": ToolUseBlock(tool_use_id="use-1", name="search", input=JSON),
    "tool_result_block": ToolResultBlock(
        tool_use_id="use-1",
        content=(TextBlock(text="found"), ToolResultBlock(tool_use_id="use-2", is_error=True)),
        is_error=True,
    ),
    "image_block": ImageBlock(media_type="image/png", source={"kind": "blob", "sha256": "ab" * 32}),
    "reasoning_block": ReasoningBlock(encrypted_content="gAAAAA==", summary="thought about it", raw=JSON),
    "unknown_block": UnknownBlock(provider="acme", raw={"type": "hologram", "data": JSON}),
}
MESSAGE = Message(role="assistant", blocks=tuple(blocks.values()))

items: dict[str, TranscriptItem] = {
    "assistant_item": AssistantItem(blocks=(TextBlock(text="hi"), blocks["unknown_block"])),
    "tool_call_item": ToolCallItem(call_id="call-1", name="search", arguments=JSON),
    "tool_output_item": ToolOutputItem(call_id="call-1", output=JSON),
    "reasoning_item": ReasoningItem(encrypted_content="gAAAAA==", raw=JSON),
    "metadata_item": MetadataItem(key="finish_reason", value="stop"),
    "unknown_item": UnknownItem(provider="acme", raw=["anything", JSON]),
}

outcomes = {
    "completed": Completed(),
    "incomplete": Incomplete(reason="length"),
    "paused": Paused(reason="tools"),
    "failed": Failed(code="overloaded", message="Try again later."),
    "cancelled": Cancelled(),
}

OWNER = Owner(user_id="ann", org_id="acme")
USAGE = Usage(input_tokens=1200, output_tokens=340, cached_tokens=1000, cost=0.0125)
PROBLEM = Problem(code="interrupted", message="The connection was lost.", hint="Try again.")
EMBEDDING = Embedding(model="static", dim=2, values=b"\x00\x00\x80?\x00\x00\x00\xbf")
BUDGET = Budget(
    model_limit=128_000,
    base_tokens=900,
    retrieval_budget=6000,
    response_reserve=4096,
    safety_margin=1024,
    summary=500,
    memories=400,
    pins=2000,
    fold_trigger=24_000,
    verbatim_window=4000,
)
SHRUNK = Shrunk(artifacts=1, slice=400, trimmed=(3, 1, 0), lines_to=4, summary=200, memories=90, thinking=False)
PLAN = Plan(
    layout=1,
    front="cd" * 32,
    epoch_reason="fold",
    budget=BUDGET,
    sections=(PlanSection(name="system", tokens=120, source={"sha256": "ab" * 32}),),
    gathered=(3, 6),
    retrieved=(Retrieved(chunk_id=CHUNK, similarity=0.8125, rank=1),),
    left_out=(LeftOut(what="turns 3–4", reason="a line each", tokens=400),),
    shrunk=SHRUNK,
    shrink_steps=("artifacts: 1 of 2 kept", "turns 3–4: a line each"),
    contextualised="Where is Rex, Ann's dog?",
    candidates=("Rex", "Bello"),
    redactions="12" * 32,
    form="34" * 32,
    token_scale=1.125,
    request_sha256="ef" * 32,
)
FALLBACK = Fallback(model="small", window=8192)
CONSIDERED = Considered(model="large", by="rule 1", against="it cannot see pictures")
FINISHED = FinishedTurn(
    thread_id=SESSION,
    branch_id=BRANCH,
    turn_id=TURN,
    turn_seq=7,
    phase=Phase.RESPONSE_FINALIZED,
    outcome="incomplete",
    text="Around the corner.",
    usage=USAGE,
    model="small",
    created_at=MOMENT,
    error=PROBLEM,
)

events = {
    "finished_turn": FINISHED,
    "turn_started": TurnStarted(
        thread_id=SESSION, branch_id=BRANCH, turn_id=TURN, turn_seq=7, found=True, turns_loaded=6, model="small"
    ),
    "step_started": StepStarted(step_id=STEP, step_index=1, provider="local", model="small"),
    "delta": Delta(text="Around "),
    "durability": Durability(displayed=20, durable=12),
    "tool_called": ToolCalled(call_id="call-1", name="search", arguments=JSON, output=["found"]),
    "retrying": Retrying(attempt=2, reason="overloaded", wait_seconds=1.5),
    "clarification": Clarification.of("Which dog?", ("Rex", "Bello")),
    "turn_done": TurnDone(turn=FINISHED),
    "turn_failed": TurnFailed(code="interrupted", message="The connection was lost.", hint="Try again."),
}

rows = {
    "owner": OWNER,
    "session": Session(
        id=SESSION,
        owner=OWNER,
        kind="chat",
        active_branch=BRANCH,
        created_at=MOMENT,
        updated_at=LATER,
        external_id="lobby",
        title="Lobby",
        system="Be brief.",
        ttl_hours=1.5,
    ),
    "branch": Branch(
        id=BRANCH,
        session_id=SESSION,
        base_state=STATE,
        head_state=OTHER,
        head_seq=9,
        last_turn_seq=7,
        created_at=MOMENT,
        parent_id=OTHER,
        fork_seq=3,
        label="what if",
    ),
    "fold_candidate": FoldCandidate(
        branch_id=BRANCH,
        base_covers=2,
        base_summary="0f" * 32,
        covers_turn_seq=4,
        summary="They looked for the café.",
        case="summarize",
        boundary_reason="A new topic begins.",
        tokens_before=900,
        tokens_after=120,
        created_at=MOMENT,
        by="scripted/echo",
    ),
    "state": State(
        id=STATE,
        session_id=SESSION,
        branch_id=BRANCH,
        state_seq=8,
        turn_seq=7,
        covers_turn_seq=4,
        reason="fold",
        created_at=MOMENT,
        parent_id=OTHER,
        summary="They looked for the café.",
        pinned_facts=("The dog is called Rex.", "Zoë is vegan."),
        token_count_est=6,
        schema_version=1,
    ),
    "turn": Turn(
        id=TURN,
        session_id=SESSION,
        branch_id=BRANCH,
        turn_seq=7,
        phase=Phase.STATE_COMMITTED,
        state_before=STATE,
        user_message=say("user", "Where is it?"),
        created_at=MOMENT,
        updated_at=LATER,
        state_after=OTHER,
        answer=MESSAGE,
        outcome="incomplete",
        error=PROBLEM,
        usage=USAGE,
        provider="local",
        model="small",
        owner="worker-1",
        retry_of=OTHER,
        degraded=True,
        metadata=JSON,
    ),
    "step": Step(
        id=STEP,
        turn_id=TURN,
        step_index=1,
        provider="local",
        model_id="small",
        plan=PLAN,
        started_at=MOMENT,
        inputs=(ToolOutputItem(call_id="call-1", output=JSON),),
        items=tuple(items.values()),
        outcome=Incomplete(reason="length"),
        response=b"\x00\xff raw \x80",
        usage=USAGE,
        displayed_bytes=20,
        durable_bytes=12,
        ended_at=LATER,
    ),
    "origin": Origin(
        side="assistant",
        place=7,
        content_hash="00112233445566778899aabbccddeeff",
        external_id="msg-7",
        created_at=MOMENT,
        details={"name": "Ada"},
    ),
    "exchange": Exchange(
        message=say("user", "hello"), answer=MESSAGE, created_at=MOMENT, model="old-model", metadata=JSON
    ),
    "chunk": Chunk(
        id=CHUNK,
        session_id=SESSION,
        branch_id=BRANCH,
        source_turn=TURN,
        side="assistant",
        start=3,
        end=9,
        rendered_text="und th",
        summary="the way",
        chunk_type="Decision",
        token_est=2,
        content_hash="ab" * 32,
        created_at=MOMENT,
    ),
    "memory": Memory(
        id=MEMORY,
        owner=OWNER,
        content="Ann's dog is called Rex.",
        tags=("user:ann",),
        created_at=MOMENT,
        confidence=0.75,
        source_turn=TURN,
        source_span=(3, 9),
        valid_from=MOMENT,
        valid_to=LATER,
        last_placed_at=LATER,
        superseded_by=OTHER,
    ),
    "job": Job(
        id=12,
        job_type="index_turn",
        session_id=SESSION,
        branch_id=BRANCH,
        turn_seq=7,
        state="failed",
        run_at=LATER,
        created_at=MOMENT,
        updated_at=LATER,
        turn_id=TURN,
        attempts=5,
        last_error="no model",
        owner="worker-1",
    ),
    "worker": Worker(id="worker-1", host="desk", pid=4711, started_at=MOMENT, beats=3),
}

parts = {
    "message": MESSAGE,
    "usage": USAGE,
    "problem": PROBLEM,
    "embedding": EMBEDDING,
    "budget": BUDGET,
    "plan_section": PLAN.sections[0],
    "retrieved": PLAN.retrieved[0],
    "left_out": PLAN.left_out[0],
    "shrunk": SHRUNK,
    "plan": PLAN,
    "front": Front(
        system="Be brief.",
        pinned_facts=("The dog is called Rex.",),
        memories="Ann likes coffee.",
        summary="They looked for the café.",
        tools=[JSON],
        response_format={"type": "json_object"},
    ),
    "workspace_text": WorkspaceText(
        system="The files of the repository.",
        tiers=((say("user", "src/app.py"), say("assistant", "Read.")), (), ()),
        context=(say("user", "README.md"), say("assistant", "Read.")),
        history_to=4,
    ),
    "route": Route(
        model="sonar",
        reason="sonar answers by rule 1.",
        home="small",
        intent="factual",
        window=128_000,
        fallbacks=(FALLBACK,),
        considered=(CONSIDERED,),
    ),
    "placed": MemoryReference(MEMORY, "ab" * 8),
    "fallback": FALLBACK,
    "asked_back": AskedBack(reference="he", at=MOMENT, attached=(CHUNK,)),
    "considered": CONSIDERED,
}

SAMPLES: dict[str, msgspec.Struct] = {**blocks, **items, **outcomes, **events, **rows, **parts}
