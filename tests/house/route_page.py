"""The page of the manual that lists every route, made from the application itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contextinfinity.client.local import LocalClient
from contextinfinity.server.app import make_app
from contextinfinity.server.app_state import COUNTED, Metrics
from contextinfinity.server.bodies import JSON
from contextinfinity.server.problems import TABLE
from contextinfinity.settings import Settings

_OPENING = """\
# HTTP

<!-- Made by `python -m tests.house.pages`; change the routes, not this page. -->

`cix serve` listens on `http://127.0.0.1:8765`; its OpenAPI document is at `/openapi.json`. Requests and responses are
JSON. The limits are under [`[server]`](configuration.md) and apply to all workers together.

## Authentication and users

Every request acts for one user and can only find, change and create that user's threads, turns, branches, chunks and
memories; everything else is 404. The user is the `user_id` of the body, else the `user_id` of the query, else the
token's user, else `local` (on `/chat`: `anonymous`). Under `/v1` the end user that a client names (`user`,
`safety_identifier`, `metadata.user_id`) takes precedence over the query. The same user in another organisation
(`X-Org-Id`) is another user.

Until the first token is created, a server on this machine accepts any user and ignores keys. Once a token exists
(`cix token create`), every request needs a valid one, as `Authorization: Bearer TOKEN` or `X-Api-Key: TOKEN`, except
`/healthz` and `/openapi.json`. A token acts for its user: another `user_id` is 403. A token of scope `app` acts for any
user of its organisation, one user per request. `X-Org-Id` must be the token's organisation. `/metrics` needs a token of
scope `app`.

A token can expire (`cix token create --expires 90d`) and can be revoked (`cix token revoke`). The 401 says which of
the two happened; streams that the token opened end within two seconds with an `error` event. If no valid token is left,
the server rejects every request: revoking tokens never opens it. Create a new token.

A request that changes something and comes from a web page of another origin is rejected (403, `cross_site`), by its
`Origin` or else its `Sec-Fetch-Site`, unless the origin is in `server.cors_origins`. The same is true for what such a
page loads into itself, by `fetch` or as an image; following a link is allowed.

## Threads

A thread is a conversation. Its `thread_id` is the id that the server assigned, or an external id that you choose (1 to
128 printable characters, no slashes; not `new`, `-`, `.` or `..`). An external id is unique per user. Sending a message
to `new`, or to an external id that is not in use, creates the thread; no other request does.

## Idempotency

A request with the header `Idempotency-Key` (1 to 255 characters) is processed once, however often it is sent, also
after a restart and by another worker: a repeated message returns the turn of the first request, a repeated
`POST /threads` returns its thread. The same key with another body is rejected. Keys are separate for each user. `fork`
and `rollback` create a branch each time; the other routes can be repeated safely.

## Streams

Streams are `text/event-stream`. The first event of a message is `turn`, sent once the message is durable; the last is
`done`, the finished turn, sent once the answer is durable. Between them come `step` (a request to a model), `delta`
(`{text}`), `durability` (`{displayed, durable}`, in bytes), `tool`, `retry`, `clarification`
(`{question, candidates: [{id, name}]}`) and `error` (`{code, message, hint}`; `done` follows). An idle stream sends
comments. The turn continues if the client disconnects. A stream that ends without `done` was cut off, by the network or
by a shutdown: resume it with `GET /threads/{thread_id}/turns/{turn_id}/stream` and the last id you received as
`Last-Event-ID`; without one it starts from the beginning. Any number of clients can read it, from any worker, up to an
hour after its end; later it has only `done` with the whole text.

## Chats

