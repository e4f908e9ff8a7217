"""What one exchange of 1 KB brings into the ledger, and the verbs that carry it there.

240 characters asked, 760 answered; a raw reply of about 1.5 KB; a plan of about 0.5 KB; two chunks, each
with a vector of 256 numbers, a byte each. ``lean`` leaves out reply, plan and vectors.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from benchmarks.words import text
from contextinfinity.domain.ids import BranchId, new_id
from contextinfinity.domain.job import Job, JobResult
from contextinfinity.domain.memory import Extraction
from contextinfinity.domain.message import AssistantItem, Message, say
from contextinfinity.domain.plan import Budget, Plan, PlanSection, Retrieved
from contextinfinity.domain.search import Embedding, NewChunk
from contextinfinity.domain.session import Owner
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.turn import Completed, NewStep, NewTurn, StepEnd, TurnEnd, Usage
from contextinfinity.storage.contract import Store

QUESTION, ANSWER = 240, 760
DIMENSIONS = 256
MODEL = "static-256"
WORKER = "bench"


class Content(NamedTuple):
    """One exchange as its worker holds it before the first verb."""

    question: Message
    step: NewStep
    end: TurnEnd
    chunks: tuple[NewChunk, ...]


def content(rng: random.Random, *, lean: bool = False) -> Content:
    """Make an exchange that was never said before."""
    question, answer = say("user", text(rng, QUESTION)), say("assistant", text(rng, ANSWER))
    usage = Usage(input_tokens=rng.randint(500, 9000), output_tokens=190, cached_tokens=480, cost=rng.random() / 100)
    plan = Plan() if lean else _plan(rng)
    step = NewStep(id=new_id(), step_index=0, provider="openai_responses", model_id="gpt-5-mini", plan=plan)
    step_end = StepEnd(
        step_id=step.id,
        outcome=Completed(),
        items=(AssistantItem(blocks=answer.blocks),),
        response=None if lean else _response(rng, answer.rendered_text, usage),
        usage=usage,
        displayed_bytes=ANSWER,
        durable_bytes=ANSWER,
    )
    end = TurnEnd(outcome="completed", answer=answer, step=step_end)
    chunks = (_chunk(rng, "user", QUESTION, lean), _chunk(rng, "assistant", ANSWER, lean))
    return Content(question, step, end, chunks)


def _chunk(rng: random.Random, side: str, length: int, lean: bool) -> NewChunk:
    vector = struct.pack("<f", 1 / 127) + rng.randbytes(DIMENSIONS)
    return NewChunk(
        side="user" if side == "user" else "assistant",
        start=0,
        end=length,
        summary=text(rng, 60),
        chunk_type="Explanation",
        token_est=length // 4,
        embedding=None if lean else Embedding(model=MODEL, dim=DIMENSIONS, values=vector),
    )


def _plan(rng: random.Random) -> Plan:
    last = rng.randint(100, 100_000)
    return Plan(
        front=_digest(rng),
        budget=Budget(
            model_limit=128_000, base_tokens=7_312, retrieval_budget=2_400, response_reserve=4_096, safety_margin=640
        ),
        sections=(
            PlanSection(name="turns", tokens=rng.randint(900, 6000), source=[last - 40, last]),
            PlanSection(name="retrieved", tokens=rng.randint(90, 900)),
        ),
        retrieved=tuple(Retrieved(chunk_id=new_id(), similarity=0.8125 - rank / 16, rank=rank) for rank in range(2)),
        request_sha256=_digest(rng),
    )


def _digest(rng: random.Random) -> str:
    return hashlib.sha256(rng.randbytes(8)).hexdigest()


def _response(rng: random.Random, answer: str, usage: Usage) -> bytes:
    """A reply as the Responses API words it."""
    message = {"type": "output_text", "annotations": [], "logprobs": [], "text": answer}
    body = {
        "id": f"resp_{rng.randbytes(24).hex()}",
        "object": "response",
        "created_at": rng.randint(1_700_000_000, 1_800_000_000),
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "max_output_tokens": 4096,
        "model": "gpt-5-mini",
        "output": [{"id": f"msg_{rng.randbytes(24).hex()}", "type": "message", "status": "completed",
                    "role": "assistant", "content": [message]}],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
        "user": None,
        "metadata": {},
    }  # fmt: skip
    return msgspec.json.encode(body)


Verb = Callable[[], Awaitable[object]]


class Saying:
    """One exchange on its way through the store: the verbs in order, each one transaction."""

    def __init__(self, store: Store, branch_id: BranchId, made: Content) -> None:
        self._store = store
        self._branch_id = branch_id
        self._made = made
        self._turn_id = new_id()
        self._job: Job | None = None

    @property
    def answering(self) -> tuple[Verb, ...]:
        """TX-0, TX-P and TX-A: what the person waits for."""
        return (self._accept, self._open_step, self._finalise)

    @property
    def whole(self) -> tuple[Verb, ...]:
        """All of them: the last one writes TX-B and TX-C and ends the job that commits the turn."""
        return (*self.answering, self._settle)

    async def _accept(self) -> None:
        question = self._made.question
        new = NewTurn(branch_id=self._branch_id, message=question, id=self._turn_id, owner=WORKER, begin=True)
        await self._store.turns.accept(new)

    async def _open_step(self) -> None:
        await self._store.turns.open_step(self._turn_id, WORKER, self._made.step)

    async def _finalise(self) -> None:
        _, self._job = await self._store.turns.finalise_and_claim(self._turn_id, WORKER, self._made.end)

    async def _settle(self) -> None:
        assert self._job is not None
        draft = StateDraft(branch_id=self._branch_id, reason="turn", turn_id=self._turn_id)
        result = JobResult(state=draft, chunks=self._made.chunks, memories=Extraction(owner=Owner(), new=()))
        await self._store.jobs.complete(self._job.id, WORKER, result=result)
