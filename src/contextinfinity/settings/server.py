"""The settings of the server."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from contextinfinity.settings.field_types import FilePath, Names, Seconds, Text


class Server(Struct, frozen=True, kw_only=True):
    """Where `cix serve` listens, and its limits."""

    host: Annotated[Text, Meta(description="The address to listen on; any other than loopback requires a token.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65_535, description="The port; 0: any free port.")] = 8765
    workspace: Annotated[
        FilePath | None, Meta(description="The folder of the repository for conversations on /rpc.")
    ] = None
    workers: Annotated[int, Meta(ge=1, le=64, description="The number of worker processes.")] = 1
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
        int, Meta(ge=1024, le=1_048_576, description="The maximum size of the headers of a request.")
    ] = 32_768
    header_seconds: Annotated[Seconds, Meta(description="The timeout for the headers of a request.")] = 10.0
    body_seconds: Annotated[Seconds, Meta(description="The timeout for the body of a request.")] = 60.0
    requests_per_minute: Annotated[
        int, Meta(ge=0, le=100_000_000, description="Requests per minute of one user, over all tokens; 0: unlimited.")
    ] = 6000
    streams_per_user: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Streams that one user may have open at once.")
    ] = 200
    keep_alive_seconds: Annotated[Seconds, Meta(description="The interval of keep-alive comments on idle streams.")] = (
        15.0
    )
    stall_seconds: Annotated[
        Seconds, Meta(description="A client that reads nothing for this long is disconnected; it can resume.")
    ] = 60.0
    leave_seconds: Annotated[
        Seconds,
        Meta(description="How long generation continues after a /v1 client disconnects; a retry joins it."),
    ] = 10.0
    shutdown_seconds: Annotated[Seconds, Meta(description="How long running answers may continue at shutdown.")] = 20.0