`POST /chat` answers one query in a session whose turns are deleted after `retention.conversation_ttl_hours`. Without a
`session_id` a new session is created, and its id is in the response; an unknown UUID is used as the id of a new
session; any other value, and the session of another user, is replaced by a new session. `intent` is the
[router's](routing.md) label of the question after its references were resolved ("who are his children" is labelled as
the question about that person's children), and `confidence` is the measured accuracy of labels with that reason. `data`
are the retrieved chunks that the answer used. Intent, confidence and the number of chunks (`result_count`) are stored
with the turn. `metadata.message_type` is `answer`, `clarification` (the message asks which of `metadata.candidates` is
meant; the next query within five minutes can answer it) or `error` (`error` describes it; the status is 200). While the
ledger is unavailable, answers continue and are `degraded`. Without tokens and without a `user_id` the user is
`anonymous`, who has no data outside the session. With `retention.stateless` nothing is loaded or stored. Everything
else about a session is under `/threads`: its `session_id` is a `thread_id`.

## Pages

`GET /threads` and `GET /memories` return a cursor `next`, to be sent as `after`; messages return `before`, to be sent
as `before`. null means that there are no more. A cursor is a position, not an id: it stays valid when the item at that
position is deleted. No item is skipped or repeated between pages, except a thread that got a new message meanwhile: it
moves to the front.

## Problems

Errors are returned as `application/problem+json` (RFC 9457): `type`, `title`, `status`, `detail`, a `code` of the
[list of errors](errors.md), and a `hint` that says what to do. If a model fails, the response is not an error: it is a
finished turn with outcome `failed` and status 200.

| status | when |
| --- | --- |
"""

_FIGURES = """\
## Metrics

`GET /metrics` returns metrics for Prometheus, counted since the server started. Every worker reports the totals of all
workers, including those that died, so it does not matter which one is scraped. `streams` and `spool_depth` are sums
over the running workers; `jobs` and `ready` are the view of the worker that answers. Background events of another
worker can be up to a second late. A turn is counted once, when it ends. For the figures of one turn see
`GET /threads/{thread_id}/turns/{turn_id}` and its `context`.
"""


def reference() -> str:
    """Return the page, in Markdown."""
    document = make_app(Settings(), _no_client).openapi()
    return _OPENING + "\n".join([*_statuses(), "", *_figures(), *_routes(document), *_schemas(document)])


def _no_client(settings: Settings) -> LocalClient:
    raise NotImplementedError  # only the description is wanted


def _statuses() -> Iterator[str]:
    for status in sorted({status for status, _ in TABLE.values()}):
        kinds = [kind for kind, (its, _) in TABLE.items() if its == status]
        yield f"| {status} | {', '.join(f'`{kind.code}`' for kind in kinds)} |"


def _figures() -> Iterator[str]:
    yield _FIGURES
    yield "| figure | labels | meaning |"
    yield "| --- | --- | --- |"
    for name, labels, meaning in Metrics().described:
        yield f"| `{name}` | {', '.join(f'`{label}`' for label in labels)} | {meaning} |"
    yield f"\n`what` of `contextinfinity_happened_total`: {', '.join(f'`{what}`' for what in sorted(COUNTED))}.\n"


def _routes(document: dict[str, Any]) -> Iterator[str]:
    yield "## Routes\n"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"### {method.upper()} {path}\n"
            yield f"{operation['description']}\n"
            yield from _parameters(operation)
            yield from _body(operation)
            yield f"{_answers(operation)}\n"


def _parameters(operation: dict[str, Any]) -> Iterator[str]:
    parameters = [one for one in operation.get("parameters", ()) if one["in"] != "path"]
    if not parameters:
        return
    yield "| parameter | in | meaning |"
    yield "| --- | --- | --- |"
    for one in parameters:
        needed = " (required)" if one.get("required") else ""
        yield f"| `{one['name']}` | {one['in']} | {one.get('description', '').replace('``', '`')}{needed} |"
    yield ""


def _body(operation: dict[str, Any]) -> Iterator[str]:
    if (body := operation.get("requestBody")) is not None:
        needed = "" if body.get("required") else ", which may be left out"
        media, what = next(iter(body["content"].items()))
        taken = _linked(what["schema"]) if media == JSON else f"`{media}`: {what['schema']['description'].rstrip('.')}"
        yield f"Takes {taken}{needed}."


def _answers(operation: dict[str, Any]) -> str:
    responses = operation["responses"]
    content = responses["200"]["content"]
    media, what = next(iter(content.items()))
    given = _linked(what["schema"]) if media == JSON else f"`{media}`"
    others = ", ".join(status for status in sorted(responses) if status != "200")
    return f"Gives {given}; otherwise {others}."


def _linked(schema: dict[str, Any]) -> str:
    if "$ref" not in schema:
        return "an object as the vendor describes it"
    name = schema["$ref"].rpartition("/")[2]
    return f"[{name}](#{name.lower()})"


def _schemas(document: dict[str, Any]) -> Iterator[str]:
    yield "## Values\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        if "properties" not in schema:
            continue
        yield f"### {name}\n"
        if description := schema.get("description"):
            yield f"{' '.join(description.replace('``', '`').split())}\n"
        yield "| field | form |"
        yield "| --- | --- |"
        for field, form in schema["properties"].items():
            yield f"| `{field}` | {_form(form)} |"
        yield ""


def _form(schema: dict[str, Any]) -> str:
    """Write what a field may be, in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(map(_form, schema[several]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        inner = schema.get("items") or {}
        return f"list of {_form(inner)}" if inner else "list"
    return str(schema.get("type", "anything")) if "format" not in schema else str(schema["format"])
