"""Single requests to an auxiliary model: text in, text out, with a timeout.

Summaries, topic detection, rewriting and memory extraction use it. Every failure is a ``ProviderError``; every caller
can continue without the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from contextinfinity.domain.message import AssistantItem, Json, TextBlock, say
from contextinfinity.domain.prompt import Finished, Prompt, ProviderRequest
from contextinfinity.domain.turn import Completed, Usage
from contextinfinity.errors import ProviderError
from contextinfinity.providers.contract import Provider


@dataclass(frozen=True, kw_only=True)
class AuxiliaryModel:
    """An auxiliary model with a timeout of ``seconds``."""

    provider: Provider
    model_id: str
    seconds: float = 60.0
    options: Json = None
    window: Callable[[], int] | None = None
    """Returns the model's real context window if that is smaller than the configured one."""

    @property
    def context_limit(self) -> int:
        """The maximum number of tokens of a request and its answer together."""
        return self.provider.context_limit(self.model_id) if self.window is None else self.window()

    async def ask(self, system: str, words: str, *, schema: Json = None, max_output_tokens: int = 1000) -> str:
        """Return the whole answer; ``schema`` is a JSON schema for it, if the model supports that."""
        text, _ = await self.ask_counted(system, words, schema=schema, max_output_tokens=max_output_tokens)
        return text

    async def ask_counted(
        self, system: str, words: str, *, schema: Json = None, max_output_tokens: int = 1000
    ) -> tuple[str, Usage]:
        """Return the answer and its usage."""
        prompt = Prompt(system=(system,), messages=(say("user", words),), response_format=schema)
        request = ProviderRequest(
            model_id=self.model_id, prompt=prompt, max_output_tokens=max_output_tokens, options=self.options
        )
        try:
            async with asyncio.timeout(self.seconds):
                return await self._answer(request)
        except TimeoutError as error:
            raise ProviderError(f"{self.model_id} did not answer in {self.seconds:g} s.", kind="timeout") from error

    async def _answer(self, request: ProviderRequest) -> tuple[str, Usage]:
        async with aclosing(self.provider.stream(self.provider.write(request))) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, Finished):
                    return _text(self.model_id, event), event.usage
        raise ProviderError(f"{self.model_id} was cut off.", kind="interrupted")


def _text(model_id: str, finished: Finished) -> str:
    if not isinstance(finished.outcome, Completed):
        raise ProviderError(f"{model_id} did not finish its answer: {finished.outcome}.", kind="incomplete")
    contents = (item.blocks for item in finished.items if isinstance(item, AssistantItem))
    text = "".join(block.text for blocks in contents for block in blocks if isinstance(block, TextBlock))
    if not text.strip():
        raise ProviderError(f"{model_id} returned no text.", kind="empty")
    return text
