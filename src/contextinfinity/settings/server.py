"""The settings of the server."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from contextinfinity.settings.field_types import FilePath, Names, Seconds, Text


class Server(Struct, frozen=True, kw_only=True):
    """Where `cix serve` listens, and its limits."""

    host: Annotated[Text, Meta(description="The address; any other than loopback demands a token.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="The port; 0 takes a free one.")] = 8765
    workspace: Annotated[
        FilePath | None, Meta(description="The folder of the repository that talks on /rpc are about.")
    ] = None
    workers: Annotated[int, Meta(ge=1, le=64, description="Processes that share the work on one ledger.")] = 1
    allowed_hosts: Annotated[
        Names,
        Meta(
            description="Names under which it may be called, beside its own address; on loopback any other is refused, "
            "elsewhere only once names are given."
        ),
    ] = ()
    cors_origins: Annotated[
        Names, Meta(description="Web pages that may call it from a browser, as https://example.org; none by default.")
    ] = ()
    max_body_bytes: Annotated[
        int, Meta(ge=1024, le=1_073_741_824, description="The largest request; a larger one is refused with 413.")
    ] = 16_777_216
    max_import_bytes: Annotated[
        int, Meta(ge=1024, le=1_099_511_627_776, description="The largest file that POST /import takes.")
    ] = 4_294_967_296
    max_message_chars: Annotated[
        int, Meta(ge=1, le=100_000_000, description="The longest message; a longer one is refused with 413.")
    ] = 1_000_000
    max_header_bytes: Annotated[
        int, Meta(ge=1024, le=1_048_576, description="The most that the headers of a request may take.")
    ] = 32_768
    header_seconds: Annotated[Seconds, Meta(description="How long the headers of a request may take to arrive.")] = 10.0
    body_seconds: Annotated[Seconds, Meta(description="How long the rest of it may take.")] = 60.0
    requests_per_minute: Annotated[
        int, Meta(ge=0, le=100_000_000, description="Requests of one user, whatever tokens they have; 0: any number.")
    ] = 6000
    streams_per_user: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Streams that one user may have open at once.")
    ] = 200
    keep_alive_seconds: Annotated[
        Seconds, Meta(description="A stream with nothing to say sends a comment this often, so that no proxy cuts it.")
    ] = 15.0
    stall_seconds: Annotated[
        Seconds, Meta(description="A reader that takes nothing for so long is let go; it can resume.")
    ] = 60.0
    leave_seconds: Annotated[
        Seconds,
        Meta(description="How long a model goes on for a client of /v1 that left; a retry joins it."),
    ] = 10.0
    shutdown_seconds: Annotated[
        Seconds, Meta(description="How long running answers may go on when the server ends.")
    ] = 20.0
