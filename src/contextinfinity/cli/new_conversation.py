"""The options that begin a conversation: instructions, a persona, and what goes along with the first question."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import settings_for
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.cli.command_options import CommonOptions
    from contextinfinity.cli.engine_thread import EngineThread

Files = Annotated[list[Path] | None, typer.Option("--file", metavar="F", help="Add this text file to the question.")]
Images = Annotated[list[Path] | None, typer.Option("--image", metavar="F", help="Add this image to the question.")]
System = Annotated[
    str | None, typer.Option("--system", metavar="TEXT", help="Instructions for the model, for a new conversation.")
]
PersonaName = Annotated[
    str | None, typer.Option("--persona", metavar="NAME", help="The instructions of [general.personas.NAME].")
]


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """The instructions of a new conversation, and the model that answers in it."""

    system: str | None = None
    model: str | None = None

    def begin(self, work: EngineThread, options: CommonOptions, thread: str) -> str:
        """Create the conversation if it has instructions; return where to send the first question."""
        if self.system is None:
            return thread
        from contextinfinity.domain.session import NewSession

        return work.do(work.client.threads.create(NewSession(owner=options.owner, system=self.system))).thread_id


def instructions_of(
    options: CommonOptions, session: str, system: str | None, persona: str | None, model: str | None
) -> Instructions:
    """Return the instructions that ``--system`` or ``--persona`` give a new conversation."""
    if system is None and persona is None:
        return Instructions(model=model)
    if session != "new":
        raise InvalidInput(
            "--system and --persona work for new conversations only.",
            hint="Omit --session, or use `cix pin` to instruct an existing conversation.",
        )
    if persona is None:
        return Instructions(system=system, model=model)
    if system is not None:
        raise InvalidInput("--system and --persona cannot be used together.", hint="Use one of them.")
    known = settings_for(options.config, options.data_dir).settings.general.personas
    if persona not in known:
        raise InvalidInput(
            f"There is no persona {persona!r}; there are: {', '.join(known) or 'none'}.",
            hint=f'Write [general.personas.{persona}] with system = "…" in config.toml.',
        )
    return Instructions(system=known[persona].system, model=model or known[persona].model)
