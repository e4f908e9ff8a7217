"""``cix pin``, ``pins`` and ``unpin``: facts that every prompt contains verbatim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import Branch, CommonOptions, Thread, command

if TYPE_CHECKING:
    from contextinfinity.client.results import Pins

Fact = Annotated[str, typer.Argument(metavar="FACT", help="The fact that every prompt contains.", show_default=False)]
Number = Annotated[int, typer.Argument(metavar="N", help="The number that `cix pins` shows.", show_default=False)]


@command
def pin(options: CommonOptions, thread: Thread, fact: Fact, branch: Branch = None) -> None:
    """Pin a fact: the model sees it in every request."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.thread_choice import place

    with working(options) as work:
        thread_id, branch_id = place(work, options, thread, branch)
        pinned = work.do(work.client.pins.add(thread_id, fact, branch_id=branch_id))
    _print(options, pinned)


@command
def pins(options: CommonOptions, thread: Thread, branch: Branch = None) -> None:
    """List the pinned facts."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.thread_choice import place

    with working(options) as work:
        thread_id, branch_id = place(work, options, thread, branch)
        pinned = work.do(work.client.pins.list(thread_id, branch_id=branch_id))
    _print(options, pinned)


@command
def unpin(options: CommonOptions, thread: Thread, number: Number, branch: Branch = None) -> None:
    """Remove a pinned fact."""
    from contextinfinity.cli.engine_thread import working
    from contextinfinity.cli.thread_choice import place

    with working(options) as work:
        thread_id, branch_id = place(work, options, thread, branch)
        pinned = work.do(work.client.pins.remove(thread_id, number, branch_id=branch_id))
    _print(options, pinned)


def _print(options: CommonOptions, pinned: Pins) -> None:
    from contextinfinity.cli.output import print_json

    if options.as_json:
        print_json(pinned)
    else:
        print_pins(pinned)


def print_pins(pinned: Pins) -> None:
    """Print the pinned facts for people."""
    from contextinfinity.cli.output import print_notice, print_table

    if pinned.pins:
        print_table(("n", "fact"), ((str(pin.n), pin.fact) for pin in pinned.pins), whole=True)
    else:
        print_notice("Nothing is pinned.")
