"""The page of the manual that lists every route, made from the application itself.

python -m contextinfinity.server.http_reference > docs/reference/http.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from contextinfinity.client.local import LocalClient
from contextinfinity.server.app import make_app
from contextinfinity.server.metrics import COUNTED, Metrics
from contextinfinity.server.problems import TABLE
from contextinfinity.server.request_bodies import JSON
from contextinfinity.settings import Settings

_OPENING = """\
# HTTP

<!-- Made by `python -m contextinfinity.server.http_reference`; change the routes, not this page. -->

`cix serve` answers at `http://127.0.0.1:8765`; its OpenAPI document is at `/openapi.json`. What it takes and gives is
JSON. Limits stand under [`[server]`](configuration.md); all workers count together.

## Callers

Every request acts for one user, and finds, changes and makes only that user's threads, turns, branches, chunks and
memories: anything else is 404, as if it did not exist. The user is the `user_id` of the body, else the `user_id` of the
query, else the token's user, else `local` (on `/chat`: `anonymous`). Under `/v1` the end user that a client names
(`user`, `safety_identifier`, `metadata.user_id`) goes before the query. The same user in another organisation
(`X-Org-Id`) is another user.

Until the first token is created, a server on this machine lets every request name any user, and ignores keys. From the
first token on (`cix token create`) every request needs a valid one, as `Authorization: Bearer TOKEN` or
`X-Api-Key: TOKEN`, but for `/healthz` and `/openapi.json`. A token acts for its user: another `user_id` is 403. One of
scope `app` acts for any user of its organisation, for one user a request. `X-Org-Id` has to be the token's. `/metrics`
needs a token of scope `app`.

A token may expire (`cix token create --expires 90d`), and can be revoked (`cix token revoke`). The 401 says which of
both happened; streams that the token opened end within a second or two, with an `error` event. When no valid token is
left the server stays closed: revoking a token never opens it. Create another one.

A request that changes something and comes from a web page of another site is refused (403, `cross_site`), by its
`Origin` or else its `Sec-Fetch-Site`, unless the origin is in `server.cors_origins`.

## Threads

A `thread_id` is one of our ids, or a name of your own (1 to 128 visible characters, no slashes; not `new`, `-`, `.` or
`..`), which counts for its owner only. Talking to `new`, or to a name that is not used yet, makes the thread; nothing
else does.

## Requests that come again

A request with the header `Idempotency-Key` (1 to 255 characters) is done once, however often it comes, also after a
restart and through another worker: a message or a query joins the turn it made the first time, `POST /threads` gives
the thread it made. The same key with another message is refused. Keys count for each user by themselves. `fork` and
`rollback` make a branch whenever they are asked; the other routes can be repeated at will.

## Streams

`text/event-stream`. The first event of a message is `turn`, sent once it is durable; the last is `done`, the finished
turn, sent once the answer is. Between them come `step` (a model is asked), `delta` (`{text}`), `durability`
(`{displayed, durable}`, in bytes), `tool`, `retry`, `clarification` (`{question, candidates: [{id, name}]}`) and
`error` (`{code, message, hint}`; `done` follows). A comment comes when there is nothing to say. The turn goes on when
nobody listens. A stream that ends without `done` was cut, by the network or because the server ended: go on at
`GET /threads/{thread_id}/turns/{turn_id}/stream` with the last id you received as `Last-Event-ID`; without one it
starts from the beginning. Any number may listen, in any worker, up to an hour after the end; later there is `done`
with the whole text.

## Chats

`POST /chat` answers one query in a session whose turns live for `retention.conversation_ttl_hours`. Without a
`session_id` a session begins, and its id is in the answer; a UUID that is not known yet is used as it is; anything
else, and a session of somebody else, is replaced by a new one. `intent` is the [router's](routing.md) label of the
question as it was resolved ("who are his children" is labelled as the question about that person's children), and
`confidence` how often labels given for that reason were right when that was measured. `data` are the pieces of the past
it was answered with. Intent, confidence and the number of those pieces (`result_count`) are kept with the turn.
`metadata.message_type` is `answer`, `clarification` (the message asks which of
`metadata.candidates` is meant; the next query may say so for five minutes) or `error` (`error` says what went wrong;
the status is 200). While the ledger is away, answers go on and are `degraded`. Without tokens and `user_id` the user
is `anonymous`, of whom nothing is known outside the session. With `retention.stateless` nothing is loaded and nothing
kept. All else of a session is done under `/threads`: its `session_id` is a `thread_id`.

## Pages

`GET /threads` and `GET /memories` give `next`, to be sent as `after`; messages give `before`, to be sent as `before`.
null: that was all. `next` is a place in the list and no id: it leads on when what stood there was deleted since.
Nothing is left out or given twice from page to page, but for a thread that was spoken in meanwhile: it is now in front.

## Problems

What goes wrong is answered as `application/problem+json` (RFC 9457): `type`, `title`, `status`, `detail`, a `code` of
the [list of errors](errors.md), and a `hint` that says what to do. An answer of a model that failed is none of these:
it is a finished turn with outcome `failed`, and status 200.

| status | when |
| --- | --- |
"""

_FIGURES = """\
## Figures

`GET /metrics` tells them for Prometheus, counted since the server started. With several workers any of them tells those
of all, so it does not matter which one a scrape meets: what was counted is added up, of workers that died too;
`streams` and `spool_depth` are sums over the workers that live; `jobs` and `ready` are what the one that answers sees
now. What another worker did behind its answers may be told up to a second later. A turn counts once, when it ends,
whoever listens; what one turn took is told by `GET /threads/{thread_id}/turns/{turn_id}` and its `context`.
"""


def reference() -> str:
    """Give the page, in Markdown."""
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
        needed = " (needed)" if one.get("required") else ""
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


if __name__ == "__main__":
    sys.stdout.write(reference())
