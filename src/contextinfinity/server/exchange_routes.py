"""Routes for the import and the export of conversations."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from contextinfinity.client.contract import ExportFormat
from contextinfinity.errors import InvalidInput, WrongForm
from contextinfinity.exchange.exporter import MEDIA_TYPES, SUFFIXES
from contextinfinity.exchange.import_progress import Format, Imported
from contextinfinity.server.app_state import app_state_of
from contextinfinity.server.auth import ActingUser, check_thread_name
from contextinfinity.server.bodies import ALWAYS, WITH_BODY, answer, gives, refusals
from contextinfinity.storage.encryption.protection import scratch_folder

routes = APIRouter(tags=["exchange"], default_response_class=Response)

FILE = {"type": "string", "format": "binary", "description": "The bytes of an export: JSON, JSON Lines, zip or gzip."}

HELD = 1 << 20
"""The number of bytes of an export that are sent at once."""


@routes.post(
    "/import",
    responses=gives(Imported, *WITH_BODY, 404, 409),
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": FILE}}}},
)
async def import_conversations(
    request: Request,
    act: ActingUser,
    form: Annotated[Format, Query(alias="format", description="The format of the file; auto: detect it.")] = "auto",
    thread_id: Annotated[
        str | None, Query(description="The thread for messages without one: an existing thread, or a new one.")
    ] = None,
) -> Response:
    """Import the file in the request body; importing it again adds only new messages."""
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise WrongForm("The body is a form.", hint="Send the file itself as the body.")
    if thread_id is not None:
        check_thread_name(thread_id)
    folder = await run_in_threadpool(scratch_folder, app_state_of(request).data_dir)
    # A conversation without a title is named after its file, but not after a hidden one.
    with tempfile.NamedTemporaryFile(prefix=".cix-import-", dir=folder) as file:
        async for piece in request.stream():
            await run_in_threadpool(file.write, piece)
        await run_in_threadpool(file.flush)
        return answer(await _imported(act, file, form, thread_id))


async def _imported(act: ActingUser, file: IO[bytes], form: Format, thread_id: str | None) -> Imported:
    try:
        return await act.client.imports.load(Path(file.name), form=form, thread_id=thread_id)
    except InvalidInput as error:
        raise InvalidInput(error.message.replace(file.name, "The file"), hint=error.hint) from error


@routes.get(
    "/export",
    responses=refusals(*ALWAYS, 404)
    | {
        200: {
            "description": "The export, streamed.",
            "content": {kind: {"schema": {"type": "string"}} for kind in sorted(set(MEDIA_TYPES.values()))},
        }
    },
)
async def export_conversations(
    act: ActingUser,
    form: Annotated[
        ExportFormat,
        Query(alias="format", description="cix: everything; markdown: to read; jsonl: messages of active branches."),
    ] = "cix",
    thread_id: Annotated[str | None, Query(description="One thread; default: all threads of the acting user.")] = None,
) -> Response:
    """Export one conversation, or all of the acting user's."""
    pieces = await act.client.exports.open(form, thread_id=thread_id)
    name = f"conversations{SUFFIXES[form]}"
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return StreamingResponse(_whole(pieces), media_type=MEDIA_TYPES[form], headers=headers)


async def _whole(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Join small pieces into larger ones."""
    held = bytearray()
    async for piece in pieces:
        held += piece
        if len(held) >= HELD:
            yield bytes(held)
            held.clear()
    yield bytes(held)
