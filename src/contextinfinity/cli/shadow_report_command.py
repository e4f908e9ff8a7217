"""``cix shadow-report``: where the second backend of threads differed from the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contextinfinity.cli.command_options import CommonOptions, command_for_all_users, settings_for

if TYPE_CHECKING:
    from contextinfinity.compat.shadow_threads import ThreadDifference

SHOWN = 20
"""Differences that are listed, the last ones; ``--json`` gives all."""


@command_for_all_users
def shadow_report(options: CommonOptions) -> None:
    """Show where the backend of storage.threads_shadow differed. Exits with 1 if it did."""
    import typer

    from contextinfinity.cli.output import print_json, print_notice, print_table
    from contextinfinity.compat.shadow_threads import read_report, report_file

    settings = settings_for(options.config, options.data_dir, creates=False).settings
    found = read_report(report_file(settings.data_dir))
    if options.as_json:
        print_json(found)
    elif found:
        print_table(("when", "verb", "conversation", "difference"), map(_row, found[-SHOWN:]))
        threads = len({difference.thread_id for difference in found})
        print_notice(f"{len(found)} differences in {threads} conversations.")
    else:
        print_notice("No read or write of the second backend differed.")
    if found:
        raise typer.Exit(1)


def _row(difference: ThreadDifference) -> tuple[str, str, str, str]:
    if difference.error is not None:
        said = f"failed: {difference.error}"
    elif difference.first_difference is None:
        said = "only one of the two has it"
    else:
        said = f"{difference.turns} and {difference.shadow_turns} turns, from turn {difference.first_difference + 1} on"
    return difference.at[:19], difference.verb, difference.thread_id, said
